"""Summaries of commits by a model, in this process or by workers."""
