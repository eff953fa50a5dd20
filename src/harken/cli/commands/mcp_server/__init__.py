"""`harken mcp-server`: tickets, search and history for MCP clients."""
