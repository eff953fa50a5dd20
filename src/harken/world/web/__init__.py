"""The web: pages as text for a model, and search."""
