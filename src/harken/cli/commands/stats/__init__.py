"""`harken stats`."""
