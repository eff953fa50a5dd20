"""Logs of Inspect AI."""
