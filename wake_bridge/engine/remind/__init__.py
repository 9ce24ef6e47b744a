"""Whom nothing else tells: the heartbeat for agents, one word for the person."""
