"""The daemon: its life, the jobs that it keeps running, its regular chores, and its own process."""
