"""The recorded sessions of a folder: found by name, opened on demand, closed when idle.

A session is one file. Its name is derived from the client's name for the session, so it is found
again after a restart without any other state. Sessions without a client name are found by the
beginning of their conversation, which is read from the file.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

import msgspec
from blake3 import blake3

from harken.context.checkpoint import CommitIdentity
from harken.core import canonical
from harken.core import events as ev
from harken.core.arguments import check_arguments
from harken.core.clock import Clock
from harken.core.messages import Role
from harken.core.secrets.redaction import Credentials
from harken.errors import LogError, LogLocked
from harken.formats.wire import messages_v1
from harken.formats.wire import registry as wires
from harken.recording.rebuild import request_forms
from harken.recording.recorded_session import CallClock, ParsedCall, RecordedSession
from harken.recording.reopen import open_recorded_session, read_client
from harken.recording.writer.item import compute_logged_key
from harken.recording.writer.logged_items import group_items
from harken.session.log.reader import iter_events
from harken.session.session import Durability, SessionOptions
from harken.store.base import Store

_NAME_LENGTHS, _MAX_NAMES = (8, 13, 18, 36), 8
_MAX_SEARCHED_LOGS = 16
_MAX_INDEXED_LOGS = 256
"""The number of newest sessions that are indexed by how they begin."""
_MAX_OPENED_CANDIDATES = 16
"""The number of sessions with the same beginning that are opened to match a request."""


@check_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderOptions:
    """The options of a recorder. All have defaults."""

    identity: CommitIdentity = field(default_factory=CommitIdentity)
    """The principal, machine, ticket and thread of the commits."""
    durability: Durability = "turn"
    """When recorded events survive a power cut. With `turn`, as soon as an answer is recorded."""
    max_open_sessions: int = 32
    """The maximum number of open sessions, unless more of them wait for responses."""
    idle_s: float = 900.0
    """A session that was not used for this time is closed."""
    redact: Credentials | None = None
    """Removes credentials from calls before anything of them is stored, and counts them."""


class SessionPool(msgspec.Struct):
    """The recorded sessions of a folder. Not thread-safe."""

    folder: Path
    store: Store | None
    clock: Clock
    options: RecorderOptions = RecorderOptions()
    identity: CommitIdentity = msgspec.field(default_factory=CommitIdentity)
    """The identity of the commits of sessions that are opened from now on."""
    start_clock: CallClock = msgspec.field(default_factory=CallClock)
    """The time at which new sessions start."""
    _open: dict[Path, RecordedSession] = msgspec.field(default_factory=dict)
    """The open sessions, the last used last."""
    _used_us: dict[Path, int] = msgspec.field(default_factory=dict)
    _by_opening: dict[str, list[Path]] = msgspec.field(default_factory=dict)
    _indexed_paths: set[Path] = msgspec.field(default_factory=set)

    @property
    def open_sessions(self) -> list[RecordedSession]:
        """The open sessions."""
        return list(self._open.values())

    def get_named(self, client: str, session: str) -> RecordedSession:
        """Return the session with this client name, or create it. Raises LogError, OSError."""
        for path, run in self._open.items():
            if (run.client, run.client_session) == (client, session):
                return self._mark_used(path, run)
        for path in _iter_paths(self.folder, client, session):
            if not path.exists() or _is_log_of(path, client, session):
                with contextlib.suppress(LogLocked):
                    return self._open_session(path, client, session)
        raise LogError(self.folder, f"no name is left for the session {session} of {client}")

    def create_unnamed(self, client: str, seed: str) -> RecordedSession:
        """Create a session without a client name. The same `seed` gives the same file name."""
        for path in _iter_paths(self.folder, client, blake3(seed.encode()).hexdigest()):
            if not path.exists():
                return self._open_session(path, client, "")
        raise LogError(self.folder, "no name is left for a new session")

    def list_unnamed(self, client: str) -> list[RecordedSession]:
        """Return the open sessions of a client that have no client name, the last used first."""
        runs = reversed(self._open.values())
        return [run for run in runs if run.client == client and not run.client_session]

    def iter_candidates(self, request: ParsedCall) -> Iterator[RecordedSession]:
        """Open and yield closed sessions whose conversation starts like a request."""
        self._index_newest()
        paths = self._by_opening.get(opening_key(request), [])
        closed = [path for path in reversed(paths) if path not in self._open]
        for path in closed[:_MAX_OPENED_CANDIDATES]:
            with contextlib.suppress(LogError, OSError):
                yield self._open_session(path, request.call.hints.client, "")

    def find_open_call(self, call_id: str) -> RecordedSession | None:
        """Return the open session in which a call waits for its response, or None."""
        for path, run in self._open.items():
            if call_id in run.pending_calls:
                return self._mark_used(path, run)
        return None

    def find_logged_call(self, call_id: str) -> RecordedSession | None:
        """Find a call without a response in the logs of closed sessions.

        Return None if there is none.
        """
        call_bytes = canonical.to_json_line(call_id)
        for path in self._list_newest()[: -_MAX_SEARCHED_LOGS - 1 : -1]:
            with contextlib.suppress(LogError, OSError):
                if path not in self._open and call_bytes in path.read_bytes():
                    run = self._open_session(path, *read_client(path))
                    if call_id in run.pending_calls:
                        return run
        return None

    def drop(self, run: RecordedSession) -> None:
        """Close a session in any state. Errors are ignored."""
        path = run.session.path
        self._open.pop(path, None)
        self._used_us.pop(path, None)
        with contextlib.suppress(LogError, OSError):
            run.close()

    def list_idle(self) -> list[RecordedSession]:
        """Return the sessions to close: without open calls, and idle or in excess of the limit."""
        before = self.clock() - int(self.options.idle_s * 1_000_000)
        free = [(path, run) for path, run in self._open.items() if not run.pending_calls]
        surplus = len(self._open) - self.options.max_open_sessions
        return [
            run
            for index, (path, run) in enumerate(free)
            if index < surplus or self._used_us[path] < before
        ]

    def _open_session(self, path: Path, client: str, session: str) -> RecordedSession:
        self.folder.mkdir(parents=True, exist_ok=True)
        run = open_recorded_session(
            path,
            CallClock(self.start_clock.now_us or self.clock()),
            options=SessionOptions(durability=self.options.durability, redact=self.options.redact),
            client=client,
            client_session=session,
            store=self.store,
            identity=self.identity,
        )
        return self._mark_used(run.session.path, run)

    def _mark_used(self, path: Path, run: RecordedSession) -> RecordedSession:
        self._open.pop(path, None)
        self._open[path] = run
        self._used_us[path] = self.clock()
        return run

    def _index_newest(self) -> None:
        """Index the newest sessions by how they begin."""
        for path in self._list_newest()[-_MAX_INDEXED_LOGS:]:
            if path not in self._indexed_paths and path not in self._open:
                self._indexed_paths.add(path)
                opening = _read_opening_key(path)
                if opening:
                    self._by_opening.setdefault(opening, []).append(path)

    def _list_newest(self) -> list[Path]:
        """Return the files of the recorded sessions, the last written last."""
        paths = self.folder.absolute().glob("rec-*.jsonl")
        with contextlib.suppress(OSError):
            return sorted(paths, key=lambda path: path.stat().st_mtime_ns)
        return []


def opening_key(request: ParsedCall) -> str:
    """Return a key that is equal for requests whose messages before the first answer are equal."""
    return _opening_key((item.messages[0].role, item.key) for item in request.items)


def _opening_key(items: Iterable[tuple[Role, str]]) -> str:
    """Return the lookup key of a conversation, from the role and key of each item.

    The system prompt is left out if there are other items, because clients rewrite it with each
    start.
    """
    first_items = list(takewhile(lambda item: item[0] != "assistant", items))
    prompt_keys = [key for role, key in first_items if role != "system"]
    return " ".join(prompt_keys or [key for _, key in first_items])


def _read_opening_key(path: Path) -> str:
    """Return the lookup key of the first request of a log.

    Return "" for a session with a client name.
    """
    entries: list[ev.TranscriptEntry] = []
    with contextlib.suppress(LogError, OSError):
        if read_client(path)[1]:
            return ""
        for event in iter_events(path):
            if isinstance(event, ev.TranscriptEntry):
                entries.append(event)
            elif isinstance(event, ev.LlmRequest):
                name, forms = (event.wire or {}).get("protocol"), request_forms(event)
                protocol = wires.WIRE_PROTOCOLS.get(str(name), messages_v1.PROTOCOL)
                agent_entries = [e for e in entries if e.agent_id == event.agent_id]
                return _opening_key(
                    (
                        item_entries[0].role,
                        compute_logged_key(
                            protocol, item_entries, forms.get(item_entries[0].message_id)
                        )[0],
                    )
                    for item_entries in group_items(agent_entries, forms)
                )
    return ""


def _is_log_of(path: Path, client: str, session: str) -> bool:
    """Whether a file is the log of the session with this client name."""
    with contextlib.suppress(LogError, OSError):
        return read_client(path) == (client, session)
    return False


def _iter_paths(folder: Path, client: str, session: str) -> Iterator[Path]:
    """Yield the possible files of a session: with a short name, longer names, numbered names."""
    safe_name = re.sub(r"[^A-Za-z0-9-]+", "-", session).strip("-") or "call"
    prefix = f"rec-{client or 'client'}"
    names = dict.fromkeys(safe_name[:length].strip("-") for length in _NAME_LENGTHS)
    if safe_name != session or len(session) > _NAME_LENGTHS[-1]:
        names[f"{safe_name[:8]}-{blake3(session.encode()).hexdigest()[:12]}"] = None
    longest_name = list(names)[-1]
    for name in (*names, *(f"{longest_name}.{count}" for count in range(2, _MAX_NAMES))):
        yield folder / f"{prefix}-{name}.jsonl"
