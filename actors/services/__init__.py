"""Services of a session: actors that answer requests about files, HTTP and the environment."""
