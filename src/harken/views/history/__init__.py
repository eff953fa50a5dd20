"""The history of commits, as rows with the lanes of a graph, and the comparison of two commits."""
