"""The hooks and tools that ship with Harken."""
