"""Credentials in texts: how they are recognized and replaced."""
