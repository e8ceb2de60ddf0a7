"""The MCP server: its rules, its tools, its entrances; `clients` are those of others (`make test-mcp`)."""
