"""A remote store: the wire format, and the client of the service."""
