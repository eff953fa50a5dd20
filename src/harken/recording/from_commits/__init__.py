"""Commits as the events of a session, for the views of imported sessions."""
