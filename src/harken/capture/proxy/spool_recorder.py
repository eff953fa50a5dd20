"""`SpoolRecorder`: pass the calls in spools to a recorder, in the recorder's process.

The process may fail or be killed at any time. Unfinished calls are still in the spool and are
passed on again. A call that repeatedly ended the process is skipped.

`runs/NAME/` is the spool of one proxy, which may have ended. The process that holds `recorder.lock`
reads it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import msgspec

from harken.capture.proxy.spool import WRITER_LOCK
from harken.capture.proxy.spool_reader import HintsOf, SpoolReader, SpoolStep, UnrecordableCall
from harken.errors import LogWriteError
from harken.recording.exchange import PROXY_STOPPED, CapturedRequest, CapturedResponse

RECORDER_LOCK = "recorder.lock"
TRIES_FILE = "tries"
_MAX_TRIES = 3
_MIN_PAUSE_S, _MAX_PAUSE_S = 0.5, 30.0


class CallRecorder(Protocol):
    """A consumer of calls, such as `harken.recording.recorder.Recorder`."""

    @property
    def failure(self) -> Exception | None:
        """Why the last call or response was not recorded. It is None after a success."""
        ...

    def begin(self, call: CapturedRequest, /) -> None:
        """Record a request. A repeated request is recorded once. Never raises."""
        ...

    def end(self, reply: CapturedResponse, /) -> None:
        """Record the end of a call that was begun before. Never raises."""
        ...

    def is_holding(self, call_id: str, /) -> bool:
        """Whether a call is only in memory, because the answer that it continues is not logged."""
        ...

    def close(self) -> None:
        """Record the calls in memory. The recorder may be used afterwards."""
        ...


class SpoolRecorder(msgspec.Struct):
    """Pass the events of spools to a recorder, and count calls."""

    into: CallRecorder
    hints_of: HintsOf
    on_notice: Callable[[str], None]
    progress: Callable[[], None] = lambda: None
    """Called from time to time, when the counts may have changed."""
    on_run: Callable[[Path], None] = lambda _: None
    """Called with the folder of each run before its calls are recorded."""
    pause: Callable[[float], None] = time.sleep
    recorded: int = 0
    unrecorded: Counter[str] = msgspec.field(default_factory=Counter)
    """The number of calls that could not be recorded, by reason."""
    _buffered_steps: list[SpoolStep] = msgspec.field(default_factory=list)
    """Ends of calls that were passed on, and are not in a log yet."""
    _skipped_calls: set[int] = msgspec.field(default_factory=set)
    """Calls whose request was not recorded. Their responses are skipped."""

    def catch_up(self, runs: Path, own: str = "") -> None:
        """Record the spools of proxies that have ended, except `own`."""
        with suppress(FileNotFoundError):
            for folder in sorted(runs.iterdir()):
                if folder.name == own or not folder.is_dir() or _has_writer(folder):
                    continue
                with _hold_lock(folder / RECORDER_LOCK) as is_locked:
                    if is_locked and self._read(folder, iter(())):
                        shutil.rmtree(folder, ignore_errors=True)

    def follow(self, folder: Path, news: Iterable[bool]) -> None:
        """Record the spool of a running proxy.

        `news` yields when data was written, and ends with the proxy.

        Raises OSError if the folder does not exist.
        """
        with _hold_lock(folder / RECORDER_LOCK, wait=True):
            if self._read(folder, iter(news)):
                shutil.rmtree(folder, ignore_errors=True)

    def _read(self, folder: Path, news: Iterator[bool]) -> bool:
        """Record until there are no more news. Return whether the spool is finished."""
        self._buffered_steps.clear()
        self.on_run(folder)
        reader = SpoolReader(folder, self.hints_of)
        tries = _load_tries(folder)
        is_written = True
        while self._record_steps(reader, reader.read(), tries, folder):
            if not is_written:
                return self._finish(reader, tries, folder)
            is_written = next(news, False)
        (folder / TRIES_FILE).unlink(missing_ok=True)  # The attempts did not end the process.
        return False

    def _finish(self, reader: SpoolReader, tries: Counter[int], folder: Path) -> bool:
        if not self._record_steps(reader, reader.finish(PROXY_STOPPED), tries, folder):
            return False
        self.into.close()
        return not isinstance(self.into.failure, LogWriteError | OSError)

    def _record_steps(
        self, reader: SpoolReader, steps: Iterator[SpoolStep], tries: Counter[int], folder: Path
    ) -> bool:
        """Record steps. Return False if the disk is full and the proxy has ended."""
        for step in steps:
            if isinstance(step.event, CapturedRequest):
                _note_try(folder, step.call)
            if not self._record_step(step, tries[step.call], folder):
                return False
            if step.is_last:
                self._buffered_steps.append(step)
            for held_step in [
                held_step for held_step in self._buffered_steps if not self._is_buffered(held_step)
            ]:
                self._buffered_steps.remove(held_step)
                reader.mark_recorded(held_step)
        for text in reader.damage:
            self.on_notice(text)
        reader.damage.clear()
        self.progress()
        return True

    def _is_buffered(self, step: SpoolStep) -> bool:
        return isinstance(step.event, CapturedResponse) and self.into.is_holding(step.event.id)

    def _record_step(self, step: SpoolStep, tries: int, folder: Path) -> bool:
        """Record one step. Return False if the disk is full and the proxy has ended."""
        if isinstance(step.event, UnrecordableCall):
            self.unrecorded[step.event.reason] += 1
        elif step.call in self._skipped_calls:
            self._skipped_calls.discard(step.call)
        elif tries >= _MAX_TRIES:
            self._skip(step, "it has ended the recorder again and again")
        else:
            return self._pass_on(step, step.event, folder)
        return True

    def _pass_on(
        self, step: SpoolStep, what: CapturedRequest | CapturedResponse, folder: Path
    ) -> bool:
        pause_s = _MIN_PAUSE_S
        while True:
            if isinstance(what, CapturedRequest):
                self.into.begin(what)
            else:
                self.into.end(what)
            failure = self.into.failure
            if not isinstance(failure, LogWriteError | OSError):
                break
            if not _has_writer(folder):
                return False
            self.pause(pause_s)
            pause_s = min(pause_s * 2, _MAX_PAUSE_S)
        if failure is not None:
            self._skip(step, " ".join(str(failure).split()) or type(failure).__name__)
        elif step.is_last:
            self.recorded += 1
        return True

    def _skip(self, step: SpoolStep, reason: str) -> None:
        self.unrecorded[reason] += 1
        if not step.is_last:
            self._skipped_calls.add(step.call)


def _load_tries(folder: Path) -> Counter[int]:
    """Return the number of attempts to record each call."""
    try:
        lines = (folder / TRIES_FILE).read_text().splitlines()
    except OSError:
        return Counter()
    return Counter(int(line) for line in lines if line.isdecimal())


def _note_try(folder: Path, call: int) -> None:
    with suppress(OSError), (folder / TRIES_FILE).open("a") as file:
        file.write(f"{call}\n")


def _has_writer(folder: Path) -> bool:
    """Whether a running proxy writes this spool."""
    with _hold_lock(folder / WRITER_LOCK) as is_locked:
        return not is_locked


@contextmanager
def _hold_lock(path: Path, *, wait: bool = False) -> Iterator[bool]:
    """Lock a file. Yield whether it is locked. Raises OSError if its folder does not exist."""
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
