"""What became of one thing: a message, a task, a log row (`why`)."""
