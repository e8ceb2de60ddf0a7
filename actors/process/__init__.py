"""ProcessActor: one child, and what is known of it."""
