"""Formats: how a provider or a runtime writes conversations; one file each, read and written."""
