"""Shipping: send logs and their commits to a remote service, without duplicates."""
