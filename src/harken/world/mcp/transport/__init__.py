"""Transports to MCP servers: standard input and output, and HTTP."""
