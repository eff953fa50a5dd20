"""A real service with a team: a store in a file, users with tokens, and clients of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx

from harken.core.clock import Clock, system_clock
from harken.service.access import AccessCheck
from harken.service.app import make_app
from harken.service.middleware import ErrorMiddleware
from harken.service.server import serve_in_thread
from harken.service.sockets import address_of, listen_at
from harken.store.remote.store import RemoteStore
from harken.store.sqlite.store import SqliteStore
from harken.teams.access_index import AccessIndex
from harken.teams.audit import AuditLog, AuditRecord, read_audit
from harken.teams.directory import Quota, TeamUser
from harken.teams.scopes import Grant, Right, parse_scope
from harken.teams.sqlite_directory import SqliteDirectory
from harken.teams.team import Team
from harken.teams.tokens import create_token
from tests.service_kit import TOKEN

WHEN = "2026-01-01T00:00:00.000000Z"
_NO_QUOTA = Quota()


class TeamService:
    """A running service, the store behind it, and tokens by user."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.folder = folder
        self.store = SqliteStore(folder / "store.db")
        self.directory = SqliteDirectory(folder / "team.db")
        self.team = Team(
            self.directory,
            AccessIndex(folder / "access.db"),
            AuditLog(folder / "audit.jsonl"),
            clock,
        )
        self.app: ErrorMiddleware
        self.url = ""
        self.tokens: dict[str, str] = {}
        self.ids: dict[str, str] = {}

    def add(
        self, name: str, *grants: str, quota: Quota = _NO_QUOTA, only: tuple[Right, ...] = ()
    ) -> str:
        """Add a user with grants such as "read project:cafe", and return a token."""
        parsed = tuple(
            Grant(right, parse_scope(scope))  # type: ignore[arg-type]
            for right, scope in (grant.split(" ", 1) for grant in grants)
        )
        self.directory.add_user(TeamUser(name, WHEN, parsed, quota=quota))
        return self.token(name, "first", only=only)

    def token(
        self, user: str, name: str, *, only: tuple[Right, ...] = (), lifetime_s: float | None = None
    ) -> str:
        token, record = create_token(
            user, name, now_us=self.team.clock(), rights=only, lifetime_s=lifetime_s
        )
        self.directory.add_token(record)
        self.tokens[user], self.ids[user] = token, record.id
        return token

    def revoke(self, user: str) -> None:
        self.directory.revoke_token(self.ids[user], WHEN)

    @contextmanager
    def remote(self, user: str) -> Iterator[RemoteStore]:
        """A remote store with the token of a user, or of the owner."""
        token = TOKEN if user == "owner" else self.tokens[user]
        with closing(RemoteStore(self.url, token=token)) as store:
            yield store

    def client(self, user: str = "", **headers: str) -> httpx.Client:
        """An HTTP client with the token of a user, or with none."""
        token = TOKEN if user == "owner" else self.tokens.get(user, "")
        if token:
            headers["authorization"] = f"Bearer {token}"
        return httpx.Client(base_url=self.url, headers=headers)

    def audit(self) -> list[AuditRecord]:
        return list(read_audit(self.folder / "audit.jsonl"))


@contextmanager
def team_service(
    folder: Path, *, clock: Clock = system_clock, any_host: bool = False, **how: Any
) -> Iterator[TeamService]:
    """Serve a new team on loopback."""
    service = TeamService(folder, clock)
    gate = AccessCheck(TOKEN, any_host=any_host)
    how = {"sessions": folder / "sessions", "team": service.team, **how}
    service.app = app = make_app(service.store, gate, **how)
    (folder / "sessions").mkdir()
    with closing(service.store), closing(service.team), listen_at("127.0.0.1", 0) as listener:
        service.url = address_of(listener)
        with serve_in_thread(app, [listener]):
            yield service
