"""Retention policies of a remote: a pin travels, and nothing travels that removes content.

A policy for content that came with the same transfer is taken as it is. For other content, only
policies that retain it are taken, and only if it has none: so a remote cannot remove what is here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress

from harken.core.commits import ArtifactRef, CommitId
from harken.errors import NameNotFound
from harken.store.base import RetentionPolicy, Store


def copy_retention(
    source: Mapping[CommitId | ArtifactRef, RetentionPolicy],
    target: Store,
    *,
    new: Collection[str],
    dry_run: bool = False,
) -> int:
    """Set the policies of another store. Return their number.

    new: commits that came with this transfer. Raises StoreError.
    """
    existing = target.retention()
    changes: dict[CommitId | ArtifactRef, RetentionPolicy | None] = {
        name: policy
        for name, policy in source.items()
        if name not in existing and (name in new or policy.policy != "ephemeral")
    }
    if dry_run or not changes:
        return len(changes)
    with suppress(NameNotFound):
        target.set_retention(changes)
        return len(changes)
    count = 0
    for name, policy in changes.items():
        with suppress(NameNotFound):  # It is of content that did not travel.
            target.set_retention({name: policy})
            count += 1
    return count
