"""RouterActor: the directory of sessions, observers, and what the whole server has together."""
