"""Shipping: logs and their commits go to a service elsewhere, and are there once."""
