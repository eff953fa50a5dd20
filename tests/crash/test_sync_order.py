"""The order of writes, syncs and renames of every durable operation, as it must be.

The lists are not taken from the code. A file is synced before it gets its name, and the folder
after that, before anything is acknowledged or the old file is removed. Otherwise a power cut
leaves an empty file, or none.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from harken.capture.otlp.spool import OtlpSpool, SpooledRequest
from harken.context.shipping.outbox import Outbox, ShipState
from harken.core.ids import AgentId
from harken.recording.recorder import Recorder
from harken.recording.session_pool import RecorderOptions
from harken.session.branch import branch
from harken.session.log.compress import compress_log, decompress_log
from harken.session.log.disk import move_durably
from harken.session.log.file import LogFile
from harken.session.log.receive import receive_lines
from harken.session.purge import PurgeOptions, purge_log
from harken.session.rename import rename_log
from harken.session.session import Session
from harken.store.base import WriteBatch
from harken.store.memory import MemoryStore
from harken.store.sqlite.store import SqliteStore
from tests.crash.call_trace import record_calls
from tests.recording_kit import RecordedClient, request_body
from tests.session_kit import create_agent, log_user_message, session_options

AGENT = AgentId("agent_001")


def new_log(folder: Path) -> Path:
    """Create a log with a secret."""
    path = folder / "s.jsonl"
    with Session(path, options=session_options()) as session:
        log_user_message(session, create_agent(session), "a secret text")
    return path


def create_session(folder: Path) -> list[str]:
    options = session_options(durability="turn")
    with record_calls() as calls:
        session = Session(folder / "s.jsonl", options=options)
    session.close()
    return calls


def append_event(folder: Path) -> list[str]:
    path = new_log(folder)
    with Session(path, options=session_options(durability="always")) as session:
        with record_calls() as calls:
            log_user_message(session, AGENT, "more")
        return calls


def append_group(folder: Path) -> list[str]:
    path = new_log(folder)
    with Session(path, options=session_options(durability="always")) as session:
        with record_calls() as calls, session.group():
            log_user_message(session, AGENT, "more")
            log_user_message(session, AGENT, "and more")
        return calls


def end_turn(folder: Path) -> list[str]:
    path = new_log(folder)
    with Session(path, options=session_options(durability="turn")) as session:
        log_user_message(session, AGENT, "more")
        with record_calls() as calls:
            session.sync()
        return calls


def resume_session(folder: Path) -> list[str]:
    """The process before may have been killed before it synced its last events or the name."""
    path = new_log(folder)
    options = session_options(durability="turn")
    with record_calls() as calls:
        Session(path, options=options).close()
    return calls


def move_torn_line(folder: Path) -> list[str]:
    path = new_log(folder)
    path.write_bytes(path.read_bytes() + b'{"event_type":"tra')
    with closing(LogFile(path)) as log, record_calls() as calls:
        log.set_aside(path.stat().st_size - 18, b'{"event_type":"tra')
    return calls


def compress(folder: Path) -> list[str]:
    path = new_log(folder)
    with record_calls() as calls:
        compress_log(path)
    return calls


def decompress(folder: Path) -> list[str]:
    path = new_log(folder)
    compress_log(path)
    with record_calls() as calls:
        decompress_log(path)
    return calls


def move_outdated_pack(folder: Path) -> list[str]:
    """A pack with other content than the plain log becomes a log of its own."""
    path = new_log(folder)
    compress_log(path)
    pack = path.with_name(f"{path.name}.zst")
    data = pack.read_bytes()
    path.write_bytes(b"")
    pack.unlink()
    Session(path, options=session_options()).close()
    pack.write_bytes(data)
    with record_calls() as calls:
        LogFile(path).close()
    return calls


def purge(folder: Path) -> list[str]:
    path = new_log(folder)
    with closing(LogFile(path)) as log, record_calls() as calls:
        purge_log(log, PurgeOptions(replace=lambda text: text.replace("secret", "gone")))
    return calls


def receive(folder: Path) -> list[str]:
    data = new_log(folder).read_bytes()
    with record_calls() as calls:
        receive_lines(folder / "received.jsonl", 0, data)
    return calls


def rename(folder: Path) -> list[str]:
    path = new_log(folder)
    with record_calls() as calls:
        rename_log(path, "renamed")
    return calls


def move_file(folder: Path) -> list[str]:
    (folder / "partial").write_bytes(b"data")
    with record_calls() as calls:
        move_durably(folder / "partial", folder / "file")
    return calls


def create_branch(folder: Path) -> list[str]:
    path = new_log(folder)
    with record_calls() as calls:
        branch(path, folder / "branch.jsonl", options=session_options(durability="turn"))
    return calls


def write_outbox(folder: Path) -> list[str]:
    with record_calls() as calls:
        Outbox(folder).write_state("s", ShipState(read_bytes=5))
    return calls


def write_spool(folder: Path) -> list[str]:
    spool = OtlpSpool(folder / "spool")
    with record_calls() as calls:
        spool.write(SpooledRequest("trace", is_json=True, data=b"{}"))
    return calls


def create_store(folder: Path) -> list[str]:
    with record_calls() as calls:
        SqliteStore(folder / "s.db").close()
    return calls


ORDERS: list[tuple[Callable[[Path], list[str]], str]] = [
    (create_session, "write sync_folder sync"),
    (append_event, "write sync"),
    (append_group, "write sync"),
    (end_turn, "sync"),
    (resume_session, "sync_folder sync"),
    (move_torn_line, "write sync rename sync_folder truncate sync"),
    (compress, "write sync rename sync_folder unlink sync_folder"),
    (decompress, "write sync link sync_folder unlink sync_folder"),
    (move_outdated_pack, "rename sync_folder"),
    (purge, "write sync sync_folder rename sync_folder"),
    (receive, "write sync sync_folder"),
    (rename, "rename sync_folder"),
    (move_file, "sync link sync_folder"),
    (create_branch, "write sync sync link sync_folder"),
    (write_outbox, "write sync rename sync_folder"),
    (write_spool, "write sync rename sync"),
    (create_store, "sync"),
]
"""Operations, and the order of their durable steps."""


@pytest.mark.req("D-01", "S0-34")
@pytest.mark.parametrize(
    ("operation", "order"), ORDERS, ids=lambda value: getattr(value, "__name__", "")
)
def test_steps_are_synced_in_order(
    tmp_path: Path, operation: Callable[[Path], list[str]], order: str
) -> None:
    assert operation(tmp_path) == order.split()


@pytest.mark.req("D-01")
def test_recorded_call_is_synced_before_its_commit(tmp_path: Path) -> None:
    """A commit must not outlive the events that it was made of."""
    commits: list[int] = []

    class ListeningStore(MemoryStore):
        def write(self, batch: WriteBatch) -> None:
            commits.append(len(calls))
            super().write(batch)

    options = RecorderOptions(durability="turn")
    recorder = Recorder(tmp_path, ListeningStore(), tell=lambda _: None, options=options)
    client = RecordedClient(recorder)
    id_ = client.begin(request_body("Hi"))
    with record_calls() as calls:
        client.end(id_, "Hello.")
    assert commits
    assert calls[: commits[0]][-2:] == ["write", "sync"]


def test_outbox_is_private(tmp_path: Path) -> None:
    Outbox(tmp_path).write_state("s", ShipState())
    [file] = tmp_path.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
