"""The git program: repositories, blame and diffs."""
