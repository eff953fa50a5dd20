"""The chat in a terminal: a listener of the session that draws, and an input below it.

Imported only where the chat runs in a terminal.
"""
