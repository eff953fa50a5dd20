"""The directory of a team, and the changes of a store, on a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from harken.core import structs
from harken.core.clock import system_clock
from harken.core.commits import CommitId, CommitNotes
from harken.errors import StoreError
from harken.service.access import AccessCheck
from harken.service.app import make_app
from harken.service.server import serve_in_thread
from harken.service.sockets import address_of, listen_at
from harken.store.base import BranchMove, RetentionPolicy, Tombstone
from harken.store.postgresql.store import PostgresStore
from harken.store.remote.store import RemoteStore
from harken.teams.access_index import AccessIndex
from harken.teams.audit import AuditLog
from harken.teams.directory import Quota, RetentionRule, TeamDirectory, TeamUser
from harken.teams.postgres_directory import PostgresDirectory
from harken.teams.scopes import CommitScope, Grant
from harken.teams.team import Team
from harken.teams.tokens import create_token
from harken.testing.directory import DirectorySuite
from harken.testing.store import batch_of, commit_in
from tests.postgres_kit import PostgresServer

WHEN = "2026-01-01T00:00:00.000000Z"


class TestPostgresDirectory(DirectorySuite):
    @pytest.fixture(autouse=True)
    def place(self, postgres: PostgresServer) -> Iterator[None]:
        self.url, self.open = postgres.address(), list[TeamDirectory]()
        yield
        for directory in self.open:
            directory.close()

    def directory(self) -> TeamDirectory:
        self.open.append(PostgresDirectory(self.url))
        return self.open[-1]

    def reopen(self, directory: TeamDirectory) -> TeamDirectory:
        return self.directory()


def write(store: PostgresStore, text: str, parent: CommitId | None = None) -> CommitId:
    batch = batch_of(text, parent=parent)
    store.write(batch)
    return commit_in(batch)


def read_all(store: PostgresStore, limit: int) -> list[tuple[str, str, str, str]]:
    facts: list[tuple[str, str, str, str]] = []
    after = 0
    while (page := store.changes(after, limit)).next != after:
        facts += [(c.kind, c.name, c.to, c.was) for c in page.changes]
        after = page.next
    return facts


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_every_change_is_shown_once(postgres: PostgresServer, limit: int) -> None:
    with closing(PostgresStore(postgres.address())) as store:
        before = write(store, "before")
        store.move_branch("old", before, expected=None)
        assert read_all(store, limit) == [
            ("commit", before, "", ""),
            ("branch", "old", before, ""),
        ]
        one = batch_of("one")
        store.write(structs.replace(one, moves={"old": BranchMove(commit_in(one), before)}))
        name = commit_in(one)
        store.update_notes(name, CommitNotes(labels=("a",)))
        store.move_branch("old", None, expected=name)
        store.set_retention({before: RetentionPolicy("ephemeral", WHEN)})
        store.collect([], now="2100-01-01T00:00:00Z", grace_s=0)
        (part,) = (n for n, body in one.objects.items() if b"one" in body)
        store.purge({part: b'{"text":"[purged]","type":"text"}'}, Tombstone(WHEN, "me", ""))
        assert read_all(store, limit)[2:] == [
            ("commit", name, "", ""),
            ("branch", "old", name, before),
            ("notes", name, "", ""),
            ("branch", "old", "", name),
            ("removed", before, "", ""),
            ("purged", part, "", ""),
        ]


def test_a_reader_beside_writers_of_two_services_misses_nothing(postgres: PostgresServer) -> None:
    url = postgres.address()
    with (
        closing(PostgresStore(url)) as store,
        closing(PostgresStore(url)) as other,
        ThreadPoolExecutor(8) as threads,
    ):
        store.changes()
        stores = [store, other]
        work = [threads.submit(write, stores[n % 2], f"text {n}") for n in range(60)]
        seen: list[str] = []
        after = 0
        while len(seen) < 60:
            page = store.changes(after, 7)
            seen += [change.name for change in page.changes]
            after = page.next
        assert sorted(seen) == sorted(job.result() for job in work)


def test_two_services_share_users_rights_and_changes(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    """What one service is told holds for the other, in its next request."""
    url = postgres.address()
    with closing(PostgresStore(url)) as store, closing(PostgresDirectory(url)) as directory:
        grants = (Grant("write", CommitScope(project="cafe")),)
        directory.add_user(TeamUser("ann", WHEN, grants, quota=Quota(commits=3)))
        directory.add_user(TeamUser("cem", WHEN, (Grant("read", CommitScope(label="public")),)))
        tokens = {}
        for user in ("ann", "cem"):
            tokens[user], record = create_token(user, "x", now_us=system_clock())
            directory.add_token(record)
        with serve_team(url, tmp_path / "1") as first, serve_team(url, tmp_path / "2") as second:
            clients = {
                (user, number): RemoteStore(address, token=token)
                for user, token in tokens.items()
                for number, address in enumerate((first, second))
            }
            batch = batch_of("tea", principal="ann")
            clients["ann", 0].write(batch)
            name = commit_in(batch)
            (stored,) = clients["ann", 1].commits([name]).values()
            assert stored.notes.labels == ("project:cafe",)
            assert clients["cem", 1].commits([name]) == {}
            public = CommitNotes(labels=("project:cafe", "public"))
            clients["ann", 1].update_notes(name, public)
            assert clients["cem", 0].objects(batch.objects) == batch.objects
            pages = [clients["cem", number].changes() for number in (0, 1)]
            assert pages[0] == pages[1]
            assert [change.kind for change in pages[0].changes] == ["commit", "notes"]
            clients["ann", 0].write(batch_of("two", principal="ann"))
            clients["ann", 1].write(batch_of("three", principal="ann"))
            with pytest.raises(StoreError, match="quota of ann"):
                clients["ann", 0].write(batch_of("four", principal="ann"))
            directory.add_rule(RetentionRule("h", "hold", CommitScope(label="public")))
            directory.revoke_token(directory.tokens("ann")[0].id, WHEN)
            for number in (0, 1):
                with pytest.raises(StoreError, match="rejects this token"):
                    clients["ann", number].newest_commits()
            for client in clients.values():
                client.close()
        assert len(store.newest_commits(10)) == 3


@contextmanager
def serve_team(url: str, folder: Path) -> Iterator[str]:
    """Serve a store in PostgreSQL from a home of its own."""
    folder.mkdir()
    team = Team(
        PostgresDirectory(url), AccessIndex(folder / "access.db"), AuditLog(folder / "audit.jsonl")
    )
    with closing(PostgresStore(url)) as store, closing(team), listen_at("127.0.0.1", 0) as listener:
        app = make_app(store, AccessCheck(None), team=team)
        with serve_in_thread(app, [listener]):
            yield address_of(listener)
