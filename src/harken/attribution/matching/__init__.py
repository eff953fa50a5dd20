"""The matches of the added lines of commits with recorded edits."""
