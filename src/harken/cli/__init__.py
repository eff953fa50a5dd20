"""The commands, one file a verb; the only code that reads environment, home and terminal."""
