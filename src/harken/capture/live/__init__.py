"""Record running clients: their output becomes events, and commits at turn boundaries."""
