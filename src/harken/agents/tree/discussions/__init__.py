"""Discussions: their order, the replies of judges and moderators, and the rounds."""
