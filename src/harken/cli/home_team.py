"""Open the directory of a team, and the other parts that a service needs for its users."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from contextlib import closing, contextmanager

from harken.config.home import Home
from harken.config.settings import load_settings
from harken.core.clock import format_rfc3339, system_clock
from harken.errors import ConfigError
from harken.store.base import Store
from harken.store.changes import ChangeStore
from harken.store.tiered.store import TieredStore
from harken.teams.access_index import AccessIndex, FollowedStore
from harken.teams.audit import AuditLog, AuditRecord
from harken.teams.directory import TeamDirectory
from harken.teams.holds import Holds
from harken.teams.sqlite_directory import SqliteDirectory
from harken.teams.team import Team

LOCAL = "local"
"""Stands for the token in audit records of commands."""


def has_team(home: Home) -> bool:
    """Whether users were added in this home."""
    return home.team_file.exists()


@contextmanager
def open_directory(home: Home, *, creates: bool = False) -> Iterator[TeamDirectory]:
    """Open the directory of a home. Raises ConfigError if it does not exist, and StoreError."""
    if not creates and not has_team(home):
        raise ConfigError(f"{home.team_file}: no users; `harken user add NAME` creates one")
    if creates:
        home.create_folders()
    with closing(SqliteDirectory(home.team_file)) as directory:
        yield directory


def open_team(home: Home) -> Team | None:
    """Open the parts of a team for a service. Return None if the home has no users.

    Raises ConfigError, StoreError.
    """
    if not has_team(home):
        return None
    return Team(
        SqliteDirectory(home.team_file), AccessIndex(home.access_file), AuditLog(home.audit_file)
    )


@contextmanager
def open_holds(home: Home, store: Store) -> Iterator[Holds | None]:
    """Open the legal holds on the commits of a local store. Yield None if there are none.

    A service enforces its holds itself.
    """
    local = store.local if isinstance(store, TieredStore) else store
    is_remote = load_settings(home).store is not None
    if is_remote or not has_team(home) or not isinstance(local, ChangeStore):
        yield None
        return
    with open_directory(home) as directory, closing(AccessIndex(home.access_file)) as index:
        followed: FollowedStore = local
        yield Holds(directory.rules(), followed, index)


def record_action(home: Home, action: str, *names: str) -> None:
    """Record a command in the audit log, on disk. Raises ConfigError, StoreWriteError."""
    with closing(AuditLog(home.audit_file)) as audit:
        audit.append(
            AuditRecord(
                time=format_rfc3339(system_clock()),
                user=getpass.getuser(),
                token=LOCAL,
                action=action,
                right="admin",
                names=names,
            )
        )
