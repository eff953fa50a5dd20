"""The headers of all responses."""
