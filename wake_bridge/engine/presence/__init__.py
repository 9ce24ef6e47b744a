"""Where agents can be reached, and what is known of them now."""
