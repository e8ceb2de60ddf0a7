"""The JavaScript client, tested with node's test runner against a real server."""
