"""Costs of homes with generated sessions, at growing sizes."""
