"""Logins to MCP servers."""
