"""`exec-server mcp`: a server of the Model Context Protocol, which gives any agent a machine. docs/mcp.md describes it.

    stdio or Streamable HTTP ──► server ──► tools, resources ──► session ──► machine ──► Environment, UnifiedExec

One `McpSession` for each session of a client: its commands, what it has read, what it subscribed to.
"""
