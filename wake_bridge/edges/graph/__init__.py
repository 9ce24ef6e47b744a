"""The graph as commands see it: opened, made, written in the real services' shapes (DESIGN §2)."""
