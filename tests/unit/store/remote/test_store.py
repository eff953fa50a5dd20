"""A store far away, through lines that break and services that lie."""

from __future__ import annotations

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
from harken.errors import ConfigError, NotesConflict, ObjectCorrupted, StoreError
from harken.service.dependencies import ServiceLimits
from harken.service.sockets import address_of, listen_at
from harken.store.base import ObjectKind, Store, WriteBatch
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
class Liar:
    """A server that answers whatever it is told, and counts."""

    body: bytes = b"{}"
    kind: str = wire.JSON
    status: int = 200
    cut: int = 0
    """How many connections are cut off before it answers."""
    tombstones: bytes = b'{"tombstones":{}}'
    asked: list[str] = field(default_factory=list)


@contextmanager
def told(liar: Liar) -> Iterator[RemoteStore]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            liar.asked.append(self.path)
            if len(liar.asked) <= liar.cut:
                self.close_connection = True
                return
            stones = self.path == "/v1/store/tombstones"
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


def test_a_service_that_is_away_is_named_with_its_address() -> None:
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
def test_a_socket_that_is_not_there_is_named(tmp_path: Path) -> None:
    store = RemoteStore(socket=tmp_path / "s", patience_s=0)
    with pytest.raises(StoreError, match=f"unix:{tmp_path}/s: cannot be reached"):
        store.newest_commits()
    store.close()


def test_another_token_is_refused_without_saying_it() -> None:
    with serve_store() as url:
        store = RemoteStore(url, token="a-wrong-one")
        with pytest.raises(StoreError, match="token") as refused:
            store.newest_commits()
        assert "a-wrong-one" not in str(refused.value)
        store.close()


@pytest.mark.parametrize(
    "url", ["", "x", "ftp://x", "http://", "http://x:y", "http://[", "http://a@b"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        RemoteStore(url)


@pytest.mark.req("D-07")
def test_a_token_does_not_cross_a_network_in_the_clear() -> None:
    with pytest.raises(ConfigError, match="in the clear"):
        RemoteStore("http://harken.example:8420", token="secret")
    for url in ("https://harken.example", "http://localhost:1", "http://[::1]:1"):
        RemoteStore(url, token="secret").close()


def test_a_line_that_breaks_is_taken_up_again() -> None:
    liar = Liar(b'{"commits":[]}', cut=2)
    with told(liar) as store:
        assert store.newest_commits() == []
    assert len(liar.asked) == 3


def test_a_line_that_breaks_again_and_again_is_given_up() -> None:
    liar = Liar(cut=100)
    with told(liar) as store, pytest.raises(StoreError, match="cannot be reached"):
        store.newest_commits()
    assert len(liar.asked) == 4


def test_a_service_that_has_too_much_to_do_is_asked_again() -> None:
    busy = b'{"error":{"code":"busy","message":"later"}}'
    liar = Liar(busy, status=503)
    with told(liar) as store, pytest.raises(StoreError, match="later"):
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
def test_what_is_no_service_is_an_error_and_no_crash(status: int, kind: str, body: bytes) -> None:
    with told(Liar(body, kind, status)) as store, pytest.raises(StoreError):
        store.newest_commits()


def packed(value: object) -> Liar:
    return Liar(msgspec.msgpack.encode(value), wire.PACKED)


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
def test_bytes_that_are_not_what_was_asked_for_are_damage(
    answer: object, act: Callable[[Any], object]
) -> None:
    with told(packed(answer)) as store, pytest.raises(ObjectCorrupted):
        act(store)


def test_raw_bytes_are_checked() -> None:
    with told(Liar(b"other", wire.BYTES)) as store, pytest.raises(ObjectCorrupted):
        store.raw(hash_raw(b"mine"))


@pytest.mark.parametrize("asked", [0, -1, 2])
def test_an_answer_to_no_or_more_names_than_were_asked_ends(asked: int) -> None:
    with told(packed({"found": {}, "asked": asked})) as store, pytest.raises(StoreError):
        store.objects([Hash(NAME)])
    with told(packed({"commits": [], "asked": asked})) as store, pytest.raises(StoreError):
        store.commits([CommitId(f"ctx-{NAME}")])


def test_what_was_not_asked_for_is_left_out() -> None:
    [(name, body), *_] = FIRST.objects.items()
    with told(packed({"found": {name: body}, "asked": 1})) as store:
        assert store.objects([Hash(NAME)]) == {}
    with told(packed({"commits": [OTHER], "asked": 1})) as store:
        assert store.commits([ONE.id]) == {}


def test_a_chain_longer_than_an_answer_is_put_together() -> None:
    kept = MemoryStore()
    batch, parent = batch_of("x"), None
    commits: list[tuple[Commit, CommitNotes]] = []
    for second in range(wire.MAX_NAMES + 10):
        commits += batch_of("x", parent=parent, second=second).commits
        parent = commits[-1][0].id
    kept.write(WriteBatch(objects=batch.objects, deltas=batch.deltas, commits=commits))
    assert parent is not None
    with remote(kept) as store:
        chain = store.chain(parent)
        assert [one.id for one in chain] == [commit.id for commit, _ in commits[::-1]]
        assert store.commits([one.id for one in chain]).keys() == {one.id for one in chain}
        beginning = store.names_with_prefix("ctx-", 10**9)
        assert beginning == sorted(one.id for one in chain)
        assert len(store.newest_commits(10**9)) == len(chain)


def test_many_names_are_asked_for_in_few_round_trips() -> None:
    liar = packed({"found": {}, "asked": wire.MAX_NAMES})
    with told(liar) as store:
        names = [Hash(f"{n:064x}") for n in range(3 * wire.MAX_NAMES)]
        assert store.objects([*names, *names, Hash("odd")]) == {}
    assert len(liar.asked) == 3


def test_an_answer_that_grows_too_large_is_asked_for_in_parts() -> None:
    kept, bodies = MemoryStore(), [batch_of("x" * 100_000 + str(n)) for n in range(600)]
    for batch in bodies:
        kept.write(batch)
    with remote(kept) as store:
        objects = {name: body for batch in bodies for name, body in batch.objects.items()}
        assert store.objects(objects) == objects


def test_a_file_larger_than_a_request_goes_and_comes_by_pieces(tmp_path: Path) -> None:
    pieces = [bytes([n]) * 500_000 for n in range(20)]
    raw = {hash_raw(piece): piece for piece in pieces}
    name = hash_raw(b"".join(pieces))
    kept = SqliteStore(tmp_path / "s.db")
    with remote(kept, limits=ServiceLimits(body_bytes=1_000_000)) as store:
        with pytest.raises(StoreError, match="at most"):
            store.write(WriteBatch(raw=raw))
        for ref, piece in raw.items():
            store.write(WriteBatch(raw={ref: piece}))
        store.write(WriteBatch(files={name: [*raw]}))
        assert b"".join(store.read_chunks(name)) == store.raw(name) == b"".join(pieces)
        assert {thing.name for thing in store.iter_objects()} == {name, *raw}
        part = next(store.read_chunks(name))  # and no more: the rest is left
        assert pieces[0].startswith(part)
        assert store.stats().raw_bytes > 10_000_000
    kept.close()


def test_an_answer_that_ends_too_early_is_noticed() -> None:
    batch = batch_of("Hi")
    [name] = [hash_raw(b"ab")]
    with told(Liar(b"a", wire.BYTES)) as store, pytest.raises(ObjectCorrupted):
        store.raw(name)
    whole = [
        wire.encode_frame(wire.PackedObject(ObjectKind.PART, body))
        for body in batch.objects.values()
    ]
    for stream in (
        b"".join(whole),
        whole[0][:-1],
        b"\xff" * 8,
        wire.encode_frame("odd") + wire.END,
    ):
        with told(Liar(stream, wire.BYTES)) as store, pytest.raises(StoreError):
            list(store.iter_objects())


def test_what_was_purged_is_believed_only_with_its_tombstone() -> None:
    old, new = hash_raw(b"old"), hash_raw(b"new")
    liar = Liar(b"new", wire.BYTES)
    with told(liar) as store, pytest.raises(ObjectCorrupted):
        store.raw(old)
    stone = f'{{"when":"x","by":"ann","why":"leaked","stand_in":"{new}"}}'
    liar.tombstones = f'{{"tombstones":{{"{old}":{stone}}}}}'.encode()
    with told(liar) as store:
        assert store.raw(old) == b"new"


def test_after_closing_and_after_a_fork_it_says_so(tmp_path: Path) -> None:
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


def test_what_the_disk_of_the_service_says_comes_without_its_path(tmp_path: Path) -> None:
    kept = SqliteStore(tmp_path / "s.db")
    with remote(kept) as store:
        kept.close()
        with pytest.raises(StoreError, match="is closed") as error:
            store.newest_commits()
    assert str(tmp_path) not in str(error.value)


def test_notes_that_are_as_wished_are_no_conflict() -> None:
    """An answer that was lost is asked for again, and then somebody was faster: we were."""
    with remote() as store:
        batch, before, after = batch_of("Hi"), CommitNotes(), CommitNotes(summary="after")
        store.write(batch)
        for _ in range(2):
            store.update_notes(commit_in(batch), after, was=before)
        with pytest.raises(NotesConflict):
            store.update_notes(commit_in(batch), CommitNotes(summary="other"), was=before)


def test_a_commit_that_was_acknowledged_is_read_by_another_client() -> None:
    with remote() as store:
        batch = batch_of("Hi")
        store.write(batch)
        other = RemoteStore(store.address, token=TOKEN)
        assert commit_in(batch) in other.commits([commit_in(batch)])
        other.close()
