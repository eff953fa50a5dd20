"""MCP: external servers with tools, resources and prompts for agents."""
