"""OAuth logins to MCP servers."""
