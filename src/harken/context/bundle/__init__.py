"""Bundles: one file with commits, their whole histories, and session logs, for another machine."""
