"""`harken ticket`: work items in the store."""
