"""Other hosts, reached by ssh: the links that this host keeps to them, and the relay that runs over there."""
