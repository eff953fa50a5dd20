"""One turn of an agent: model calls, tool calls and the questions to hooks."""
