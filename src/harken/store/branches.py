"""Branches and tickets: named heads of histories, moved by compare-and-swap."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from harken.core.commits import TicketId
from harken.errors import BranchConflict, ConfigError

K = TypeVar("K", bound=str)
MAX_BRANCH_CHARS = 200
TICKET_PREFIX = "tkt-"
_RESERVED_PREFIXES = ("ctx-", "art-", TICKET_PREFIX, "-", "/")
_TICKET_PATTERN = re.compile(r"tkt-[0-9a-f]{64}")


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


def check_ticket(name: str) -> TicketId:
    """Return the full id of a ticket. Raises ConfigError for any other text."""
    if not _TICKET_PATTERN.fullmatch(name):
        raise ConfigError(f"{name!r} is not the id of a ticket: tkt- and 64 hex digits")
    return TicketId(name)


def check_head(store: str | Path, heads: Mapping[K, str], name: K, expected: str | None) -> None:
    """Raise BranchConflict unless a branch or a ticket has the expected head."""
    if heads.get(name) != expected:
        raise BranchConflict(store, name, expected=expected, actual=heads.get(name))
