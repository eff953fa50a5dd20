"""Resuming a conversation in another client, and checking that the client accepts it."""
