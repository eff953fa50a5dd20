"""Analytics: numbers over the facts. Each is a pure function of a database with their tables.

It takes the database (`index.schema`) and a `Scope` (what is counted) and returns frozen structs
that are JSON as they stand. What compactions and forks repeat counts once, and so does each
response of a provider. None says that nobody knows; it is never 0.
"""
