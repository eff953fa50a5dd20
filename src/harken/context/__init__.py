"""Commits at work: checkpoint, materialize, compact, compare; every caller goes through here."""
