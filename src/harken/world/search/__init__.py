"""Search: which files there are and where a pattern occurs, by ripgrep or by Python."""
