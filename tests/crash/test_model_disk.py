"""Power cuts on a model of a disk: after the cut there is what was synced, and any part of the rest.

It knows one thing that the real cuts of `test_power_cut.py` meet only by chance: the cut comes just
before each single operation.
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
    """The machine is off. Nothing catches this."""


@dataclass
class ModelDisk(RealDisk):
    """A disk that knows what is durable, and is cut off before operation number `at`."""

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
    """What processes did with a log, and what they promised."""

    path: Path
    durability: Durability
    disk: ModelDisk
    promised: int = 0
    """How many events are safe, as was said to whoever asked for them."""

    def live(self) -> bool:
        """Run to the power cut; False where none came."""
        try:
            self.run()
        except PowerCut:
            return True
        return False

    def run(self) -> None:
        """Two turns; killed in the third; resumed, a promise, and a fourth."""
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
        """End the process that has the session: its lock is gone, what it wrote is not."""
        session._file.close()

    def leftovers(self) -> Iterator[bytes | None]:
        """Yield what may be there after the cut; None: no file of this name."""
        if not self.disk.named:
            yield None
        raw = self.path.read_bytes()
        safe = self.disk.safe
        loose = len(raw) - safe
        for more in {0, 1, loose // 3, loose // 2, loose - 1, loose} & set(range(loose + 1)):
            yield raw[: safe + more]
        yield raw[:safe] + b"\0" * loose


def lives(folder: Path, durability: Durability) -> Iterator[Life]:
    """Yield a life for every operation before which the power can be cut."""
    at = 0
    while True:
        path = folder / f"{at}.jsonl"
        life = Life(path, durability, ModelDisk(at))
        if not life.live():
            return
        yield life
        at += 1


@pytest.mark.req("D-01", "S0-34")
@pytest.mark.parametrize("durability", ["turn", "always"])
def test_a_power_cut_before_any_operation_loses_nothing_promised(
    tmp_path: Path, durability: Durability
) -> None:
    cut_before = list(lives(tmp_path, durability))
    assert len(cut_before) > 30
    for life in cut_before:
        for left in life.leftovers():
            path = tmp_path / "after.jsonl"
            path.unlink(missing_ok=True)
            if left is not None:
                path.write_bytes(left)
            assert found(path) >= life.promised, f"cut before operation {life.disk.at}"


def found(path: Path) -> int:
    """Return how many events are there, and that the session can go on."""
    try:
        with Session.load(path, options=session_options()) as session:
            events = session.state.next_message
            log_user_message(session, "user", "after the cut")
    except (LogNotFound, InvalidLog):
        return 0
    Session.load(path, options=session_options()).close()
    return events


def test_the_model_sees_what_a_policy_without_syncs_loses(tmp_path: Path) -> None:
    """Else the tests above would prove nothing."""
    lost = 0
    for life in lives(tmp_path, "none"):
        path = tmp_path / "after.jsonl"
        path.write_bytes(life.path.read_bytes()[: life.disk.safe])
        lost += found(path) < life.promised
    assert lost > 10
