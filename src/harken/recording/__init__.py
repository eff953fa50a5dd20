"""Model calls that other programs make, as sessions: exact, at the cost of what is new."""
