"""The pages of each list of the service: together they are the list, while rows are added."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from fastapi import FastAPI
from hypothesis import given, settings
from hypothesis import strategies as st

from harken.core.commits import ArtifactRef, CommitId, HeadName, hash_raw
from harken.service.access import AccessCheck
from harken.service.app import make_app
from harken.service.openapi import describe
from harken.service.server import serve_in_thread
from harken.service.sockets import address_of, listen_at
from harken.store.base import RetentionPolicy, Store, Tombstone, WriteBatch
from harken.store.memory import MemoryStore
from harken.store.remote.store import RemoteStore
from harken.store.sqlite.store import SqliteStore
from harken.testing.store_kit import batch_of, commit_in

ROOT = "root"
NUMBERS = count()
Rows = list[tuple[str, ...]]


class Writer:
    """Adds rows to every list of a service."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store, self._folder = store, folder
        self.logs: list[str] = []
        self.root = self._commit(ROOT)

    def add(self, count: int) -> None:
        for _ in range(count):
            number = next(NUMBERS)
            data = f"raw {number}".encode()
            name = hash_raw(data)
            self.store.write(WriteBatch(raw={name: data}))
            child = self._commit(f"text {number}", parent=self.root)
            notes = self.store.commits([child])[child].notes
            labels = (f"label {number % 3}", f"own {number:06}")
            self.store.update_notes(child, type(notes)(summary=notes.summary, labels=labels))
            self.store.move_branch(f"branch/{number:06}", child, expected=None)
            self.store.set_heads({HeadName(f"src-{name[4:]}"): name})
            self.store.set_retention({child: RetentionPolicy("pin")})
            self.logs.append(f"log{number:06}")
            (self._folder / f"log{number:06}.jsonl").touch()

    def purge(self, count: int) -> None:
        for _ in range(count):
            data = f"secret {next(NUMBERS)}".encode()
            name = hash_raw(data)
            self.store.write(WriteBatch(raw={name: data}))
            self.store.purge({name: b"gone"}, Tombstone(when="2026-01-01T00:00:00Z", by="", why=""))

    def add_file(self, count: int) -> ArtifactRef:
        """Add a file of some chunks, and return its name."""
        chunks = [f"chunk {number}".encode() for number in range(count)]
        names = [hash_raw(chunk) for chunk in chunks]
        name = hash_raw(b"".join(chunks))
        self.store.write(WriteBatch(raw=dict(zip(names, chunks, strict=True)), files={name: names}))
        return name

    def _commit(self, text: str, parent: CommitId | None = None) -> CommitId:
        batch = batch_of(text, parent=parent)
        self.store.write(batch)
        return commit_in(batch)


class Pages:
    """Reads lists of a service, with a limit for each page, and adds rows between the pages."""

    def __init__(self, client: httpx.Client, url: str, writer: Writer) -> None:
        self.client, self.url, self.writer = client, url, writer
        self.added: Iterator[int] = iter(())

    def read(self, route: str, limit: int, **query: Any) -> Rows:
        """Return the rows of all pages. Each but the last has as many rows as the limit."""
        rows: Rows = []
        after: str | None = ""
        while after is not None:
            position = {"after": after} if after else {}
            body = self._request(route, {**query, **position, "limit": limit})
            after = body.pop("next", None)
            [page] = body.values()
            page_rows = list(iter_rows(page))
            assert len(page_rows) <= limit
            assert after is None or len(page_rows) == limit, (route, page_rows)
            rows += page_rows
            added = next(self.added, 0)
            self.writer.add(added)
            self.writer.purge(min(added, 1))
        return rows

    def _request(self, route: str, query: dict[str, Any]) -> dict[str, Any]:
        method, path = route.split(" ")
        if method == "GET":
            path = path.format(ctx=self.writer.root, label="label 1")
            response = self.client.get(path, params=query)
        else:
            named = {"name": self.writer.root} if "name" in query else {}
            response = self.client.post(path, json=query | named)
        assert response.status_code == 200, response.text
        result: dict[str, Any] = response.json()
        return result


def iter_rows(page: Any) -> Iterator[tuple[str, ...]]:
    """Yield the names of the rows of a page: of pairs for labels."""
    if isinstance(page, list):
        yield from (
            (row if isinstance(row, str) else row.get("id") or row["name"],) for row in page
        )
        return
    for name, value in page.items():
        yield from ((name, commit) for commit in value) if isinstance(value, list) else [(name,)]


ROUTES: dict[str, dict[str, Any]] = {
    "GET /v1/commits": {},
    "GET /v1/commits/{ctx}/children": {},
    "GET /v1/labels": {},
    "GET /v1/labels/{label}": {},
    "GET /v1/names": {"beginning": "ctx-"},
    "GET /v1/logs": {},
    "GET /v1/store/kept": {},
    "GET /v1/store/tombstones": {},
    "POST /v1/store/newest": {},
    "POST /v1/store/named": {"beginning": ""},
    "POST /v1/store/children": {"name": ROOT},
    "POST /v1/store/branches": {},
    "POST /v1/store/heads": {},
    "POST /v1/store/labelled": {},
}
OTHER_POSITIONS = {
    "GET /v1/commits/{ctx}/history",  # at the parent of the last commit
    "GET /v1/store/chunks/{name}",  # at a number of chunks, which do not change
    "GET /v1/changes",
    "GET /v1/audit",
}


@contextmanager
def serving(store: Store, folder: Path) -> Iterator[Pages]:
    """Serve a store and a folder of logs."""
    app = make_app(store, AccessCheck(None), sessions=folder)
    with listen_at("127.0.0.1", 0) as listener, serve_in_thread(app, [listener]):
        url = address_of(listener)
        with httpx.Client(base_url=url, trust_env=False) as client:
            yield Pages(client, url, Writer(store, folder))


@given(
    rows=st.integers(0, 9),
    limit=st.integers(1, 4),
    added=st.lists(st.integers(0, 2), max_size=6),
)
@settings(max_examples=6, deadline=None)
def test_pages_are_the_list_while_rows_are_added(rows: int, limit: int, added: list[int]) -> None:
    with TemporaryDirectory() as folder, serving(MemoryStore(), Path(folder)) as pages:
        check_all(pages, rows, limit, added)


def test_pages_of_a_store_in_a_file_are_the_list(tmp_path: Path) -> None:
    with (
        closing(SqliteStore(tmp_path / "store.db")) as store,
        serving(store, tmp_path) as pages,
    ):
        check_all(pages, rows=7, limit=3, added=[1, 0, 2])


def check_all(pages: Pages, rows: int, limit: int, added: list[int]) -> None:
    """Compare the pages of each list with the lists before and after."""
    pages.writer.add(rows)
    pages.writer.purge(rows)
    for route, query in ROUTES.items():
        before = pages.read(route, 10_000, **query)
        pages.added = iter(added)
        read = pages.read(route, limit, **query)
        pages.added = iter(())
        after = pages.read(route, 10_000, **query)
        assert len(read) == len({*read}), route
        assert {*before} <= {*read} <= {*after}, route
        assert read == [row for row in after if row in {*read}], route


def test_clients_read_all_pages() -> None:
    """A client of small pages has the same answers as the store."""

    class SmallPages(RemoteStore):
        page_limit = 2

    store = MemoryStore()
    with TemporaryDirectory() as folder, serving(store, Path(folder)) as pages:
        writer = pages.writer
        writer.add(7)
        writer.purge(5)
        large = writer.add_file(5)
        with closing(SmallPages(pages.url, token="t")) as client:
            for ask in QUESTIONS:
                assert ask(client, writer.root) == ask(store, writer.root)
            assert client.chunk_names(large) == store.chunk_names(large)
            assert len(client.chunk_names(large)) == 5
            assert [log.name for log in client.iter_logs()] == sorted(writer.logs)


QUESTIONS: list[Callable[[Store, CommitId], object]] = [
    lambda store, _: store.newest_commits(100),
    lambda store, _: store.newest_commits(5),
    lambda store, _: store.newest_commits(4, before=store.newest_commits(2)[-1]),
    lambda store, root: store.newest_commits(4, before=root),
    lambda store, _: store.names_with_prefix("", 100),
    lambda store, _: store.names_with_prefix("ctx-", 5),
    lambda store, root: store.children(root),
    lambda store, _: store.commits_by_label(),
    lambda store, _: store.commits_by_label("label 1"),
    lambda store, _: list(store.branches().items()),
    lambda store, _: store.heads(),
    lambda store, _: store.retention(),
    lambda store, _: store.tombstones(),
]


def test_every_list_is_read_in_pages() -> None:
    app = make_app(MemoryStore(), AccessCheck(None)).inner
    assert isinstance(app, FastAPI)
    description = describe(app)
    schemas = description["components"]["schemas"]
    paged = set()
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            content = operation["responses"]["200"].get("content", {})
            ref = content.get("application/json", {}).get("schema", {}).get("$ref", "")
            if "next" in schemas.get(ref.rpartition("/")[2], {}).get("properties", {}):
                paged.add(f"{method.upper()} {path}")
    assert paged == {*ROUTES} | OTHER_POSITIONS
