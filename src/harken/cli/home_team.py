"""Open the directory of a team, and the other parts that a service needs for its users."""

from __future__ import annotations

import getpass
import hashlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from harken.config.home import Home
from harken.config.settings import load_settings
from harken.core.clock import format_rfc3339, system_clock
from harken.errors import ConfigError
from harken.store.base import Store
from harken.store.capabilities import get_local_store
from harken.store.changes import ChangeStore
from harken.store.registry import POSTGRES_SCHEMES, SERVICE_SCHEMES, get_scheme
from harken.teams.access_index import AccessIndex, FollowedStore
from harken.teams.audit import AuditLog, AuditRecord
from harken.teams.directory import TeamDirectory
from harken.teams.holds import Holds
from harken.teams.sqlite_directory import SqliteDirectory
from harken.teams.team import Team

LOCAL = "local"
"""Stands for the token in audit records of commands."""


def has_team(home: Home, url: str | None = None) -> bool:
    """Whether users were added: in this home, or beside its store in PostgreSQL.

    url: the store, if it is not the configured one. Raises ConfigError, StoreError.
    """
    address = _find_postgres(home, url)
    if address is None:
        return home.team_file.exists()
    with closing(_open_postgres(address)) as directory:
        return bool(directory.users() or directory.rules())


@contextmanager
def open_directory(home: Home, *, creates: bool = False) -> Iterator[TeamDirectory]:
    """Open the directory of a home. Raises ConfigError if it does not exist, and StoreError."""
    if not creates and not has_team(home):
        raise ConfigError(f"{home.team_file}: no users; `harken user add NAME` creates one")
    if creates:
        home.create_folders()
    with closing(_open_directory(home)) as directory:
        yield directory


def open_team(home: Home, url: str | None = None) -> Team | None:
    """Open the parts of a team for a service. Return None if there are no users.

    url: the store that is served, empty for the file of the home; by default the configured one.
    Raises ConfigError, StoreError.
    """
    if not has_team(home, url):
        return None
    index = AccessIndex(_find_index(home, url))
    return Team(_open_directory(home, url), index, AuditLog(home.audit_file))


def _open_directory(home: Home, url: str | None = None) -> TeamDirectory:
    address = _find_postgres(home, url)
    return SqliteDirectory(home.team_file) if address is None else _open_postgres(address)


def _open_postgres(address: str) -> TeamDirectory:
    try:
        from harken.teams.postgres_directory import PostgresDirectory
    except ImportError as error:
        raise ConfigError(
            f"users in PostgreSQL need {error.name}: pip install 'harken[postgresql]'"
        ) from None
    return PostgresDirectory(address)


def _find_postgres(home: Home, url: str | None) -> str | None:
    """Return the URL of a store in PostgreSQL, which has the users, too, or None."""
    address = load_settings(home).store if url is None else url
    return address if address and get_scheme(address) in POSTGRES_SCHEMES else None


def _find_index(home: Home, url: str | None) -> Path:
    """Return the file of the index of a store: each store has its own."""
    address = load_settings(home).store if url is None else url
    if not address:
        return home.access_file
    digest = hashlib.sha256(address.encode("utf-8", "surrogatepass")).hexdigest()
    return home.access_file.with_name(f"access-{digest[:16]}.db")


@contextmanager
def open_holds(home: Home, store: Store) -> Iterator[Holds | None]:
    """Open the legal holds on the commits of a local store. Yield None if there are none.

    A service enforces its holds itself.
    """
    local = get_local_store(store)
    if is_in_service(home) or not has_team(home) or not isinstance(local, ChangeStore):
        yield None
        return
    with (
        open_directory(home) as directory,
        closing(AccessIndex(_find_index(home, None))) as index,
    ):
        followed: FollowedStore = local
        yield Holds(directory.rules(), followed, index)


def is_in_service(home: Home) -> bool:
    """Whether the store of the home is behind a service, which applies its rules itself."""
    return get_scheme(load_settings(home).store or "") in SERVICE_SCHEMES


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
