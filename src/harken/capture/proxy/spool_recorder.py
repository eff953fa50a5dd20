"""What the recorder's process does: it reads spools, and hands what is in them to a recorder.

One idea: the recorder may fail, or be killed, at any moment; what it was given and has not done is
in the spool, and is given to it again. A call that ends it again and again is passed over.

`runs/NAME/` is the spool of one proxy, present or past: who holds `recorder.lock` in it reads it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from harken.capture.proxy.spool import WRITER_LOCK
from harken.capture.proxy.spool_reader import HintsOf, SpoolReader, SpoolStep, UnrecordableCall
from harken.errors import LogWriteError
from harken.recording.exchange import ENDED, CapturedRequest, CapturedResponse

RECORDER_LOCK = "recorder.lock"
TRIES = "tries"
_MOST_TRIES = 3
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0


class CallRecorder(Protocol):
    """What calls are handed to; `harken.recording.recorder.Recorder` is one."""

    @property
    def failure(self) -> Exception | None:
        """What kept the last call or reply from being recorded; None: nothing did."""
        ...

    def begin(self, call: CapturedRequest, /) -> None:
        """Record a request. Given again after a crash, it records nothing twice. Never raises."""
        ...

    def end(self, reply: CapturedResponse, /) -> None:
        """Record how a call ended, that was begun before. Never raises."""
        ...

    def holds(self, call_id: str, /) -> bool:
        """Whether a call is in memory only: it goes on from an answer that is not here yet."""
        ...

    def close(self) -> None:
        """Record what is held. It may go on being used."""
        ...


@dataclass(slots=True)
class SpoolRecorder:
    """Hands what is in spools to a recorder, and counts."""

    into: CallRecorder
    hints_of: HintsOf
    tell: Callable[[str], None]
    progress: Callable[[], None] = lambda: None
    """Is called now and then, when the counts may have changed."""
    pause: Callable[[float], None] = time.sleep
    recorded: int = 0
    unrecorded: Counter[str] = field(default_factory=Counter)
    """How many calls could not be recorded, and why."""
    _held: list[SpoolStep] = field(default_factory=list)
    """Ends that were handed over, and are not in a log yet."""
    _passed_over: set[int] = field(default_factory=set)
    """Calls whose request is not recorded, so that their answer is not either."""

    def catch_up(self, runs: Path, own: str = "") -> None:
        """Record what proxies have left that are gone, all but `own`."""
        with suppress(FileNotFoundError):
            for folder in sorted(runs.iterdir()):
                if folder.name == own or not folder.is_dir() or _is_written(folder):
                    continue
                with _held(folder / RECORDER_LOCK) as held:
                    if held and self._read(folder, iter(())):
                        shutil.rmtree(folder, ignore_errors=True)

    def follow(self, folder: Path, news: Iterable[bool]) -> None:
        """Record what a proxy writes. `news`: something was written; it ends when the proxy does.

        Raises OSError for a folder that is not there.
        """
        with _held(folder / RECORDER_LOCK, wait=True):
            if self._read(folder, iter(news)):
                shutil.rmtree(folder, ignore_errors=True)

    def _read(self, folder: Path, news: Iterator[bool]) -> bool:
        """Record all until there are no more news; return whether nothing is left to do."""
        self._held.clear()
        reader = SpoolReader(folder, self.hints_of)
        tries = _tries(folder)
        is_written = True
        while self._do(reader, reader.read(), tries, folder):
            if not is_written:
                return self._finish(reader, tries, folder)
            is_written = next(news, False)
        (folder / TRIES).unlink(missing_ok=True)  # they did no harm
        return False

    def _finish(self, reader: SpoolReader, tries: Counter[int], folder: Path) -> bool:
        if not self._do(reader, reader.finish(ENDED), tries, folder):
            return False
        self.into.close()
        return not isinstance(self.into.failure, LogWriteError | OSError)

    def _do(
        self, reader: SpoolReader, steps: Iterator[SpoolStep], tries: Counter[int], folder: Path
    ) -> bool:
        """Record steps; return whether all are done that can be."""
        for step in steps:
            if isinstance(step.what, CapturedRequest):
                _note_try(folder, step.call)
            if not self._step(step, tries[step.call], folder):
                return False
            if step.is_last:
                self._held.append(step)
            for one in [one for one in self._held if not self._is_held(one)]:
                self._held.remove(one)
                reader.mark(one)
        for text in reader.damage:
            self.tell(text)
        reader.damage.clear()
        self.progress()
        return True

    def _is_held(self, step: SpoolStep) -> bool:
        return isinstance(step.what, CapturedResponse) and self.into.holds(step.what.id)

    def _step(self, step: SpoolStep, tries: int, folder: Path) -> bool:
        """Record one step; return False where the disk is full and the proxy is gone."""
        if isinstance(step.what, UnrecordableCall):
            self.unrecorded[step.what.reason] += 1
        elif step.call in self._passed_over:
            self._passed_over.discard(step.call)
        elif tries >= _MOST_TRIES:
            self._pass_over(step, "it has ended the recorder again and again")
        else:
            return self._hand(step, step.what, folder)
        return True

    def _hand(
        self, step: SpoolStep, what: CapturedRequest | CapturedResponse, folder: Path
    ) -> bool:
        pause_s = _FIRST_PAUSE_S
        while True:
            if isinstance(what, CapturedRequest):
                self.into.begin(what)
            else:
                self.into.end(what)
            failure = self.into.failure
            if not isinstance(failure, LogWriteError | OSError):
                break
            if not _is_written(folder):
                return False
            self.pause(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
        if failure is not None:
            self._pass_over(step, " ".join(str(failure).split()) or type(failure).__name__)
        elif step.is_last:
            self.recorded += 1
        return True

    def _pass_over(self, step: SpoolStep, reason: str) -> None:
        self.unrecorded[reason] += 1
        if not step.is_last:
            self._passed_over.add(step.call)


def _tries(folder: Path) -> Counter[int]:
    """Return how often each call was handed to a recorder."""
    try:
        lines = (folder / TRIES).read_text().splitlines()
    except OSError:
        return Counter()
    return Counter(int(line) for line in lines if line.isdecimal())


def _note_try(folder: Path, call: int) -> None:
    with suppress(OSError), (folder / TRIES).open("a") as file:
        file.write(f"{call}\n")


def _is_written(folder: Path) -> bool:
    """Whether a proxy is there that writes this spool."""
    with _held(folder / WRITER_LOCK) as held:
        return not held


@contextmanager
def _held(path: Path, *, wait: bool = False) -> Iterator[bool]:
    """Hold a lock; give whether it is held. Raises OSError where there is no folder for it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)
