"""Hooks: the questions they are asked, and their verdicts."""
