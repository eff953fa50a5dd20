"""A disk that fails at every operation, in every way: no false acknowledgment and no damage."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harken.core.ids import AgentId
from harken.errors import HarkenError, InvalidLog, LogWriteError, SessionClosed
from harken.session.log.file import RealDisk
from harken.session.session import Durability, Session
from harken.testing import FailingDisk, RecordingDisk, faults
from tests.session_kit import (
    create_agent,
    log_turn,
    log_user_message,
    read_message_ids,
    session_options,
)

ROOT = AgentId("agent_001")


class Promising(Session):
    """A session that records its promises."""

    promised = 0
    """How many events are safe, as far as it said."""

    def sync(self) -> None:
        super().sync()
        self.promised = self.state.next_message


@dataclass
class Run:
    """A session of two turns with a resume between them, as far as the disk allows."""

    folder: Path
    durability: Durability
    session: Promising | None = None
    failures: list[LogWriteError] = field(default_factory=list)

    @property
    def path(self) -> Path:
        return self.folder / "s.jsonl"

    @property
    def promised(self) -> int:
        return self.session.promised if self.session else 0

    def go(self, disk: RealDisk) -> None:
        try:
            self.turns(disk)
        except LogWriteError as error:
            self.failures.append(error)

    def turns(self, disk: RealDisk) -> None:
        for number in (1, 2):
            how = session_options(durability=self.durability, disk=disk)
            self.session = Promising(self.path, options=how)
            if number == 1:
                create_agent(self.session)
            log_turn(self.session, ROOT, number)
            self.session.close()


def operations(folder: Path, durability: Durability) -> list[str]:
    """Return the disk operations of a session of two turns."""
    disk = FailingDisk(fail_at=-1, fault="EIO")
    Run(folder, durability).go(disk)
    return disk.operations


@pytest.mark.req("D-01", "S0-34")
@pytest.mark.parametrize("durability", ["turn", "always", "none"])
def test_fault_at_any_operation_loses_nothing(tmp_path: Path, durability: Durability) -> None:
    (tmp_path / "good").mkdir()
    disk_operations = operations(tmp_path / "good", durability)
    assert disk_operations.count("write") == len(read_message_ids(tmp_path / "good" / "s.jsonl"))
    for number, (fail_at, fault) in enumerate(faults(disk_operations)):
        folder = tmp_path / str(number)
        folder.mkdir()
        run = Run(folder, durability)
        run.go(FailingDisk(fail_at=fail_at, fault=fault))
        context = f"{fault} at {fail_at}, a {disk_operations[fail_at]}"
        assert len(run.failures) == 1, context
        if run.session is not None:
            refuses_everything(run.session, context)
        recovers(run, context)


def refuses_everything(session: Session, context: str) -> None:
    """After a failure the session refuses events and writes no byte."""
    data_before = session.path.read_bytes()
    for _ in range(2):
        with pytest.raises((LogWriteError, SessionClosed)):
            log_user_message(session, ROOT if session.agents else "user", "more")
    try:
        session.close()
    except LogWriteError:
        session.close()
    assert session.path.read_bytes() == data_before, context


def recovers(run: Run, context: str) -> None:
    """On a good disk everything acknowledged exists, and the session continues."""
    if run.promised == 0 and run.path.stat().st_size > 0 and not has_a_line(run.path):
        with pytest.raises(InvalidLog):
            Session(run.path, options=session_options())
        return
    with Session(run.path, options=session_options()) as resumed:
        assert resumed.state.next_message >= max(run.promised, 1), context
        log_user_message(resumed, "user", "and on")
        after = resumed.state.describe()
    with Session.load(run.path, options=session_options()) as reloaded:
        assert reloaded.state.describe() == after, context


def has_a_line(path: Path) -> bool:
    """Whether the first line is complete, with or without its newline."""
    return path.read_bytes().split(b"\n")[0].endswith(b'"}')


@pytest.mark.req("D-01", "S0-35")
def test_fault_while_moving_a_torn_line_loses_no_byte(tmp_path: Path) -> None:
    good = tmp_path / "good.jsonl"
    with Session(good, options=session_options()) as session:
        log_user_message(session, create_agent(session), "one")
    torn = good.read_bytes() + b'{"event_type":"transcript_ent'
    good.write_bytes(torn)
    disk = RecordingDisk()
    Session(good, options=session_options(durability="turn", disk=disk)).close()
    expected_operations = ["write", "sync", "sync_folder", "sync", "sync_folder", "sync"]
    assert len(disk.writes) + len(disk.synced) + len(disk.folders) == len(expected_operations)
    for number, (fail_at, fault) in enumerate(faults(expected_operations)):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = folder / "s.jsonl"
        path.write_bytes(torn)
        failing = FailingDisk(fail_at=fail_at, fault=fault)
        with pytest.raises(LogWriteError):
            Session(path, options=session_options(durability="turn", disk=failing)).close()
        assert failing.operations == expected_operations[: fail_at + 1]
        torn_files = [p.read_bytes() for p in folder.glob("*.torn-*")]
        assert path.read_bytes() == torn or torn.removeprefix(path.read_bytes()) in torn_files
        with Session(path, options=session_options()) as session:
            assert log_user_message(session, ROOT, "two") == "msg_003"
        torn_files = [p.read_bytes() for p in folder.glob("*.torn-*")]
        assert torn[torn.rindex(b"\n") + 1 :] in torn_files
        assert len(read_message_ids(path)) == 4


def test_failed_newline_is_an_error_and_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    with Session(path, options=session_options()) as session:
        create_agent(session)
    first_line = path.read_bytes()
    path.write_bytes(first_line[:-1])
    for fault in ("EIO", "none"):
        with pytest.raises(HarkenError):
            Session(path, options=session_options(disk=FailingDisk(fail_at=0, fault=fault)))
        assert path.read_bytes() == first_line[:-1]
    Session(path, options=session_options()).close()
    assert path.read_bytes() == first_line
