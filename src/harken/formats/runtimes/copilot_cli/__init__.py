"""Session files of Copilot CLI."""
