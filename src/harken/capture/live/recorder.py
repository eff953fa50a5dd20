"""`LiveRecorder`: a running client becomes commits, beside it and never in its way.

One idea: what the client says tells *when* a commit is due, and its own file *what* is in it. Where
no such file comes, what it says tells both (`chain`). Which of the two it is, is decided once, when
the first commit is due; so a run has one history, and importing the file later adds nothing to it.

A recording has a thread of its own, which alone uses the store. Whatever fails in it ends it, and
nothing else: the client runs on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TypeAlias

from harken.capture.files.follower import ImportedChange, supersede
from harken.capture.live.boundary import BoundaryDetector
from harken.capture.live.session_files import RunFiles
from harken.capture.live.stream_commits import StreamCommits
from harken.capture.live.stream_event import Listen, StreamEvent
from harken.core.commits import CommitId
from harken.errors import HarkenError
from harken.formats.events import Event, PromptEvent, SystemEvent
from harken.store.base import Store

SILENCE_S = 0.03
"""After so long without a line, an answer with a call is whole, and its tool runs."""
FILE_S = 1.0
"""So long the file is waited for, when a commit is due."""
EACH_S = 0.1
"""So often the file is looked at where nothing is due."""


@dataclass(frozen=True, slots=True)
class CommitSources:
    """What a recording makes commits of."""

    store: Store
    trail: RunFiles
    chain: StreamCommits


class _Asked:
    """Stands among the lines where a tool asks for its commit."""


Line: TypeAlias = bytes | _Asked | None
"""None: it was the last."""
Opens = Callable[[], AbstractContextManager[CommitSources]]
"""Opens the store and all that is above it, for the thread of the recording."""


@dataclass(slots=True)
class LiveRecorder:
    """Records one run. `begin`, then `hear` line by line, then `end`."""

    opens: Opens
    listen: Listen | None
    """None: the client says nothing that we read; only its files are followed."""
    settle: Callable[[CommitId], None]
    """Is told each commit that the client's tools may ask for."""
    hold: Callable[[], None] = lambda: None
    """Is told that a tool begins: what it may ask for is settled soon."""
    release: Callable[[], None] = lambda: None
    """Is told that nothing is settled soon."""
    tell: Callable[[StreamEvent], None] = lambda _: None
    """Is told all that is heard."""
    prompt: str = ""
    """What the client was asked, which it does not say itself."""
    has_file: bool = True
    """Whether the client keeps a file of the session."""
    started: str | None = None
    """When; RFC 3339."""
    failure: str = ""
    """Why the recording ended before the client did; empty: it did not."""
    newest: CommitId | None = None
    _lines: SimpleQueue[Line] = field(default_factory=SimpleQueue)
    _thread: Thread | None = None
    _is_over: bool = False
    _witnesses: CommitSources | None = None

    def begin(self) -> None:
        """Begin."""
        self._thread = Thread(target=self._work, name="harken recording", daemon=True)
        self._thread.start()

    def hear(self, line: bytes) -> None:
        """Take a line. It never waits, and after a failure it does nothing."""
        if not self._is_over:
            self._lines.put(line)

    def ask(self) -> bool:
        """A tool asks for its commit: look now; return whether somebody does."""
        if not self._is_over:
            self._lines.put(_Asked())
        return not self._is_over

    def end(self) -> None:
        """The client has ended: record the rest, and return when it is written."""
        self._lines.put(None)
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        try:
            with self.opens() as witnesses:
                _Work(self, witnesses).run(self._lines)
        except HarkenError as error:
            self.failure = str(error)
        except Exception as error:  # noqa: BLE001 - the border: the client runs on, whatever this is
            self.failure = f"a bug in Harken ({type(error).__name__}: {error})"
        self._is_over = True


class _Work:
    """What the thread of a recording does."""

    def __init__(self, recording: LiveRecorder, witnesses: CommitSources) -> None:
        self._recording, self._witnesses = recording, witnesses
        self._trail, self._chain = witnesses.trail, witnesses.chain
        self._early: list[StreamEvent] | None = []
        """What was heard before it was decided who the witness is; None: it is decided."""
        self._is_by_file = False
        self._boundaries: dict[str, BoundaryDetector] = {}
        self._due_s: float | None = None
        """Since when a commit is due."""

    def run(self, lines: SimpleQueue[Line]) -> None:
        """Work until the client has ended. Raises StoreError."""
        while True:
            try:
                line = lines.get(timeout=self._pause())
            except Empty:
                self._rest()
                continue
            if line is None:
                break
            if isinstance(line, _Asked):
                self._rest()
                if self._due_s is None:
                    self._recording.release()
            else:
                self._take(line)
        self._end()

    def _pause(self) -> float:
        is_acting = any(one.is_acting for one in self._boundaries.values())
        return SILENCE_S if self._due_s is not None or is_acting else EACH_S

    def _take(self, line: bytes) -> None:
        listen = self._recording.listen
        if listen is None:
            return
        heard = listen(line)
        self._recording.tell(heard)
        if heard.is_call:
            self._recording.hold()
        if heard.session and not heard.agent:
            self._trail.name(heard.session)
        if self._early is None and not self._is_by_file:
            self._chain.take(heard)
            self._settle(self._chain.newest)
            return
        if self._early is not None:
            self._early.append(heard)
        if heard.events and self._boundaries.setdefault(heard.agent, BoundaryDetector()).before(
            heard
        ):
            self._due()

    def _rest(self) -> None:
        """Nothing was heard for a moment."""
        if self._early is None and not self._is_by_file:
            self._chain.rest()
            self._settle(self._chain.newest)
            return
        acting = [one for one in self._boundaries.values() if one.is_acting]
        for one in acting:
            one.rest()
        if acting or self._due_s is not None:
            self._due()
        else:
            self._look()

    def _due(self) -> None:
        """A commit is due: look at the file, and where it does not come, do without."""
        now = time.monotonic()
        self._due_s = self._due_s or now
        patience_s = FILE_S if self._recording.has_file else 0.0
        if self._look() or now - self._due_s >= patience_s:
            self._due_s = None
            if self._early is not None:
                self._decide()

    def _look(self) -> bool:
        """Read the files as far as they have come; return whether there was anything new."""
        news = self._trail.look(at_once=True)
        self._settle(newest_in(news))
        return bool(news)

    def _decide(self) -> None:
        """Decide who the witness is."""
        early, self._early = self._early or [], None
        self._is_by_file = self._trail.is_found or self._recording.listen is None
        if not self._is_by_file:
            for heard in self._with_prompt(early):
                self._chain.take(heard)
            self._settle(self._chain.newest)

    def _with_prompt(self, early: Sequence[StreamEvent]) -> list[StreamEvent]:
        """Return what was heard, with the prompt where nobody said it."""
        said = [one for one in early if not one.agent]
        at = next((at for at, one in enumerate(said) if not _is_about(one)), len(said))
        if not self._recording.prompt or (at < len(said) and _asks(said[at])):
            return [*early]
        event = Event(PromptEvent(self._recording.prompt), self._recording.started)
        where = early.index(said[at]) if at < len(said) else len(early)
        return [*early[:where], StreamEvent(events=(event,)), *early[where:]]

    def _end(self) -> None:
        news = self._trail.look(to_the_end=True)
        if self._early is not None:
            self._decide()
        if not self._is_by_file:
            self._chain.end()
            self._settle(self._chain.newest)
            if news and self._chain.newest is not None:  # the file came late
                supersede(self._witnesses.store, self._chain.newest)
        self._settle(newest_in(news))

    def _settle(self, newest: CommitId | None) -> None:
        if newest is not None and newest != self._recording.newest:
            self._recording.newest = newest
            self._recording.settle(newest)


def newest_in(news: Sequence[ImportedChange]) -> CommitId | None:
    """Return the commit that covers the latest; None: there is none."""
    made = [one for each in news for one in each.commits]
    return max(made, key=lambda one: one.commit.created_at).id if made else None


def _is_about(heard: StreamEvent) -> bool:
    """Whether a line is about the run, and no conversation."""
    return all(isinstance(event.payload, SystemEvent) for event in heard.events)


def _asks(heard: StreamEvent) -> bool:
    return any(isinstance(event.payload, PromptEvent) for event in heard.events)
