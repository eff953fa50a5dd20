"""The log of one run: append, recover, the fold, resume; older dialects.

`Session` writes; `read_log` reads; `fold` is the one function that gives events a meaning.
"""
