"""Derived data: the import catalogue, the session index, and full-text search."""
