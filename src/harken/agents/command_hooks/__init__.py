"""External commands as hooks, in the protocol of Claude Code's hooks."""
