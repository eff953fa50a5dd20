"""Sessions that `harken ui` runs, each in a thread of its own."""
