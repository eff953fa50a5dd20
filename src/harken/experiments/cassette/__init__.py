"""Recorded model calls for tests."""
