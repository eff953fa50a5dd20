"""Homes that push to and pull from a real service, whose connections can be cut."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harken.context.shipping.outbox import open_outbox, read_ship_state
from harken.context.shipping.shipper import Shipper
from harken.core.clock import system_clock
from harken.core.commits import ArtifactRef, CommitId, hash_raw
from harken.core.secrets.redaction import Credentials
from harken.errors import LogError
from harken.remotes.logs import LogPuller
from harken.remotes.mirror import open_mirror
from harken.remotes.pull import Puller, PullOptions
from harken.remotes.push import Pusher
from harken.remotes.result import TransferResult
from harken.service.access import AccessCheck
from harken.service.app import make_app
from harken.service.server import serve_in_thread
from harken.service.sockets import address_of, listen_at
from harken.session.session import Session
from harken.store.base import Store, WriteBatch
from harken.store.imported_files import FileRecord, encode_record, name_head
from harken.store.remote.store import RemoteStore
from harken.store.sqlite.store import SqliteStore
from harken.testing.store_kit import batch_of, commit_in
from tests.session_kit import create_agent, log_user_message, session_options

TOKEN = "a-token-for-tests-only-of-some-length"


@dataclass
class Cutter:
    """An ASGI application that counts requests, and cuts the connection of all after some."""

    app: Any
    requests: list[str] = field(default_factory=list)
    received_bytes: int = 0
    allowed: int | None = None
    """The number of requests that are answered. None: all."""
    loses_response: bool = False
    """Whether a request takes effect whose connection is cut."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def counted() -> Any:
            message = await receive()
            self.received_bytes += len(message.get("body", b""))
            return message

        async def swallow(_: Any) -> None:
            pass

        if self.allowed is not None and len(self.requests) >= self.allowed:
            if self.loses_response:
                await self.app(scope, counted, swallow)
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"{", "more_body": True})
            return  # The server closes the connection: the response is not complete.
        self.requests.append(f"{scope['method']} {scope['path']}")
        await self.app(scope, counted, send)

    def reset(self, allowed: int | None = None) -> None:
        """Count from the beginning."""
        self.requests.clear()
        self.received_bytes, self.allowed = 0, allowed


@dataclass
class Server:
    """A service, its address and its home."""

    url: str
    cutter: Cutter
    folder: Path
    store: Store


@contextmanager
def serve_home(folder: Path) -> Iterator[Server]:
    """Serve a home with a store and sessions."""
    (folder / "sessions").mkdir(parents=True, exist_ok=True)
    with closing(SqliteStore(folder / "store.db")) as store:
        app = Cutter(make_app(store, AccessCheck(TOKEN), sessions=folder / "sessions"))
        with listen_at("127.0.0.1", 0) as listener, serve_in_thread(app, [listener]):
            yield Server(address_of(listener), app, folder, store)


class Machine:
    """A home that pushes and pulls."""

    def __init__(self, folder: Path, *, patience_s: float = 0.001) -> None:
        self.folder, self.sessions = folder, folder / "sessions"
        self.sessions.mkdir(parents=True, exist_ok=True)
        self.store = SqliteStore(folder / "store.db")
        self._patience_s = patience_s

    def close(self) -> None:
        self.store.close()

    def pull(self, url: str, *sessions: str, **options: Any) -> TransferResult:
        """Pull everything, or some sessions."""
        with self._client(url) as client, open_mirror(self.folder / "remotes" / "origin") as mirror:
            chosen = PullOptions(**options)
            logs = LogPuller(
                client,
                self.sessions,
                mirror,
                lambda name: read_ship_state(self.folder / "outbox", url, name),
                system_clock,
                dry_run=chosen.dry_run,
            )
            puller = Puller(self.store, client, mirror, logs, chosen)
            return puller.pull_sessions(sessions) if sessions else puller.pull_all()

    def push(self, url: str, credentials: Credentials | None = None) -> TransferResult:
        """Push everything, as `harken push --all`. Logs that are refused are in `problems`."""
        result = TransferResult()
        with (
            self._client(url) as client,
            open_mirror(self.folder / "remotes" / "origin") as mirror,
            open_outbox(self.folder / "outbox", url) as outbox,
            outbox.staging() as staging,
        ):
            pusher = Pusher(self.store, client, mirror, credentials, staging)
            pusher.push_commits(result)
            shipper = Shipper(self.store, client, outbox, credentials)
            shipper.is_on_remote = pusher.is_on_remote
            pusher.list_logs()
            paths = sorted(self.sessions.glob("*.jsonl"))
            for path in [path for path in paths if not pusher.is_unchanged(path)]:
                try:
                    shipper.ship(path)
                except LogError as error:
                    result.conflicting_files.append(str(error))
            pusher.record_logs(paths, outbox)
            pusher.push_names(result)
        return result

    def commit(self, *texts: str, parent: CommitId | None = None, **how: Any) -> CommitId:
        """Write a commit with these messages."""
        batch = batch_of(*texts, parent=parent, **how)
        self.store.write(batch)
        return commit_in(batch)

    def commit_many(self, count: int) -> None:
        """Write unrelated commits, in one batch."""
        batches = [batch_of(f"one of {count}: {number}") for number in range(count)]
        self.store.write(
            WriteBatch(
                objects={k: v for batch in batches for k, v in batch.objects.items()},
                deltas={k: v for batch in batches for k, v in batch.deltas.items()},
                commits=[commit for batch in batches for commit in batch.commits],
            )
        )

    def log(self, name: str, *texts: str) -> Path:
        """Begin or continue a session."""
        path = self.sessions / f"{name}.jsonl"
        if path.exists():
            session = Session.load(path, options=session_options())
            agent = "agent_001"
        else:
            session = Session(path, options=session_options())
            agent = create_agent(session)
        for text in texts:
            log_user_message(session, agent, text)
        session.close()
        return path

    def import_file(self, path: str, data: bytes, tip: CommitId) -> ArtifactRef:
        """Write an imported file of this machine."""
        return write_file(self.store, path, data, tip)

    @contextmanager
    def _client(self, url: str) -> Iterator[RemoteStore]:
        if url.startswith("unix:"):
            client = RemoteStore(socket=url.removeprefix("unix:"), patience_s=self._patience_s)
        else:
            client = RemoteStore(url, token=TOKEN, patience_s=self._patience_s)
        with closing(client):
            yield client


def write_file(store: Store, path: str, data: bytes, tip: CommitId) -> ArtifactRef:
    """Write an imported file, and return its head."""
    machine = platform.node()
    report = {"format": "claude-code-v1", "session": path, "tips": [{"agent": "m", "ctx": tip}]}
    record = FileRecord(
        machine=machine, path=path, size=len(data), mtime_ns=1, tail="00", report=report
    )
    raw = hash_raw(data)
    body, sequence = encode_record(record, raw)
    head = ArtifactRef(sequence.name)
    members = [ArtifactRef(body.name), raw]
    store.write(WriteBatch(raw={raw: data, members[0]: body.body}, sequences={head: members}))
    store.set_heads({name_head(machine, path): head})
    return head


def read_state(store: Store, sessions: Path) -> dict[str, Any]:
    """Return everything that a home shows: names, contents, notes, heads and logs."""
    names = store.newest_commits(10**6)
    commits = store.commits(names)
    return {
        "commits": {name: commits[name].commit for name in sorted(names)},
        "labels": {name: {*commits[name].notes.labels} for name in names},
        "summaries": {name: commits[name].notes.summary for name in names},
        "branches": store.branches(),
        "tickets": store.heads("tkt-"),
        "retention": store.retention(),
        "objects": {obj.name: obj.body for obj in store.iter_objects()},
        "tombstones": store.tombstones(),
        "logs": {path.name: path.read_bytes() for path in sorted(sessions.glob("*.jsonl"))},
    }


def count_doubles(names: Sequence[str]) -> int:
    """Return how many names are there more than once."""
    return len(names) - len({*names})
