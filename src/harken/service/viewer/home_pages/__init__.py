"""What the pages of the home ask for: statistics, imports, and the agents of commits."""
