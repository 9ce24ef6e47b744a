"""Where agents can be reached, and what is known of them now (DESIGN §§5–7)."""
