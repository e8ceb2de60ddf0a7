"""Minutes of mixed load."""
