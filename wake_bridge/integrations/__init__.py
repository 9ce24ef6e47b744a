"""What stands around us: adapters, agents' files, service managers, hooks, the person."""
