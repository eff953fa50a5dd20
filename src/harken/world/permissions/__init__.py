"""Permissions: which actions need the user's leave, and which are not done at all."""
