"""Rights, and their scopes: commits of a principal, a project or a label.

The project of a commit is its label `project:NAME`, so it is kept, copied and moved with the
commit. A scope covers a commit if all of its members do; a user has the union of all grants.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Literal, TypeAlias, get_args

import msgspec

from harken.errors import ConfigError

Right: TypeAlias = Literal["read", "write", "copy", "purge", "admin"]
"""`write`: commits in one's own name, labels and branches. `copy`: commits of other principals, as
they are. `purge`: remove content and set its retention. `admin`: collect, and move commits between
projects. All but `admin` include `read` in the same scope.
"""
RIGHTS: tuple[Right, ...] = get_args(Right)
PROJECT_PREFIX = "project:"
MAX_NAME_CHARS = 100
SUBAGENT_SEPARATOR = "/"
_USER_PATTERN = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_PROJECT_PATTERN = re.compile(r"\w[\w.-]*")
_READING: tuple[Right, ...] = ("read", "write", "copy", "purge")


class CommitFacts(msgspec.Struct, frozen=True):
    """The members of a commit on which rights depend."""

    principal: str
    labels: tuple[str, ...] = ()
    """Sorted."""

    @property
    def project(self) -> str:
        """The project of the commit, or ""."""
        return next(iter(list_projects(self.labels)), "")


class CommitScope(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A set of commits, by members of which None covers every value."""

    principal: str | None = None
    """Covers the subagents of the principal, too."""
    project: str | None = None
    label: str | None = None

    def covers(self, facts: CommitFacts) -> bool:
        """Whether a commit is in this scope."""
        return (
            (self.principal is None or is_principal_of(facts.principal, self.principal))
            and (self.project is None or PROJECT_PREFIX + self.project in facts.labels)
            and (self.label is None or self.label in facts.labels)
        )

    @property
    def is_unlimited(self) -> bool:
        """Whether it covers everything, also content that belongs to no commit."""
        return self == CommitScope()

    def __str__(self) -> str:
        members = msgspec.structs.asdict(self).items()
        return ",".join(f"{name}:{value}" for name, value in members if value is not None) or "*"


class Grant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A right in a scope."""

    right: Right
    scope: CommitScope = CommitScope()

    def __str__(self) -> str:
        return f"{self.right} {self.scope}"


class Rights(msgspec.Struct, frozen=True):
    """The grants of a user, or of a token that has fewer."""

    grants: tuple[Grant, ...] = ()

    def scopes(self, right: Right) -> tuple[CommitScope, ...]:
        """Return the scopes of a right, with those of rights that include it."""
        included = _READING if right == "read" else (right,)
        return tuple(grant.scope for grant in self.grants if grant.right in included)

    def has(self, right: Right) -> bool:
        """Whether there is any scope of this right."""
        return bool(self.scopes(right))

    def covers(self, right: Right, facts: CommitFacts) -> bool:
        """Whether a commit is in a scope of this right."""
        return any(scope.covers(facts) for scope in self.scopes(right))

    def is_unlimited(self, right: Right) -> bool:
        """Whether this right covers everything."""
        return any(scope.is_unlimited for scope in self.scopes(right))

    def only(self, rights: Iterable[Right]) -> Rights:
        """Return the grants of these rights. A token for reading keeps the read scopes of all."""
        grants = [grant for grant in self.grants if grant.right in rights]
        if "read" in rights:
            grants += [Grant("read", scope) for scope in self.scopes("read")]
        return Rights(tuple(dict.fromkeys(grants)))


def is_principal_of(principal: str, name: str) -> bool:
    """Whether a principal is this one, or a subagent of it."""
    return principal == name or principal.startswith(name + SUBAGENT_SEPARATOR)


def list_projects(labels: Iterable[str]) -> list[str]:
    """Return the projects that labels name."""
    start = len(PROJECT_PREFIX)
    return [label[start:] for label in labels if label.startswith(PROJECT_PREFIX)]


def check_user_name(name: str) -> str:
    """Return the name of a user. Raises ConfigError: it is a principal, and part of file names."""
    if not _USER_PATTERN.fullmatch(name):
        raise ConfigError(
            f"{name!r} is not the name of a user: use up to 64 lower-case letters, digits, '.', "
            "'_' and '-', such as ann"
        )
    return name


def check_project(name: str) -> str:
    """Return the name of a project. Raises ConfigError.

    Names that look the same because of another normalization are refused.
    """
    if (
        len(name) > MAX_NAME_CHARS
        or not _PROJECT_PATTERN.fullmatch(name)
        or unicodedata.normalize("NFKC", name) != name
    ):
        raise ConfigError(
            f"{name!r} is not the name of a project: use up to {MAX_NAME_CHARS} letters, digits, "
            "'.', '_' and '-' (in the normal form NFKC), such as cafe"
        )
    return name


def parse_scope(text: str) -> CommitScope:
    """Parse `project:cafe,label:public`, or `*` for everything. Raises ConfigError."""
    members: dict[str, str] = {}
    for part in [] if text == "*" else text.split(","):
        name, colon, value = part.partition(":")
        if name not in CommitScope.__struct_fields__ or not colon or not value or name in members:
            raise ConfigError(
                f"{text!r} is not a scope: use principal:NAME, project:NAME, label:NAME, several "
                "with commas, or *"
            )
        members[name] = value
    if "project" in members:
        check_project(members["project"])
    return CommitScope(**members)
