"""Agents: the loop, the tree, its actions, and the hooks above it."""
