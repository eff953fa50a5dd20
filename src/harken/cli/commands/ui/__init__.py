"""`harken ui`."""
