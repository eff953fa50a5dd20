"""Memory of agents: notes beyond the session, and the session transcript."""
