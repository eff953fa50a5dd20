"""The routes of the viewer, one module for each group."""
