"""`Team`: the open directory, index and audit log of a service, and the store for each caller."""

from __future__ import annotations

from contextlib import ExitStack
from typing import cast

import msgspec

from harken.core.clock import Clock, format_rfc3339, system_clock
from harken.errors import StoreError
from harken.store.base import Store
from harken.store.changes import ChangeStore
from harken.store.remote.errors import RequestRefused
from harken.teams.access_index import AccessIndex, FollowedStore
from harken.teams.audit import AuditLog
from harken.teams.caller import Caller, find_only_project, parse_project
from harken.teams.directory import QuotaUsage, TeamDirectory
from harken.teams.guard import GuardedStore
from harken.teams.holds import HoldingStore, Holds
from harken.teams.tokens import find_fault, hash_token, is_token

_SECOND_US = 1_000_000


class Team(msgspec.Struct, frozen=True):
    """The parts of a team that a service uses."""

    directory: TeamDirectory
    index: AccessIndex
    audit: AuditLog
    clock: Clock = system_clock

    def identify(self, token: str, project: str = "") -> Caller:
        """Return the user of a token. Raises RequestRefused: for all reasons with the same text.

        project: the project that the request names for new commits.
        """
        record = self.directory.find_token(hash_token(token)) if is_token(token) else None
        fault = find_fault(record, token, self.clock())
        user = None if record is None or fault else self.directory.find_user(record.user)
        if record is None or user is None:
            raise RequestRefused("unauthorized", "this is not a valid token of this service")
        rights = user.rights.only(record.rights) if record.rights else user.rights
        return Caller(
            user.name,
            record.id,
            rights,
            parse_project(project),
            user.project or find_only_project(rights),
            user.quota,
        )

    def open_store(self, store: Store, caller: Caller, *, is_writing: bool) -> Store:
        """Return the store as a caller may use it. Raises StoreError."""
        if not isinstance(store, ChangeStore):
            raise StoreError("the store", "keeps no changes, so it cannot serve a team")
        held_store = self.hold(store)
        if caller.is_owner:
            return held_store
        return GuardedStore(
            held_store,
            self.index,
            caller,
            charge=lambda size_bytes, commits: self.charge(caller, size_bytes, commits),
            is_writing=is_writing,
            clock=self.clock,
        )

    def hold(self, store: FollowedStore) -> FollowedStore:
        """Return the store under the holds of the team."""
        holds = Holds(self.directory.rules(), store, self.index)
        return cast(FollowedStore, HoldingStore(store, holds))

    def charge(self, caller: Caller, size_bytes: int, commits: int = 0) -> None:
        """Count a write for the quota of a user. Raises RequestRefused if it is exceeded.

        What exceeds the quota of an entire period is too large; everything else may be sent later.
        """
        quota = caller.quota
        limits = [(size_bytes, quota.size_bytes, "bytes"), (commits, quota.commits, "commits")]
        if all(limit is None for _, limit, _ in limits):
            return
        for number, limit, unit in limits:
            if limit is not None and number > limit:
                reason = f"the request has {number} {unit}, and the quota is {limit} in a period"
                raise RequestRefused("too_large", reason)
        now_s = self.clock() // _SECOND_US
        period = now_s // quota.period_s * quota.period_s
        if self.directory.add_usage(caller.user, period, QuotaUsage(size_bytes, commits), quota):
            return
        end = format_rfc3339((period + quota.period_s) * _SECOND_US)
        raise RequestRefused(
            "quota_exceeded",
            f"the quota of {caller.user} is used up: {_format_quota(limits)} in "
            f"{quota.period_s} s; it begins again at {end}",
        )

    def close(self) -> None:
        """Close all parts."""
        with ExitStack() as stack:
            for part in (self.directory, self.index, self.audit):
                stack.callback(part.close)


def _format_quota(limits: list[tuple[int, int | None, str]]) -> str:
    return " and ".join(f"{limit} {unit}" for _, limit, unit in limits if limit is not None)
