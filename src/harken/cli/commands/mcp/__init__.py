"""`harken mcp`."""
