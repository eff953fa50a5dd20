"""Search: list files and find patterns, with ripgrep or Python."""
