"""Branches, and heads of artifacts: names that are moved from one object to the next.

The head of a branch is a commit. The head of a ticket or of an imported file is an artifact.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from harken.core.commits import CommitId, HeadName
from harken.errors import BranchConflict, ConfigError, HarkenError, NameNotFound
from harken.store.base import BranchMove, Store

K = TypeVar("K", bound=str)
MAX_BRANCH_CHARS = 200
TICKET_PREFIX = "tkt-"
SOURCE_PREFIX = "src-"
"""The prefixes of the heads of tickets, and of imported files."""
HEAD_PREFIXES = (TICKET_PREFIX, SOURCE_PREFIX)
_RESERVED_PREFIXES = ("ctx-", "art-", *HEAD_PREFIXES, "-", "/")
_HEAD_PATTERN = re.compile(r"(?:tkt|src)-[0-9a-f]{64}")


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


def rename_branch(store: Store, name: str, new_name: str, head: CommitId) -> None:
    """Rename a branch that is at `head`.

    After a crash in between, both names exist. Raises ConfigError for an invalid name, and
    BranchConflict if the branch has another head, or the new name exists: then nothing is changed.
    """
    store.move_branch(new_name, head, expected=None)
    try:
        store.move_branch(name, None, expected=head)
    except HarkenError:
        store.move_branch(new_name, None, expected=head)
        raise


def check_head_name(name: str) -> HeadName:
    """Return the full name of the head of an artifact. Raises ConfigError for any other text."""
    if not _HEAD_PATTERN.fullmatch(name):
        raise ConfigError(f"{name!r} is not the name of a head: tkt- or src-, and 64 hex digits")
    return HeadName(name)


def check_source(name: str) -> None:
    """Raise ConfigError unless a name is that of the head of an imported file."""
    if not check_head_name(name).startswith(SOURCE_PREFIX):
        raise ConfigError(f"{name!r} is not the name of an imported file's head: src-...")


def check_moves(
    store: str | Path,
    heads: Mapping[str, CommitId],
    moves: Mapping[str, BranchMove],
    has_commit: Callable[[CommitId], bool],
) -> None:
    """Raise BranchConflict or NameNotFound unless all branches can be moved.

    heads: the current heads of these branches.
    """
    for name, move in moves.items():
        check_head(store, heads, name, move.expected)
        if not has_commit(move.to):
            raise NameNotFound("commit", move.to, [])


def check_head(store: str | Path, heads: Mapping[K, str], name: K, expected: str | None) -> None:
    """Raise BranchConflict unless a branch or an artifact's name has the expected head."""
    if heads.get(name) != expected:
        raise BranchConflict(store, name, expected=expected, actual=heads.get(name))
