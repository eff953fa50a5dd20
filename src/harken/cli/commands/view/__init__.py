"""`harken view`."""
