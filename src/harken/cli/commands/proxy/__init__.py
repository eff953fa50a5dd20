"""`harken proxy`."""
