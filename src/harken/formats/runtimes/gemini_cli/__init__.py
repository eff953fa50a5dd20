"""Session files of Gemini CLI."""
