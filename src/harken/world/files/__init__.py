"""Files: read and write access of agents, and the content that they know."""
