"""Rules for the names of agents, which mark their messages in the transcripts of others."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection

from harken.world.result import InvalidArguments


def check_agent_name(name: str) -> None:
    """Raise InvalidArguments for a name that could be confused with another party."""
    if not name.strip():
        raise InvalidArguments("an agent needs a name")
    if any(unicodedata.category(letter) in ("Cc", "Zl", "Zp") for letter in name):
        raise InvalidArguments(f"the name {name!r} has control characters; choose a plain one")
    normalized = _normalize(name)
    if "[" in normalized or "]" in normalized:  # [NAME]: marks an agent's messages
        raise InvalidArguments(f"the name {name!r} has brackets; choose a plain one")
    if normalized == "user" or f"{normalized} ".startswith("hook "):
        raise InvalidArguments(f"the agent name {name!r} is reserved; choose another one")


def _normalize(name: str) -> str:
    """Return a name as a reader perceives it: NFKC, case-folded, no invisible characters."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    visible = "".join(letter for letter in folded if unicodedata.category(letter) != "Cf")
    return " ".join(visible.split())


def free_name(name: str, used_names: Collection[str]) -> str:
    """Return a name that is not taken.

    >>> free_name("guard", ["guard"]), free_name("guard", [])
    ('guard (2)', 'guard')
    """
    candidate, number = name, 1
    while candidate in used_names:
        number += 1
        candidate = f"{name} ({number})"
    return candidate
