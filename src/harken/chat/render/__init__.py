"""Text of a chat: answers, tool calls, status lines."""
