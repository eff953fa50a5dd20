"""Logs of evaluations and of multi-agent frameworks."""
