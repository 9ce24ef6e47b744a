"""What wake-bridge connects to: adapters, agents' files, service managers, hooks, the person."""
