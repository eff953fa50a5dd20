"""Views: pure functions that compute readable results from events.

Each takes events (a list, or `Links` that several views share) and returns rows that are JSON as
they stand. A view knows no terminal and no file, follows links and never reads a tool's
arguments: a tool that is invented tomorrow shows in all of them. `SessionViewer` is the same
for a log file.
"""
