"""Conversations of agents as lists of items, for a view that pages and follows them."""
