"""The writer: what an agent of another program reads and writes, as events and commits."""
