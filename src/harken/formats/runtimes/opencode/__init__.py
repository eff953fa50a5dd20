"""Session databases of OpenCode."""
