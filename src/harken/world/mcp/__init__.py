"""MCP: servers elsewhere whose tools, resources and prompts agents can use."""
