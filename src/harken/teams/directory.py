"""`TeamDirectory`: the protocol of the place of users, tokens, rules and usage.

Every implementation passes `harken.testing.directory.DirectorySuite`. Several services may share
a directory: each request reads it, so a revoked token is refused by all of them at once.
"""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

from harken.core.commits import CommitId
from harken.teams.scopes import CommitScope, Grant, Right, Rights


class Quota(msgspec.Struct, frozen=True, omit_defaults=True):
    """The limits of the writes of a user in a period, of which None sets no limit."""

    size_bytes: int | None = None
    commits: int | None = None
    period_s: int = 86_400
    """Periods begin at multiples of this since 1970, in UTC."""


class TeamUser(msgspec.Struct, frozen=True, omit_defaults=True):
    """A member of the team. The name is the principal of the user's commits."""

    name: str
    created_at: str
    grants: tuple[Grant, ...] = ()
    project: str = ""
    """The project of commits that name none. Empty: the only one that the user may write."""
    quota: Quota = Quota()

    @property
    def rights(self) -> Rights:
        """The rights of the user."""
        return Rights(self.grants)


class TokenRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The record of a token, which does not contain it."""

    id: str
    """Public: names the token in commands and in the audit log."""
    user: str
    name: str
    digest: str
    """The hash of the token, 64 hex digits."""
    created_at: str
    expires_at: str | None = None
    revoked_at: str | None = None
    rights: tuple[Right, ...] = ()
    """The rights of the user that the token has. Empty: all."""


class RetentionRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """A rule about the commits in a scope: `expire` after an age, or `hold` them."""

    name: str
    kind: Literal["expire", "hold"]
    scope: CommitScope = CommitScope()
    older_than_s: int | None = None
    """For `expire`: by the time of the commit."""
    commit: CommitId | None = None
    """For `hold`: one commit, in place of a scope."""
    reason: str = ""


class QuotaUsage(msgspec.Struct, frozen=True):
    """The bytes and commits that a user wrote in a period."""

    size_bytes: int = 0
    commits: int = 0


class TeamDirectory(Protocol):
    """The users, tokens and rules of a team. All methods block. Threads may share it.

    A change is durable on return. Methods raise StoreError if the directory cannot be used.
    """

    def users(self) -> list[TeamUser]:
        """Return the users, sorted by name."""
        ...

    def find_user(self, name: str) -> TeamUser | None:
        """Return a user, or None."""
        ...

    def add_user(self, user: TeamUser) -> None:
        """Add a user. Raises ConfigError if the name is taken, also by a removed user."""
        ...

    def change_user(self, user: TeamUser) -> None:
        """Replace the grants, the project and the quota of a user. Raises NameNotFound."""
        ...

    def remove_user(self, name: str, when: str) -> None:
        """Remove a user and revoke the tokens, in one step. Raises NameNotFound.

        The name stays taken: another person must not inherit the commits of this one.
        """
        ...

    def tokens(self, user: str | None = None) -> list[TokenRecord]:
        """Return the tokens of a user, or of all, in the order of their creation."""
        ...

    def find_token(self, digest: str) -> TokenRecord | None:
        """Return the token with this hash, or None, also if its user was removed."""
        ...

    def add_token(self, token: TokenRecord) -> None:
        """Add a token.

        Raises NameNotFound for a user that does not exist; ConfigError if the user has a token of
        this name that is not revoked.
        """
        ...

    def revoke_token(self, token_id: str, when: str) -> TokenRecord:
        """Revoke a token and return it. A second call changes nothing. Raises NameNotFound."""
        ...

    def rules(self) -> list[RetentionRule]:
        """Return the retention rules, sorted by name."""
        ...

    def add_rule(self, rule: RetentionRule) -> None:
        """Add a rule. Raises ConfigError if the name is taken."""
        ...

    def remove_rule(self, name: str) -> None:
        """Remove a rule. Raises NameNotFound."""
        ...

    def add_usage(self, user: str, period: int, usage: QuotaUsage, quota: Quota) -> bool:
        """Add to the usage of a period if it stays within the quota; return whether it does.

        Atomic also for several services. A user who has exceeded it may not use the remainder.
        """
        ...

    def usage(self, user: str, period: int) -> QuotaUsage:
        """Return the usage of a period."""
        ...

    def close(self) -> None:
        """Close the directory. A second call does nothing."""
        ...
