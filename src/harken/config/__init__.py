"""The user's home folder, settings, and what they give access to."""
