"""What wake-bridge is about, pure: no I/O, no clock, no logging."""
