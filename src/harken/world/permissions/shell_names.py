"""Write a set of names as one text."""

from __future__ import annotations


def name_set(text: str) -> frozenset[str]:
    """Return the words of a text as a set.

    >>> sorted(name_set("b a"))
    ['a', 'b']
    """
    return frozenset(text.split())
