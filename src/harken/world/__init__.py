"""The World and its tools: everything outside the agents that they can act on."""
