"""The pipeline at work: tail, coalesce, watch, deliver."""
