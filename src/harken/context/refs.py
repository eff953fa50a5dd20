"""Abbreviated commit names in input and output: `ctx-` and twelve or more hex digits."""

from __future__ import annotations

import re

from harken.context.checkpoint import normalize_time
from harken.context.history import END_OF_TIME
from harken.core.commits import SHORT_NAME_DIGITS, ArtifactRef, CommitId
from harken.errors import AmbiguousName, NameNotFound
from harken.store.base import Store

PREFIX = "ctx-"
_ARTIFACT_PREFIX = "art-"
NOW = "now"
_DAY_END = "T23:59:59.999999Z"
_COMMIT_PATTERN = re.compile(r"ctx-[0-9a-f]{1,64}")
_ARTIFACT_PATTERN = re.compile(r"art-[0-9a-f]{1,64}")


def find_commit(store: Store, prefix: str) -> CommitId:
    """Return the commit with this name or unique prefix, branch, label, or PRINCIPAL@TIME.

    Raises NameNotFound (also for names of other kinds: `art-`, `tkt-`) and AmbiguousName, which
    lists the candidates.
    """
    matches = store.names_with_prefix(prefix) if _COMMIT_PATTERN.fullmatch(prefix) else []
    if len(matches) > 1:
        raise AmbiguousName(
            "commit", prefix, (abbreviate_name(store, CommitId(name)) for name in matches)
        )
    if not matches and (named := find_named_commit(store, prefix)) is not None:
        return named
    if not matches:
        raise NameNotFound("commit", prefix, _sample_names(store, PREFIX))
    return CommitId(matches[0])


def find_named_commit(store: Store, name: str) -> CommitId | None:
    """Return the commit of a branch, of a label, or of PRINCIPAL@TIME, else None.

    TIME is RFC 3339, a date, or `now`, which also means commits of a clock that is ahead. Raises
    AmbiguousName for a label of several commits.
    """
    if not name or name.startswith((PREFIX, _ARTIFACT_PREFIX)):
        return None
    head = store.find_branch(name)
    if head is not None:
        return head
    labelled = store.commits_by_label(name).get(name, [])
    if len(labelled) > 1:
        raise AmbiguousName("label", name, (abbreviate_name(store, ctx) for ctx in labelled))
    if labelled:
        return labelled[0]
    principal, separator, time = name.rpartition("@")
    if not separator or not principal:
        return None
    try:
        until = END_OF_TIME if time == NOW else normalize_time(time + _DAY_END * (len(time) == 10))
    except ValueError:
        return None
    return store.latest_commit(principal, until)


def abbreviate_name(store: Store, commit: CommitId) -> str:
    """Return a commit's name abbreviated to twelve digits, or more if the prefix is not unique."""
    length = len(PREFIX) + SHORT_NAME_DIGITS
    matches = store.names_with_prefix(commit[:length])
    while length < len(commit) and any(
        name != commit and name.startswith(commit[:length]) for name in matches
    ):
        length += 1
    return commit[:length]


def _sample_names(store: Store, prefix: str) -> list[str]:
    """Return some existing names, abbreviated."""
    return [name[: len(prefix) + SHORT_NAME_DIGITS] for name in store.names_with_prefix(prefix, 13)]


def find_commit_or_artifact(store: Store, prefix: str) -> CommitId | ArtifactRef:
    """Return the commit or the artifact with this name or unique prefix.

    Raises NameNotFound and AmbiguousName.
    """
    if prefix.startswith(PREFIX):
        return find_commit(store, prefix)
    matches = store.names_with_prefix(prefix) if _ARTIFACT_PATTERN.fullmatch(prefix) else []
    if len(matches) > 1:
        raise AmbiguousName("artifact", prefix, matches)
    if matches:
        return matches[0]
    if prefix.startswith(_ARTIFACT_PREFIX):
        raise NameNotFound("artifact", prefix, _sample_names(store, _ARTIFACT_PREFIX))
    samples = _sample_names(store, PREFIX) or _sample_names(store, _ARTIFACT_PREFIX)
    raise NameNotFound("commit or artifact", prefix, samples)
