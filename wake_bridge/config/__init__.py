"""The configuration: where it lies, which keys it has, and every mistake in it."""
