"""Copies between stores: commits with what they need, tickets, and imported files."""
