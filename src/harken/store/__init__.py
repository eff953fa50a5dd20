"""The store: objects, commits and labels of all runs; what it says it has, it has."""
