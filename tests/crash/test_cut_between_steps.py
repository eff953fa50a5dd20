"""Power cuts between all steps of packing, purge, renaming, branching, receiving and the spools."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from harken.capture.otlp.spool import OtlpSpool, SpooledRequest
from harken.context.shipping.outbox import Outbox, ShipState
from harken.core.ids import AgentId
from harken.errors import LogNotFound
from harken.session.branch import branch
from harken.session.log.compress import compress_log, decompress_log
from harken.session.log.file import LogFile
from harken.session.log.reader import iter_events
from harken.session.log.receive import receive_lines
from harken.session.purge import PurgeOptions, purge_log
from harken.session.rename import rename_log
from harken.session.session import Session
from tests.crash.disk_model import cut, restored
from tests.session_kit import create_agent, log_user_message, session_options

AGENT = AgentId("agent_001")


def new_log(folder: Path) -> Path:
    folder.mkdir()
    path = folder / "s.jsonl"
    with Session(path, options=session_options()) as session:
        log_user_message(session, create_agent(session), "a secret text")
        log_user_message(session, AGENT, "and more")
    return path


def read_ids(path: Path) -> list[str]:
    """Return the ids of the events of a log, plain or packed. It is empty if there is no log."""
    try:
        return [event.message_id for event in iter_events(path)]
    except LogNotFound:
        return []


def check_resumable(path: Path, ids: list[str]) -> None:
    """Check that a log has these events and that a session continues it."""
    assert read_ids(path) == ids
    with Session(path, options=session_options()) as session:
        log_user_message(session, AGENT, "after the cut")
    assert read_ids(path)[: len(ids)] == ids


@pytest.mark.req("D-01", "S0-34")
@pytest.mark.parametrize("operation", [compress_log, decompress_log])
def test_cut_packing_keeps_every_event(tmp_path: Path, operation: Callable[[Path], object]) -> None:
    path = new_log(tmp_path / "work")
    ids = read_ids(path)
    if operation is decompress_log:
        compress_log(path)
    before, after = cut(path.parent, lambda: operation(path))
    assert len(before) > 3
    for folder in restored([*before, *after], tmp_path):
        check_resumable(folder / "s.jsonl", ids)


@pytest.mark.req("D-01")
def test_cut_purge_leaves_the_old_or_the_new_log(tmp_path: Path) -> None:
    path = new_log(tmp_path / "work")
    ids = read_ids(path)

    def purge() -> None:
        with closing(LogFile(path)) as log:
            purge_log(log, PurgeOptions(replace=lambda text: text.replace("secret", "gone")))

    before, after = cut(path.parent, purge)
    assert len(before) > 3
    for folder in restored(before, tmp_path / "before"):
        assert read_ids(folder / "s.jsonl")[: len(ids)] == ids
        check_resumable(folder / "s.jsonl", read_ids(folder / "s.jsonl"))
    for folder in restored(after, tmp_path / "after"):
        assert b"secret" not in (folder / "s.jsonl").read_bytes()
        check_resumable(folder / "s.jsonl", read_ids(path))


@pytest.mark.req("D-01")
def test_cut_renaming_leaves_one_of_the_names(tmp_path: Path) -> None:
    path = new_log(tmp_path / "work")
    ids = read_ids(path)
    before, after = cut(path.parent, lambda: rename_log(path, "renamed"))
    for folder in restored(before, tmp_path / "before"):
        [log] = folder.glob("*.jsonl")
        check_resumable(log, ids)
    for folder in restored(after, tmp_path / "after"):
        check_resumable(folder / "renamed.jsonl", ids)


@pytest.mark.req("D-01")
def test_cut_branching_leaves_no_branch_or_all_of_it(tmp_path: Path) -> None:
    path = new_log(tmp_path / "work")
    ids, target = read_ids(path), path.with_name("branch.jsonl")
    options = session_options(durability="turn")
    before, after = cut(path.parent, lambda: branch(path, target, options=options))
    branch_ids = read_ids(target)
    for folder in restored(before, tmp_path / "before"):
        assert read_ids(folder / "s.jsonl") == ids
        assert read_ids(folder / "branch.jsonl") in ([], branch_ids)
    for folder in restored(after, tmp_path / "after"):
        check_resumable(folder / "branch.jsonl", branch_ids)


@pytest.mark.req("D-01")
def test_cut_receiving_keeps_what_was_acknowledged(tmp_path: Path) -> None:
    path = new_log(tmp_path / "source")
    (tmp_path / "work").mkdir()
    data, target = path.read_bytes(), tmp_path / "work" / "s.jsonl"
    half = data.index(b"\n", len(data) // 2) + 1
    _, after = cut(target.parent, lambda: receive_lines(target, 0, data[:half]))
    for folder in restored(after, tmp_path / "first"):
        assert (folder / "s.jsonl").read_bytes() == data[:half]
    before, after = cut(target.parent, lambda: receive_lines(target, half, data[half:]))
    for folder in restored(before, tmp_path / "before"):
        assert (folder / "s.jsonl").read_bytes() in (data[:half], data)
    for folder in restored(after, tmp_path / "after"):
        check_resumable(folder / "s.jsonl", read_ids(path))


@pytest.mark.req("D-01")
def test_cut_spooling_leaves_no_request_or_all_of_it(tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    spool, request = OtlpSpool(folder), SpooledRequest("trace", is_json=True, data=b"{}" * 100)
    before, after = cut(folder, lambda: spool.write(request))
    for restored_folder in restored(before, tmp_path / "before"):
        assert list(OtlpSpool(restored_folder).iter_unfinished()) in ([], [request])
    for restored_folder in restored(after, tmp_path / "after"):
        assert list(OtlpSpool(restored_folder).iter_unfinished()) == [request]


@pytest.mark.req("D-01")
def test_cut_outbox_has_the_old_or_the_new_state(tmp_path: Path) -> None:
    (tmp_path / "outbox").mkdir()
    outbox = Outbox(tmp_path / "outbox")
    old, new = ShipState(read_bytes=1), ShipState(read_bytes=2)
    outbox.write_state("s", old)
    before, after = cut(tmp_path / "outbox", lambda: outbox.write_state("s", new))
    for folder in restored(before, tmp_path / "before"):
        assert Outbox(folder).read_state("s") in (old, new)
    for folder in restored(after, tmp_path / "after"):
        assert Outbox(folder).read_state("s") == new


def test_model_loses_names_and_contents_that_were_not_synced(tmp_path: Path) -> None:
    """Otherwise the tests above would prove nothing."""
    (tmp_path / "work").mkdir()

    def write_without_sync() -> None:
        with (tmp_path / "work" / "part").open("wb", buffering=0) as file:
            file.write(b"data")
        os.rename(tmp_path / "work" / "part", tmp_path / "work" / "file")  # noqa: PTH104

    _, after = cut(tmp_path / "work", write_without_sync)
    assert after == [{}, {"file": b""}, {"file": b"data"}]
