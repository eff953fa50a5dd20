"""The web: a page as text for a model, and what a search finds."""
