"""The protocols of the pages of the home: statistics, imports, and the agents of commits."""
