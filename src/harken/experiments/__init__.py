"""Another road from a recorded request: rerun, compare, sweep."""
