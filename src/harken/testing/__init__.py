"""The public test kit: what third parties prove their own models and tools with."""
