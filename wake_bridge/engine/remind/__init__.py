"""Reminds those whom nothing else reaches: the heartbeat for agents, notices for the person."""
