"""Batch work: a function is applied to many items, in processes of this machine or on Ray."""
