"""Replay of a session: its recorded inputs, and a check that the same events follow."""
