"""Answers people's questions: what happened to something, the state of everybody, where an identity can be woken."""
