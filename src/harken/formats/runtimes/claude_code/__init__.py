"""Session files of Claude Code."""
