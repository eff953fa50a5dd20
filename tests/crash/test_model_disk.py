"""Power cuts on a model disk: synced data survives, with any part of the rest.

The model cuts before each single operation, which the real cuts of `test_power_cut.py` reach
only by chance.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from harken.core.ids import AgentId
from harken.errors import InvalidLog, LogNotFound
from harken.session.log.file import RealDisk
from harken.session.session import Durability, Session
from tests.session_kit import create_agent, log_turn, log_user_message, session_options

ROOT = AgentId("agent_001")


class PowerCut(BaseException):
    """The machine is off. No code catches this."""


@dataclass
class ModelDisk(RealDisk):
    """A disk that tracks durable data and is cut off before operation number `at`."""

    at: int
    operations: int = 0
    safe: int = 0
    """How many bytes of the log are durable."""
    named: bool = False
    """Whether the name of the log is durable."""

    def write(self, fd: int, data: bytes) -> int:
        self._step()
        return super().write(fd, data)

    def sync(self, fd: int) -> None:
        self._step()
        self.safe = os.fstat(fd).st_size

    def sync_folder(self, folder: Path) -> None:
        self._step()
        self.named = True

    def _step(self) -> None:
        if self.operations == self.at:
            raise PowerCut
        self.operations += 1


@dataclass
class Life:
    """The operations of several processes on a log, and their promises."""

    path: Path
    durability: Durability
    disk: ModelDisk
    promised: int = 0
    """How many events are safe, as was said to whoever asked for them."""

    def live(self) -> bool:
        """Run until the power cut. Return False if there was none."""
        try:
            self.run()
        except PowerCut:
            return True
        return False

    def run(self) -> None:
        """Run two turns; kill the third; resume, sync, and run a fourth."""
        session = self.open()
        create_agent(session)
        for number in (1, 2):
            log_turn(session, ROOT, number)
            self.promise(session)
        log_user_message(session, ROOT, "unsettled")
        if self.durability == "always":
            self.promise(session)
        self.kill(session)
        session = self.open()
        session.sync()
        self.promise(session)
        log_turn(session, ROOT, 4)
        self.promise(session)
        session.close()

    def open(self) -> Session:
        how = session_options(durability=self.durability, disk=self.disk)
        return Session(self.path, options=how)

    def promise(self, session: Session) -> None:
        self.promised = session.state.next_message

    def kill(self, session: Session) -> None:
        """End the process of the session: its lock is released, its writes stay."""
        session._file.close()

    def leftovers(self) -> Iterator[bytes | None]:
        """Yield the possible contents after the cut. None is a missing file."""
        if not self.disk.named:
            yield None
        raw = self.path.read_bytes()
        safe = self.disk.safe
        loose = len(raw) - safe
        for extra in {0, 1, loose // 3, loose // 2, loose - 1, loose} & set(range(loose + 1)):
            yield raw[: safe + extra]
        yield raw[:safe] + b"\0" * loose


def lives(folder: Path, durability: Durability) -> Iterator[Life]:
    """Yield a run for every operation before which the power can be cut."""
    cut_at = 0
    while True:
        path = folder / f"{cut_at}.jsonl"
        life = Life(path, durability, ModelDisk(cut_at))
        if not life.live():
            return
        yield life
        cut_at += 1


@pytest.mark.req("D-01", "S0-34")
@pytest.mark.parametrize("durability", ["turn", "always"])
def test_power_cut_before_any_operation_keeps_promised_events(
    tmp_path: Path, durability: Durability
) -> None:
    cut_before = list(lives(tmp_path, durability))
    assert len(cut_before) > 30
    for life in cut_before:
        for leftover in life.leftovers():
            path = tmp_path / "after.jsonl"
            path.unlink(missing_ok=True)
            if leftover is not None:
                path.write_bytes(leftover)
            assert count_events(path) >= life.promised, f"cut before operation {life.disk.at}"


def count_events(path: Path) -> int:
    """Return the number of events, after a check that the session can continue."""
    try:
        with Session.load(path, options=session_options()) as session:
            events = session.state.next_message
            log_user_message(session, "user", "after the cut")
    except (LogNotFound, InvalidLog):
        return 0
    Session.load(path, options=session_options()).close()
    return events


def test_model_disk_detects_losses_without_syncs(tmp_path: Path) -> None:
    """Otherwise the tests above would prove nothing."""
    lost_count = 0
    for life in lives(tmp_path, "none"):
        path = tmp_path / "after.jsonl"
        path.write_bytes(life.path.read_bytes()[: life.disk.safe])
        lost_count += count_events(path) < life.promised
    assert lost_count > 10
