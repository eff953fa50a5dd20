"""`harken sessions`."""
