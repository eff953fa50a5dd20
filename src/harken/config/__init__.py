"""The user's home folder and settings, and the resources that they configure."""
