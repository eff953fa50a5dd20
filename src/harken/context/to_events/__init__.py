"""Commits as session events."""
