"""Runtimes that run: what they say becomes events, and at its boundaries commits."""
