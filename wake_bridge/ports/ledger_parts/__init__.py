"""The ledger's port in its parts; `wake_bridge.ports.ledger` joins them."""
