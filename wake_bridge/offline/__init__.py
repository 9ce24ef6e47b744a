"""What commands do without the daemon."""
