"""Remotes: push to, pull from and clone another home through its service."""
