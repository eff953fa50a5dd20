"""Costs at 1,000 to 100,000 sessions of a home, which are generated."""
