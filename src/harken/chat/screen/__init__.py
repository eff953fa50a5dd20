"""The screen of a chat: input, layout, key bindings and prompts."""
