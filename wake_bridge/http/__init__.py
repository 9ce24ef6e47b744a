"""Signed wakes from other hosts: the only package that needs the extra `http`."""
