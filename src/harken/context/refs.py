"""Names of commits, as people see and give them: `ctx-` and twelve or more hex digits."""

from __future__ import annotations

import re

from harken.core.commits import SHOWN, ArtifactRef, CommitId
from harken.errors import AmbiguousName, NameNotFound
from harken.store.base import Store

PREFIX = "ctx-"
_GIVEN = re.compile(r"ctx-[0-9a-f]{1,64}")
_ARTIFACT = re.compile(r"art-[0-9a-f]{1,64}")


def find(store: Store, given: str) -> CommitId:
    """Return the commit with this name, or the only one whose name begins so.

    Raises NameNotFound (also for names of other things: `art-`, `tkt-`) and AmbiguousName, which
    lists the candidates.
    """
    there = store.names_with_prefix(given) if _GIVEN.fullmatch(given) else []
    if len(there) > 1:
        raise AmbiguousName("commit", given, (name_of(store, CommitId(one)) for one in there))
    if not there:
        raise NameNotFound("commit", given, (one[: len(PREFIX) + SHOWN] for one in _some(store)))
    return CommitId(there[0])


def name_of(store: Store, commit: CommitId) -> str:
    """Return a commit's name as people see it: twelve digits, more where others begin so too."""
    shown = len(PREFIX) + SHOWN
    others = store.names_with_prefix(commit[:shown])
    while shown < len(commit) and any(
        one != commit and one.startswith(commit[:shown]) for one in others
    ):
        shown += 1
    return commit[:shown]


def _some(store: Store) -> list[str]:
    return [*store.names_with_prefix(PREFIX, 13)]


def find_any(store: Store, given: str) -> CommitId | ArtifactRef:
    """Return the commit or the artifact with this name, or the only one whose name begins so.

    Raises NameNotFound and AmbiguousName.
    """
    if given.startswith(PREFIX):
        return find(store, given)
    there = store.names_with_prefix(given) if _ARTIFACT.fullmatch(given) else []
    if len(there) > 1:
        raise AmbiguousName("artifact", given, there)
    if not there:
        raise NameNotFound(
            "commit or artifact", given, (one[: len(PREFIX) + SHOWN] for one in _some(store))
        )
    return there[0]
