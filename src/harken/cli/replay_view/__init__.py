"""The window of `harken replay`."""
