"""Session files of Pi."""
