"""ConnectionActor: one session of a client, its process ids, its audit lines."""
