"""What an agent may be called: its words are told from those of others by its name."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection

from harken.world.result import InvalidArguments


def check_plain(name: str) -> None:
    """Raise InvalidArguments for a name that cannot be told from another party."""
    if not name.strip():
        raise InvalidArguments("an agent needs a name")
    if any(unicodedata.category(letter) in ("Cc", "Zl", "Zp") for letter in name):
        raise InvalidArguments(f"the name {name!r} has control characters; choose a plain one")
    plain = _as_read(name)
    if "[" in plain or "]" in plain:  # [NAME]: is how its words are told from those of others
        raise InvalidArguments(f"the name {name!r} has brackets; choose a plain one")
    if plain == "user" or f"{plain} ".startswith("hook "):
        raise InvalidArguments(f"an agent cannot be called {name!r}: it is neither user nor hook")


def _as_read(name: str) -> str:
    """Return a name as a reader takes it: letters in their common form, nothing that is unseen."""
    common = unicodedata.normalize("NFKC", name).casefold()
    seen = "".join(letter for letter in common if unicodedata.category(letter) != "Cf")
    return " ".join(seen.split())


def free_name(name: str, taken: Collection[str]) -> str:
    """Return a name that nobody has.

    >>> free_name("guard", ["guard"]), free_name("guard", [])
    ('guard (2)', 'guard')
    """
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name} ({number})"
    return found
