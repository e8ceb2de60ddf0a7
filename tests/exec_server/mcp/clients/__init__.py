"""Clients of others, tried with our MCP server: `make test-mcp`."""
