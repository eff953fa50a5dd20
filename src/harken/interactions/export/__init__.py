"""Threads of interactions as files, and back."""
