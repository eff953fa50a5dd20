"""Branches: named heads of histories, moved by compare-and-swap."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harken.core.commits import CommitId
from harken.errors import BranchConflict, ConfigError

MAX_BRANCH_CHARS = 200
_RESERVED_PREFIXES = ("ctx-", "art-", "-", "/")


def check_branch(name: str) -> None:
    """Raise ConfigError unless a text can be the name of a branch: `main`, `review/alice`."""
    is_valid = (
        0 < len(name) <= MAX_BRANCH_CHARS
        and name.isprintable()
        and not any(letter.isspace() or letter == "@" for letter in name)
        and not name.startswith(_RESERVED_PREFIXES)
        and not name.endswith("/")
        and "//" not in name
    )
    if not is_valid:
        raise ConfigError(
            f"{name!r} is not the name of a branch: use up to {MAX_BRANCH_CHARS} printable "
            "characters without blanks and @, such as main or review/alice"
        )


def check_head(
    store: str | Path, heads: Mapping[str, CommitId], name: str, expected: CommitId | None
) -> None:
    """Raise BranchConflict unless a branch has the expected head."""
    if heads.get(name) != expected:
        raise BranchConflict(store, name, expected=expected, actual=heads.get(name))
