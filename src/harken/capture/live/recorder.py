"""`LiveRecorder`: turn the output of a running client into commits, without delaying the client.

The output of the client determines *when* a commit is due, and its session file *what* is in it. If
there is no session file, the output determines both (`StreamCommits`). The choice is made once,
when the first commit is due. So a run has one history, and importing the file later adds nothing to
it.

A recorder has its own thread, the only one that uses the store. An error ends the recording but not
the client.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TypeAlias

import msgspec

from harken.capture.files.follower import ImportedChange, supersede
from harken.capture.live.boundary import BoundaryDetector
from harken.capture.live.session_files import RunFiles
from harken.capture.live.stream_commits import StreamCommits
from harken.capture.live.stream_event import LineParser, StreamEvent
from harken.core.commits import CommitId
from harken.errors import HarkenError
from harken.formats.events import Event, PromptEvent, SystemEvent
from harken.store.base import Store

SILENCE_S = 0.03
"""After this time without a line, an answer with a call is complete, and its tool is running."""
FILE_TIMEOUT_S = 1.0
"""The maximum wait for the session file when a commit is due."""
POLL_INTERVAL_S = 0.1
"""The interval of file checks while no commit is due."""


class CommitSources(msgspec.Struct, frozen=True):
    """The sources of the commits of a recording."""

    store: Store
    trail: RunFiles
    chain: StreamCommits


class _CommitRequested:
    """A queue item: a tool asks for its commit."""


QueueItem: TypeAlias = bytes | _CommitRequested | None
"""A line, a request of a tool, or None at the end."""
Opens = Callable[[], AbstractContextManager[CommitSources]]
"""Opens the store and the objects that use it, in the thread of the recording."""


class LiveRecorder(msgspec.Struct):
    """Record one run. Call `begin`, then `add_line` for each line, then `end`."""

    opens: Opens
    listen: LineParser | None
    """Parses the lines. None if the output is not parsed and only the files are followed."""
    publish_commit: Callable[[CommitId], None]
    """Called with each commit that the client's tools may ask for."""
    expect_commit: Callable[[], None] = lambda: None
    """Called when a tool starts: the commit for it will be settled soon."""
    release: Callable[[], None] = lambda: None
    """Called if no commit will be settled soon."""
    on_line: Callable[[StreamEvent], None] = lambda _: None
    """Called with each parsed line."""
    prompt: str = ""
    """The prompt of the client, which its output may not contain."""
    has_file: bool = True
    """Whether the client writes a session file."""
    started: str | None = None
    """The start time, RFC 3339."""
    failure: str = ""
    """Why the recording ended before the client did. Empty if it did not."""
    newest: CommitId | None = None
    _lines: SimpleQueue[QueueItem] = msgspec.field(default_factory=SimpleQueue)
    _thread: Thread | None = None
    _is_over: bool = False
    _sources: CommitSources | None = None

    def begin(self) -> None:
        """Start the thread."""
        self._thread = Thread(target=self._work, name="harken recording", daemon=True)
        self._thread.start()

    def add_line(self, line: bytes) -> None:
        """Add a line. Never blocks. After a failure it has no effect."""
        if not self._is_over:
            self._lines.put(line)

    def request_commit(self) -> bool:
        """Handle a tool's request for its commit. Return whether the recording is running."""
        if not self._is_over:
            self._lines.put(_CommitRequested())
        return not self._is_over

    def end(self) -> None:
        """Record the remaining lines after the client has ended. Return when they are written."""
        self._lines.put(None)
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        try:
            with self.opens() as sources:
                _RecordingLoop(self, sources).run(self._lines)
        except HarkenError as error:
            self.failure = str(error)
        except Exception as error:  # noqa: BLE001 - the border: the client runs on, whatever this is
            self.failure = f"a bug in Harken ({type(error).__name__}: {error})"
        self._is_over = True


class _RecordingLoop:
    """The state and the main loop of the recording thread."""

    def __init__(self, recording: LiveRecorder, sources: CommitSources) -> None:
        self._recording, self._sources = recording, sources
        self._trail, self._chain = sources.trail, sources.chain
        self._early_events: list[StreamEvent] | None = []
        """The lines before the source of commits is chosen. None after that."""
        self._is_by_file = False
        self._outcome: list[StreamEvent] = []
        """The lines that are no messages, such as the cost of the run."""
        self._boundaries: dict[str, BoundaryDetector] = {}
        self._due_s: float | None = None
        """The time since when a commit is due."""

    def run(self, lines: SimpleQueue[QueueItem]) -> None:
        """Process lines until the client has ended. Raises StoreError."""
        while True:
            try:
                line = lines.get(timeout=self._pause())
            except Empty:
                self._handle_silence()
                continue
            if line is None:
                break
            if isinstance(line, _CommitRequested):
                self._handle_silence()
                if self._due_s is None:
                    self._recording.release()
            else:
                self._process_line(line)
        self._end()

    def _pause(self) -> float:
        is_acting = any(detector.is_acting for detector in self._boundaries.values())
        return SILENCE_S if self._due_s is not None or is_acting else POLL_INTERVAL_S

    def _process_line(self, line: bytes) -> None:
        listen = self._recording.listen
        if listen is None:
            return
        event = listen(line)
        self._recording.on_line(event)
        if event.is_outcome:
            self._outcome.append(event)
        if event.is_call:
            self._recording.expect_commit()
        if event.session and not event.agent:
            self._trail.set_session(event.session)
        if self._early_events is None and not self._is_by_file:
            self._chain.add(event)
            self._settle(self._chain.newest)
            return
        if self._early_events is not None:
            self._early_events.append(event)
        if event.events and self._boundaries.setdefault(
            event.agent, BoundaryDetector()
        ).is_boundary_before(event):
            self._handle_due()

    def _handle_silence(self) -> None:
        """Handle a moment without lines."""
        if self._early_events is None and not self._is_by_file:
            self._chain.note_silence()
            self._settle(self._chain.newest)
            return
        acting = [detector for detector in self._boundaries.values() if detector.is_acting]
        for detector in acting:
            detector.note_silence()
        if acting or self._due_s is not None:
            self._handle_due()
        else:
            self._import_files()

    def _handle_due(self) -> None:
        """Handle a due commit: check the file, or do without it after the timeout."""
        now = time.monotonic()
        self._due_s = self._due_s or now
        timeout_s = FILE_TIMEOUT_S if self._recording.has_file else 0.0
        if self._import_files() or now - self._due_s >= timeout_s:
            self._due_s = None
            if self._early_events is not None:
                self._choose_source()

    def _import_files(self) -> bool:
        """Import the current content of the files. Return whether anything was new."""
        changes = self._trail.import_new(at_once=True)
        self._settle(find_newest_commit(changes))
        return bool(changes)

    def _choose_source(self) -> None:
        """Choose the source of commits: the session file or the output."""
        early, self._early_events = self._early_events or [], None
        self._is_by_file = self._trail.is_found or self._recording.listen is None
        if not self._is_by_file:
            for early_event in self._with_prompt(early):
                self._chain.add(early_event)
            self._settle(self._chain.newest)

    def _with_prompt(self, early: Sequence[StreamEvent]) -> list[StreamEvent]:
        """Return the early lines, with the prompt inserted if they do not contain it."""
        main_events = [early_event for early_event in early if not early_event.agent]
        index = next(
            (
                index
                for index, early_event in enumerate(main_events)
                if not _is_metadata(early_event)
            ),
            len(main_events),
        )
        if not self._recording.prompt or (
            index < len(main_events) and _has_prompt(main_events[index])
        ):
            return [*early]
        event = Event(PromptEvent(self._recording.prompt), self._recording.started)
        position = early.index(main_events[index]) if index < len(main_events) else len(early)
        return [*early[:position], StreamEvent(events=(event,)), *early[position:]]

    def _end(self) -> None:
        changes = self._trail.import_new(to_the_end=True)
        if self._early_events is not None:
            self._choose_source()
        if not self._is_by_file:
            self._chain.end()
            self._settle(self._chain.newest)
            if changes and self._chain.newest is not None:  # The file appeared after the choice.
                supersede(self._sources.store, self._chain.newest)
        self._settle(find_newest_commit(changes))
        if self._is_by_file and self._recording.newest is not None:
            self._chain.end_after(self._recording.newest, self._outcome)
            self._settle(self._chain.newest)

    def _settle(self, newest: CommitId | None) -> None:
        if newest is not None and newest != self._recording.newest:
            self._recording.newest = newest
            self._recording.publish_commit(newest)


def find_newest_commit(news: Sequence[ImportedChange]) -> CommitId | None:
    """Return the latest commit. Return None if there is none."""
    commits = [commit for change in news for commit in change.commits]
    return max(commits, key=lambda commit: commit.commit.created_at).id if commits else None


def _is_metadata(line_event: StreamEvent) -> bool:
    """Whether a line describes the run and is not part of the conversation."""
    return all(isinstance(event.payload, SystemEvent) for event in line_event.events)


def _has_prompt(line_event: StreamEvent) -> bool:
    return any(isinstance(event.payload, PromptEvent) for event in line_event.events)
