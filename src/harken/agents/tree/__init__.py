"""Actions that change the tree of agents."""
