"""The list of sessions of a home, its filters, and the index that it is filtered by."""
