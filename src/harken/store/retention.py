"""Retention policies: validation, expiry, and reachability from roots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import get_type_hints

import msgspec

from harken.core.clock import parse_rfc3339
from harken.store.base import Name, RetentionPolicy

_POLICIES = get_type_hints(RetentionPolicy)["policy"]


def check_policy(keeping: RetentionPolicy) -> None:
    """Raise ValueError for an unknown policy, or an end time that the policy cannot have."""
    try:
        msgspec.convert(keeping.policy, _POLICIES)
    except msgspec.ValidationError:
        raise ValueError(f"{keeping.policy!r} is not a policy") from None
    if keeping.policy != "ephemeral":
        if keeping.until is not None:
            raise ValueError(f"`until` needs the policy 'ephemeral', not {keeping.policy!r}")
        return
    if keeping.until is None:
        raise ValueError("the policy 'ephemeral' needs a time: pass `until`")
    parse_rfc3339(keeping.until)


def has_expired(keeping: RetentionPolicy | None, now_us: int) -> bool:
    """Whether a policy has an end time that has passed."""
    return (
        keeping is not None and keeping.until is not None and parse_rfc3339(keeping.until) <= now_us
    )


def active_names(policies: Mapping[Name, RetentionPolicy], now_us: int) -> set[Name]:
    """Return the names with a policy that has not expired."""
    return {name for name, policy in policies.items() if not has_expired(policy, now_us)}


def find_reachable(roots: Iterable[Name], needs: Callable[[Name], Iterable[Name]]) -> set[Name]:
    """Return the roots and all their transitive needs.

    >>> sorted(find_reachable(["c"], {"c": ["b"], "b": ["a"], "a": [], "x": ["a"]}.__getitem__))
    ['a', 'b', 'c']
    """
    names = set(roots)
    queue = list(names)
    while queue:
        for name in needs(queue.pop()):
            if name not in names:
                names.add(name)
                queue.append(name)
    return names
