"""The recorded edits: their index, and their texts in the store."""
