"""`harken store purge`."""
