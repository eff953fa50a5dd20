"""`harken chat`."""
