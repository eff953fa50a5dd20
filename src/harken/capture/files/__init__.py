"""Import of session files of other coding agents."""
