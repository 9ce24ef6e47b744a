"""What the demo plays on, and tests as well: a HOME, a tmux server and agents of its own."""
