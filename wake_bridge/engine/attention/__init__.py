"""Gets the attention of those whom nothing else reaches: notices and escalations for the person, the heartbeat for agents."""
