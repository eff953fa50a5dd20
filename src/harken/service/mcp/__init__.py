"""Tools as an MCP server, on standard input and output or over HTTP."""
