"""Session files of Codex."""
