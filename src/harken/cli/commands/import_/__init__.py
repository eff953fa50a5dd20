"""`harken import`."""
