"""Numbers and tables over the facts: what happened, how often, how long, and what it cost."""
