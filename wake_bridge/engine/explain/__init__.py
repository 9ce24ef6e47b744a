"""What people ask: what became of one thing, how everybody stands, where one can be woken."""
