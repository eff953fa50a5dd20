"""Commits as the events of a session, in memory: what a log of it would say, and no log."""
