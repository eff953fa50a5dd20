"""Text for a terminal: styles, tables, Markdown, progress."""
