"""Nothing from a remote is trusted: a service that lies changes nothing here and is reported."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harken.core.commits import CommitId
from harken.errors import StoreError
from harken.service.server import serve_in_thread
from harken.service.sockets import address_of, listen_at
from harken.store.base import RetentionPolicy
from harken.store.fsck import fsck
from harken.tickets.check import check_tickets
from harken.tickets.tracker import Tickets
from tests.remote_kit import Machine, Server, read_state, serve_home

Change = Callable[[str, bytes], bytes]


class Liar:
    """An ASGI application that changes the responses of an honest one."""

    def __init__(self, app: Any, change: Change) -> None:
        self.app, self.change = app, change

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start: dict[str, Any] = {}
        body = bytearray()

        async def hold(message: Any) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
                return
            body.extend(message.get("body", b""))
            if message.get("more_body"):
                return
            changed = self.change(scope["path"], bytes(body))
            headers = [(k, v) for k, v in start["headers"] if k != b"content-length"]
            await send({**start, "headers": headers})
            await send({"type": "http.response.body", "body": changed})

        await self.app(scope, receive, hold)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serve_home(tmp_path / "there") as server:
        yield server


@pytest.fixture
def bob(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path / "home" / "bob")
    yield machine
    machine.close()


@pytest.fixture
def alice(tmp_path: Path, server: Server) -> Iterator[Machine]:
    machine = Machine(tmp_path / "alice")
    tip = machine.commit("Hi", "Hello")
    machine.store.move_branch("main", tip, expected=None)
    machine.log("s", "Hi", "Hello")
    Tickets(machine.store, "alice").create("Fix it")
    machine.push(server.url)
    yield machine
    machine.close()


def pull_from_liar(server: Server, bob: Machine, change: Change, **options: Any) -> Any:
    """Pull from a service whose responses are changed."""
    liar = Liar(server.cutter, change)
    with listen_at("127.0.0.1", 0) as listener, serve_in_thread(liar, [listener]):
        return bob.pull(address_of(listener), **options)


def in_logs(edit: Callable[[list[dict[str, Any]]], Any]) -> Change:
    """Return a change of the list of logs."""

    def change(path: str, body: bytes) -> bytes:
        if path != "/v1/logs":
            return body
        data = json.loads(body)
        edit(data["logs"])
        return json.dumps(data).encode()

    return change


def in_json(path_end: str, edit: Callable[[Any], Any]) -> Change:
    """Return a change of a JSON response."""

    def change(path: str, body: bytes) -> bytes:
        if not path.endswith(path_end):
            return body
        data = json.loads(body)
        edit(data)
        return json.dumps(data).encode()

    return change


EVIL_NAMES = [
    "../evil",
    "/tmp/evil",
    "a/b",
    ".hidden",
    "latest",
    "evil\x1b[31m",
    "x" * 300,
    "a\x00b",
]


def test_no_name_leads_to_a_file_elsewhere(alice: Machine, bob: Machine, server: Server) -> None:
    def edit(logs: list[dict[str, Any]]) -> None:
        logs += [{**logs[0], "name": name} for name in EVIL_NAMES]
        logs.sort(key=lambda log: log["name"])

    result = pull_from_liar(server, bob, in_logs(edit))
    assert [log.name for log in result.problems] == sorted(EVIL_NAMES)
    assert [path.name for path in bob.sessions.iterdir() if path.suffix == ".jsonl"] == ["s.jsonl"]
    assert {path.name for path in bob.folder.parent.iterdir()} == {"bob"}


def test_a_size_that_lies_is_no_size(alice: Machine, bob: Machine, server: Server) -> None:
    def edit(logs: list[dict[str, Any]]) -> None:
        logs[0]["size_bytes"] = 2**52

    result = pull_from_liar(server, bob, in_logs(edit))
    assert "no room" in result.problems[0].reason
    result = pull_from_liar(server, bob, in_logs(lambda logs: logs[0].update(size_bytes=10**6)))
    assert (bob.sessions / "s.jsonl").read_bytes() == (alice.sessions / "s.jsonl").read_bytes()
    bob.log("s", "and mine")
    before = (bob.sessions / "s.jsonl").read_bytes()
    pull_from_liar(server, bob, in_logs(lambda logs: logs[0].update(size_bytes=10**6)))
    assert (bob.sessions / "s.jsonl").read_bytes() == before


def test_endless_and_unsorted_lists_end(alice: Machine, bob: Machine, server: Server) -> None:
    def edit(logs: list[dict[str, Any]]) -> None:
        logs += [dict(logs[0]) for _ in range(10_000)]

    with pytest.raises(StoreError, match="not sorted"):
        pull_from_liar(server, bob, in_logs(edit))


@pytest.mark.parametrize(
    "damage",
    [
        lambda lines: lines.replace(b"Hello", b"HellO"),
        lambda lines: b"{}\n" * 3,
        lambda lines: lines[:-1],
        lambda lines: lines * 2,
        lambda lines: b"\x00" * 100 + b"\n",
        lambda lines: lines.split(b"\n", 1)[1],
    ],
)
def test_lines_with_wrong_sums_are_not_written(
    alice: Machine, bob: Machine, server: Server, damage: Callable[[bytes], bytes]
) -> None:
    def change(path: str, body: bytes) -> bytes:
        return damage(body) if path.endswith("/lines") else body

    result = pull_from_liar(server, bob, change)
    assert [log.relation for log in result.problems] == ["skipped"]
    assert not (bob.sessions / "s.jsonl").exists()
    assert bob.pull(server.url).new_logs[0].name == "s"


def test_a_log_of_an_older_version_is_reported(
    alice: Machine, bob: Machine, server: Server
) -> None:
    old = server.folder / "sessions" / "old.jsonl"
    old.write_bytes(b'{"event_type": "session_started", "message_id": "m"}\n' * 2)
    (problem,) = bob.pull(server.url).problems
    assert (problem.name, "without checksums" in problem.reason) == ("old", True)
    assert not (bob.sessions / "old.jsonl").exists()


def test_lines_that_do_not_continue_a_log_leave_it_as_it_is(
    alice: Machine, bob: Machine, server: Server
) -> None:
    bob.pull(server.url)
    before = (bob.sessions / "s.jsonl").read_bytes()
    alice.log("s", "More")
    alice.push(server.url)

    def change(path: str, body: bytes) -> bytes:
        return body.replace(b"More", b"Less") if path.endswith("/lines") else body

    assert pull_from_liar(server, bob, change).problems
    assert (bob.sessions / "s.jsonl").read_bytes() == before


@pytest.mark.parametrize("endpoint", ["commits", "deltas", "objects"])
def test_content_with_another_name_is_not_written(
    alice: Machine, bob: Machine, server: Server, endpoint: str
) -> None:
    def change(path: str, body: bytes) -> bytes:
        if path != f"/v1/store/{endpoint}":
            return body
        return body.replace(b"Hello", b"HellO").replace(b"2026", b"2027").replace(b"user", b"usar")

    lie = _flip_last_byte("/v1/store/deltas") if endpoint == "deltas" else change
    before = read_state(bob.store, bob.sessions)
    with pytest.raises(StoreError):
        pull_from_liar(server, bob, lie)
    after = read_state(bob.store, bob.sessions)
    assert after["commits"] == before["commits"]
    assert fsck(bob.store) == []
    assert bob.pull(server.url).commits == 1


def _flip_last_byte(endpoint: str) -> Change:
    def change(path: str, body: bytes) -> bytes:
        if path != endpoint:
            return body
        data = msgspec.msgpack.decode(body)
        data["found"] = {name: value[:-1] + b" " for name, value in data["found"].items()}
        return msgspec.msgpack.encode(data)

    return change


def test_branches_with_invalid_names_are_refused(
    alice: Machine, bob: Machine, server: Server
) -> None:
    names = ["ctx-evil", "a b", "evil\x1b[31m", "-x", "", "a//b", "tkt-1"]

    def edit(data: Any) -> None:
        data["branches"] |= dict.fromkeys(names, data["branches"]["main"])

    result = pull_from_liar(server, bob, in_json("/branches", edit))
    refused = {branch.name for branch in result.branches if branch.change == "refused"}
    assert refused == {*names}
    assert [*bob.store.branches()] == ["main"]


def test_a_branch_to_a_commit_that_is_missing_is_not_moved(
    alice: Machine, bob: Machine, server: Server
) -> None:
    def edit(data: Any) -> None:
        data["branches"]["main"] = CommitId("ctx-" + "0" * 64)

    result = pull_from_liar(server, bob, in_json("/branches", edit))
    assert [branch.change for branch in result.branches] == ["diverged"]
    assert bob.store.branches() == {}


def test_a_ticket_of_another_name_is_not_taken(
    alice: Machine, bob: Machine, server: Server
) -> None:
    own = Tickets(bob.store, "bob").create("Mine").id
    head = bob.store.heads(own)[own]

    def edit(data: Any) -> None:
        (ticket,) = [name for name in data["heads"] if name.startswith("tkt-")]
        other = data["heads"].pop(ticket)
        data["heads"] |= {own: other, "tkt-" + "1" * 64: other}

    result = pull_from_liar(server, bob, in_json("/heads", edit))
    assert len(result.diverged_tickets) == 2
    assert bob.store.heads("tkt-") == {own: head}
    assert check_tickets(bob.store) == []


def test_retention_cannot_remove_content(alice: Machine, bob: Machine, server: Server) -> None:
    own = bob.commit("mine")

    def edit(data: Any) -> None:
        data["kept"] = {own: {"policy": "ephemeral", "until": "2000-01-01T00:00:00Z"}}

    pull_from_liar(server, bob, in_json("/kept", edit))
    assert bob.store.retention() == {}
    bob.store.set_retention({own: RetentionPolicy("pin")})
    pull_from_liar(server, bob, in_json("/kept", edit))
    assert bob.store.retention() == {own: RetentionPolicy("pin")}


def test_a_tombstone_removes_nothing(alice: Machine, bob: Machine, server: Server) -> None:
    bob.pull(server.url)
    before = read_state(bob.store, bob.sessions)
    names = [name for name in before["objects"] if not name.startswith(("art-", "ctx-"))]

    def edit(data: Any) -> None:
        for name in names:
            data["tombstones"][name] = {"when": "", "by": "evil", "why": "", "stand_in": names[0]}

    result = pull_from_liar(server, bob, in_json("/tombstones", edit))
    assert {*result.unpurged} == {*names}
    assert read_state(bob.store, bob.sessions) == before


def test_an_imported_file_of_this_machine_is_not_replaced(
    alice: Machine, bob: Machine, server: Server
) -> None:
    own = bob.import_file("/a.jsonl", b"mine\n", bob.commit("mine"))
    (name,) = bob.store.heads("src-")
    alice.import_file("/a.jsonl", b"theirs\n", alice.commit("theirs"))
    alice.push(server.url)
    result = bob.pull(server.url)
    assert len(result.conflicting_files) == 1
    assert bob.store.heads("src-")[name] == own
    assert len(bob.store.heads("src-")) == 2
    assert bob.push(server.url).conflicting_files  # And it is not replaced there, either.
    assert server.store.heads("src-")[name] != own
