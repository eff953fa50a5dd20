"""The sender of a request: a user with a token, or the owner of the home."""

from __future__ import annotations

from urllib.parse import unquote

import msgspec

from harken.store.remote.errors import RequestRefused
from harken.teams.directory import Quota
from harken.teams.scopes import (
    SUBAGENT_SEPARATOR,
    Rights,
    check_project,
    is_principal_of,
)

OWNER = "owner"
USER_SEPARATOR = "~"
"""Follows the name of a user in the file names of received logs. It is in no other name."""


class Caller(msgspec.Struct, frozen=True):
    """A user, with the rights of the token."""

    user: str
    token: str
    """The public id of the token."""
    rights: Rights
    project: str = ""
    """The project that the request names for new commits."""
    default_project: str = ""
    """The project of new commits whose parent has none that the user may write."""
    quota: Quota = Quota()
    is_owner: bool = False
    """Whether the token is that of the home, which may do everything."""

    def sign(self, principal: str) -> str:
        """Return the principal of a new commit of this user.

        The client may name a subagent. Raises RequestRefused for another principal.
        """
        if self.is_owner:
            return principal
        if not principal:
            return self.user
        if is_principal_of(principal, self.user):
            return principal
        raise RequestRefused(
            "forbidden",
            f"this token writes as {self.user}, not as another principal; omit it, or name a "
            f"subagent as {self.user}{SUBAGENT_SEPARATOR}NAME",
        )


def parse_project(header: str) -> str:
    """Return the project that a request names, percent-encoded, or "". Raises RequestRefused."""
    try:
        return check_project(unquote(header, errors="strict")) if header else ""
    except ValueError as error:
        raise RequestRefused("invalid", str(error)) from None


def find_only_project(rights: Rights) -> str:
    """Return the project if it is the only one in which the user may write, else ""."""
    scopes = [*rights.scopes("write"), *rights.scopes("copy")]
    projects = {scope.project for scope in scopes}
    return next(iter(projects)) or "" if len(projects) == 1 else ""
