"""The import of sessions of other runtimes, started by the page."""
