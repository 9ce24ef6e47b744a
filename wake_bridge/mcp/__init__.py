"""The MCP server: mail, tasks and subscriptions as tools for the agent that started it."""
