"""A two-tier store: a local file in front of a backing store."""
