"""`harken ctx`."""
