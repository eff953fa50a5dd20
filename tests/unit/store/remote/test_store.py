"""A remote store over broken connections and with wrong answers."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harken.core.commits import Commit, CommitId, CommitNotes, Hash, commit_bytes, hash_raw
from harken.errors import BranchConflict, ConfigError, NotesConflict, ObjectCorrupted, StoreError
from harken.service.dependencies import ServiceLimits
from harken.service.sockets import address_of, listen_at
from harken.store.base import BranchMove, ObjectKind, Store, WriteBatch
from harken.store.memory import MemoryStore
from harken.store.remote import wire
from harken.store.remote.store import RemoteStore
from harken.store.sqlite.store import SqliteStore
from harken.testing.store import batch_of, commit_in
from tests.service_kit import TOKEN, serve_store

NAME = "0" * 64


@contextmanager
def remote(store: Store | None = None, **how: Any) -> Iterator[RemoteStore]:
    with serve_store(store, **how) as url:
        asking = RemoteStore(url, token=TOKEN)
        try:
            yield asking
        finally:
            asking.close()


@dataclass
class FakeServer:
    """A server that returns the configured answers and counts requests."""

    body: bytes = b"{}"
    kind: str = wire.JSON
    status: int = 200
    cut: int = 0
    """How many connections are cut off before it answers."""
    tombstones: bytes = b'{"tombstones":{}}'
    asked: list[str] = field(default_factory=list)


@contextmanager
def connect(liar: FakeServer) -> Iterator[RemoteStore]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            liar.asked.append(self.path)
            if len(liar.asked) <= liar.cut:
                self.close_connection = True
                return
            stones = self.path.startswith("/v1/store/tombstones")
            body, kind = (liar.tombstones, wire.JSON) if stones else (liar.body, liar.kind)
            self.send_response(liar.status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST  # noqa: N815 - the name of the library

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    store = RemoteStore(f"http://127.0.0.1:{server.server_address[1]}", patience_s=0.01)
    try:
        yield store
    finally:
        store.close()
        server.shutdown()
        server.server_close()
        thread.join()


def test_unreachable_service_error_has_the_address() -> None:
    with listen_at("127.0.0.1", 0) as free:
        url = address_of(free)
    store = RemoteStore(url, patience_s=0.1)
    start = time.monotonic()
    with pytest.raises(StoreError, match=rf"{url}: cannot be reached .*harken serve"):
        store.newest_commits()
    assert time.monotonic() - start < 20
    store.close()


# httpcore leaves a socket that could not be connected to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_missing_socket_is_named(tmp_path: Path) -> None:
    store = RemoteStore(socket=tmp_path / "s", patience_s=0)
    with pytest.raises(StoreError, match=f"unix:{tmp_path}/s: cannot be reached"):
        store.newest_commits()
    store.close()


def test_wrong_token_is_refused_without_printing_it() -> None:
    with serve_store() as url:
        store = RemoteStore(url, token="a-wrong-one")
        with pytest.raises(StoreError, match="token") as refused:
            store.newest_commits()
        assert "a-wrong-one" not in str(refused.value)
        store.close()


@pytest.mark.parametrize(
    "url", ["", "x", "ftp://x", "http://", "http://x:y", "http://[", "http://a@b"]
)
def test_invalid_address_is_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        RemoteStore(url)


@pytest.mark.req("D-07")
def test_token_is_not_sent_in_cleartext_over_a_network() -> None:
    with pytest.raises(ConfigError, match="unencrypted"):
        RemoteStore("http://harken.example:8420", token="secret")
    for url in ("https://harken.example", "http://localhost:1", "http://[::1]:1"):
        RemoteStore(url, token="secret").close()


def test_broken_connection_is_retried() -> None:
    liar = FakeServer(b'{"commits":[]}', cut=2)
    with connect(liar) as store:
        assert store.newest_commits() == []
    assert len(liar.asked) == 3


def test_repeatedly_broken_connection_is_an_error() -> None:
    liar = FakeServer(cut=100)
    with connect(liar) as store, pytest.raises(StoreError, match="cannot be reached"):
        store.newest_commits()
    assert len(liar.asked) == 4


def test_busy_service_is_retried() -> None:
    busy = b'{"error":{"code":"busy","message":"later"}}'
    liar = FakeServer(busy, status=503)
    with connect(liar) as store, pytest.raises(StoreError, match="later"):
        store.newest_commits()
    assert len(liar.asked) == 4


@pytest.mark.parametrize(
    ("status", "kind", "body"),
    [
        (200, "text/html", b"<html>"),
        (200, wire.JSON, b"<html>"),
        (200, wire.JSON, b'{"commits":["ctx-1"]}'),
        (200, wire.JSON, b'{"commits":"ctx-1"}'),
        (200, wire.JSON, b'{"commits":' + b"[" * 100_000),
        (204, wire.JSON, b""),
        (302, wire.JSON, b""),
        (404, "text/html", b"<html>"),
        (500, wire.JSON, b'{"error":{"code":"odd","message":"x"}}'),
        (500, wire.JSON, b'{"error":"x"}'),
    ],
)
def test_server_of_another_kind_is_an_error(status: int, kind: str, body: bytes) -> None:
    with connect(FakeServer(body, kind, status)) as store, pytest.raises(StoreError):
        store.newest_commits()


def encode_answer(value: object) -> FakeServer:
    return FakeServer(msgspec.msgpack.encode(value), wire.PACKED)


FIRST, SECOND = batch_of("one"), batch_of("two")
ONE, TWO = FIRST.commits[0][0], SECOND.commits[0][0]
OTHER = (TWO.id, commit_bytes(TWO), b"{}")


@pytest.mark.parametrize(
    ("answer", "act"),
    [
        ({"found": {NAME: b"other"}, "asked": 1}, lambda s: s.objects([Hash(NAME)])),
        ({"found": {f"art-{NAME}": b"[]"}, "asked": 1}, lambda s: s.deltas([f"art-{NAME}"])),
        ({"found": {f"art-{NAME}": b"[]"}, "asked": 1}, lambda s: s.sequences([f"art-{NAME}"])),
        ({"commits": [OTHER], "asked": 1}, lambda s: s.chain(ONE.id)),
        ({"commits": [(ONE.id, *OTHER[1:])], "asked": 1}, lambda s: s.commits([ONE.id])),
    ],
)  # fmt: skip
def test_bytes_that_do_not_match_their_name_are_damage(
    answer: object, act: Callable[[Any], object]
) -> None:
    with connect(encode_answer(answer)) as store, pytest.raises(ObjectCorrupted):
        act(store)


def test_raw_bytes_are_verified() -> None:
    with connect(FakeServer(b"other", wire.BYTES)) as store, pytest.raises(ObjectCorrupted):
        store.raw(hash_raw(b"mine"))


@pytest.mark.parametrize("requested_count", [0, -1, 2])
def test_answer_with_missing_or_extra_names_terminates(requested_count: int) -> None:
    with (
        connect(encode_answer({"found": {}, "asked": requested_count})) as store,
        pytest.raises(StoreError),
    ):
        store.objects([Hash(NAME)])
    with (
        connect(encode_answer({"commits": [], "asked": requested_count})) as store,
        pytest.raises(StoreError),
    ):
        store.commits([CommitId(f"ctx-{NAME}")])


def test_unrequested_objects_are_dropped() -> None:
    [(name, body), *_] = FIRST.objects.items()
    with connect(encode_answer({"found": {name: body}, "asked": 1})) as store:
        assert store.objects([Hash(NAME)]) == {}
    with connect(encode_answer({"commits": [OTHER], "asked": 1})) as store:
        assert store.commits([ONE.id]) == {}


def test_chain_longer_than_an_answer_is_joined() -> None:
    held_store = MemoryStore()
    batch, parent = batch_of("x"), None
    commits: list[tuple[Commit, CommitNotes]] = []
    for second in range(wire.MAX_NAMES + 10):
        commits += batch_of("x", parent=parent, second=second).commits
        parent = commits[-1][0].id
    held_store.write(WriteBatch(objects=batch.objects, deltas=batch.deltas, commits=commits))
    assert parent is not None
    with remote(held_store) as store:
        chain = store.chain(parent)
        assert [stored.id for stored in chain] == [commit.id for commit, _ in commits[::-1]]
        assert store.commits([stored.id for stored in chain]).keys() == {
            stored.id for stored in chain
        }
        beginning = store.names_with_prefix("ctx-", 10**9)
        assert beginning == sorted(stored.id for stored in chain)
        assert len(store.newest_commits(10**9)) == len(chain)


def test_many_names_need_few_round_trips() -> None:
    liar = encode_answer({"found": {}, "asked": wire.MAX_NAMES})
    with connect(liar) as store:
        names = [Hash(f"{n:064x}") for n in range(3 * wire.MAX_NAMES)]
        assert store.objects([*names, *names, Hash("odd")]) == {}
    assert len(liar.asked) == 3


def test_too_large_answer_is_requested_in_parts() -> None:
    held_store, bodies = MemoryStore(), [batch_of("x" * 100_000 + str(n)) for n in range(600)]
    for batch in bodies:
        held_store.write(batch)
    with remote(held_store) as store:
        objects = {name: body for batch in bodies for name, body in batch.objects.items()}
        assert store.objects(objects) == objects


def test_file_larger_than_a_request_is_transferred_in_chunks(tmp_path: Path) -> None:
    pieces = [bytes([n]) * 500_000 for n in range(20)]
    raw = {hash_raw(piece): piece for piece in pieces}
    name = hash_raw(b"".join(pieces))
    held_store = SqliteStore(tmp_path / "s.db")
    with remote(held_store, limits=ServiceLimits(body_bytes=1_000_000)) as store:
        with pytest.raises(StoreError, match="at most"):
            store.write(WriteBatch(raw=raw))
        for ref, piece in raw.items():
            store.write(WriteBatch(raw={ref: piece}))
        store.write(WriteBatch(files={name: [*raw]}))
        assert b"".join(store.read_chunks(name)) == store.raw(name) == b"".join(pieces)
        assert {stored.name for stored in store.iter_objects()} == {name, *raw}
        part = next(store.read_chunks(name))  # and no more requests
        assert pieces[0].startswith(part)
        assert store.stats().raw_bytes > 10_000_000
    held_store.close()


def test_truncated_answer_is_detected() -> None:
    batch = batch_of("Hi")
    [name] = [hash_raw(b"ab")]
    with connect(FakeServer(b"a", wire.BYTES)) as store, pytest.raises(ObjectCorrupted):
        store.raw(name)
    full_names = [
        wire.encode_frame(wire.PackedObject(ObjectKind.PART, body))
        for body in batch.objects.values()
    ]
    for stream in (
        b"".join(full_names),
        full_names[0][:-1],
        b"\xff" * 8,
        wire.encode_frame("odd") + wire.END,
    ):
        with connect(FakeServer(stream, wire.BYTES)) as store, pytest.raises(StoreError):
            list(store.iter_objects())


def test_purged_status_needs_its_tombstone() -> None:
    old, new = hash_raw(b"old"), hash_raw(b"new")
    liar = FakeServer(b"new", wire.BYTES)
    with connect(liar) as store, pytest.raises(ObjectCorrupted):
        store.raw(old)
    stone = f'{{"when":"x","by":"ann","why":"leaked","stand_in":"{new}"}}'
    liar.tombstones = f'{{"tombstones":{{"{old}":{stone}}}}}'.encode()
    with connect(liar) as store:
        assert store.raw(old) == b"new"


def test_closed_or_forked_client_is_an_error(tmp_path: Path) -> None:
    with remote() as store:
        child = os.fork()
        if child == 0:  # pragma: no cover - in another process
            try:
                store.newest_commits()
            except StoreError as error:
                os._exit(7 if "fork" in str(error) else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert store.newest_commits() == []
        store.close()
        with pytest.raises(StoreError, match="is closed"):
            store.newest_commits()


def test_disk_error_of_the_service_omits_its_path(tmp_path: Path) -> None:
    held_store = SqliteStore(tmp_path / "s.db")
    with remote(held_store) as store:
        held_store.close()
        with pytest.raises(StoreError, match="is closed") as error:
            store.newest_commits()
    assert str(tmp_path) not in str(error.value)


def test_equal_metadata_is_no_conflict() -> None:
    """After a lost answer the retry finds the change that it made itself."""
    with remote() as store:
        batch, before, after = batch_of("Hi"), CommitNotes(), CommitNotes(summary="after")
        store.write(batch)
        for _ in range(2):
            store.update_notes(commit_in(batch), after, was=before)
        with pytest.raises(NotesConflict):
            store.update_notes(commit_in(batch), CommitNotes(summary="other"), was=before)


def test_repeated_batch_with_the_same_move_is_no_conflict() -> None:
    """After a lost answer the retry finds its own move, and writes what may be missing."""
    with remote() as store:
        batch, other = batch_of("Hi"), batch_of("Bye")
        moved = msgspec.structs.replace(batch, moves={"main": BranchMove(commit_in(batch))})
        for _ in range(2):
            store.write(moved)
        store.write(msgspec.structs.replace(other, moves=moved.moves))
        assert store.commits([commit_in(other)])
        assert store.branches() == {"main": commit_in(batch)}
        with pytest.raises(BranchConflict) as refusal:
            store.write(
                msgspec.structs.replace(other, moves={"main": BranchMove(commit_in(other))})
            )
        assert (refusal.value.actual, refusal.value.commit) == (commit_in(batch), "")


def test_acknowledged_commit_is_readable_by_another_client() -> None:
    with remote() as store:
        batch = batch_of("Hi")
        store.write(batch)
        second_client = RemoteStore(store.address, token=TOKEN)
        assert commit_in(batch) in second_client.commits([commit_in(batch)])
        second_client.close()


def test_names_that_were_not_requested_are_refused() -> None:
    body = f'{{"names":["ctx-{NAME}"]}}'.encode()
    with connect(FakeServer(body)) as store, pytest.raises(StoreError, match="not requested"):
        store.names_with_prefix("art-")
    with connect(FakeServer(body)) as store:
        assert store.names_with_prefix("ctx-0") == [f"ctx-{NAME}"]


def test_a_service_that_repeats_a_page_is_refused() -> None:
    body = json.dumps({"commits": [f"ctx-{NAME}"], "next": f"ctx-{NAME}"}).encode()
    with connect(FakeServer(body)) as store:
        assert store.newest_commits(1) == [f"ctx-{NAME}"]
        with pytest.raises(StoreError, match="the same page twice"):
            store.newest_commits(2)


def test_chain_of_other_commits_is_damage() -> None:
    tip = batch_of("two", parent=ONE.id).commits[0][0]
    liar = encode_answer({"commits": [(tip.id, commit_bytes(tip), b"{}")], "asked": 1})
    with connect(liar) as store:
        assert [stored.id for stored in store.chain(tip.id, 1)] == [tip.id]
        with pytest.raises(ObjectCorrupted, match="its chain leads elsewhere"):
            store.chain(tip.id)


@pytest.mark.parametrize("depth", [0, 1, 2, 3, None])
def test_chain_has_the_requested_depth(depth: int | None) -> None:
    with remote() as store:
        parent = None
        for second in range(3):
            batch = batch_of("x", parent=parent, second=second)
            store.write(batch)
            parent = commit_in(batch)
        assert parent is not None
        assert len(store.chain(parent, depth)) == (3 if depth is None else depth)
