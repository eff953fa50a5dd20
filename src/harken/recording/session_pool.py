"""The recorded sessions of a folder: found, opened when they are needed, closed when idle.

One idea: a session is one file, whose name follows from what its client calls it. So it is found
again after a restart, and nothing else has to be remembered. Sessions without a name of their own
are found by how their conversation begins, which is read from the beginning of the file.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

from blake3 import blake3

from harken.core import canonical
from harken.core import events as ev
from harken.core.arguments import check_arguments
from harken.core.clock import Clock
from harken.core.messages import Role
from harken.errors import LogError, LogLocked
from harken.formats.wire import messages_v1
from harken.formats.wire import registry as wires
from harken.recording.agent_recorder import items_of
from harken.recording.item import known_by
from harken.recording.rebuild import forms_in
from harken.recording.recorded_session import CallClock, ParsedCall, RecordedSession
from harken.recording.reopen import client_of, open_recorded_session
from harken.session.log.reader import events
from harken.session.session import Durability
from harken.store.base import Store

_SHORT, _MOST_NAMES = (8, 13, 18, 36), 8
_MOST_SEARCHED = 16
_MOST_LOOKED_AT = 256
"""So many of the newest sessions are looked at for how they begin."""
_MOST_TRIED = 16
"""So many of those that begin as a request are opened to see whether it is theirs."""


@check_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderOptions:
    """How a recorder keeps sessions; all have defaults."""

    machine: str = ""
    """Stands in commits."""
    durability: Durability = "turn"
    """When what was recorded survives a power cut; `turn`: as soon as an answer is recorded."""
    most_open: int = 32
    """So many sessions are open at once, unless more wait for answers."""
    idle_s: float = 900.0
    """One that was not used for so long is closed."""


@dataclass(slots=True)
class SessionPool:
    """The sessions in a folder. Not for several threads."""

    folder: Path
    store: Store | None
    clock: Clock
    options: RecorderOptions = RecorderOptions()
    began: CallClock = field(default_factory=CallClock)
    """When a run begins that is begun."""
    _open: dict[Path, RecordedSession] = field(default_factory=dict)
    """The one used last is the last."""
    _used_us: dict[Path, int] = field(default_factory=dict)
    _by_opening: dict[str, list[Path]] = field(default_factory=dict)
    _looked_at: set[Path] = field(default_factory=set)

    @property
    def runs(self) -> list[RecordedSession]:
        """Those that are open."""
        return list(self._open.values())

    def of_session(self, client: str, session: str) -> RecordedSession:
        """Return the run that a client calls so, or begin it. Raises LogError, OSError."""
        for path, run in self._open.items():
            if (run.client, run.client_session) == (client, session):
                return self._use(path, run)
        for path in _names(self.folder, client, session):
            if not path.exists() or _is_of(path, client, session):
                with contextlib.suppress(LogLocked):
                    return self._opened(path, client, session)
        raise LogError(self.folder, f"no name is left for the session {session} of {client}")

    def new(self, client: str, seed: str) -> RecordedSession:
        """Begin a run without a name of its own; seed: says which, when it is tried again."""
        for path in _names(self.folder, client, blake3(seed.encode()).hexdigest()):
            if not path.exists():
                return self._opened(path, client, "")
        raise LogError(self.folder, "no name is left for a new session")

    def unnamed(self, client: str) -> list[RecordedSession]:
        """Return the open runs of a client that have no name of their own, the last used first."""
        runs = reversed(self._open.values())
        return [run for run in runs if run.client == client and not run.client_session]

    def beginning_as(self, request: ParsedCall) -> Iterator[RecordedSession]:
        """Yield runs that are not open, and begin with what a request begins with."""
        self._look()
        like = self._by_opening.get(opening_of(request), [])
        closed = [path for path in reversed(like) if path not in self._open]
        for path in closed[:_MOST_TRIED]:
            with contextlib.suppress(LogError, OSError):
                yield self._opened(path, request.call.hints.client, "")

    def with_call(self, call_id: str) -> RecordedSession | None:
        """Return the run in whose log a call waits for its answer."""
        for path, run in self._open.items():
            if call_id in run.waiting:
                return self._use(path, run)
        return None

    def with_call_in_log(self, call_id: str) -> RecordedSession | None:
        """Return the run in whose log a call waits, that nobody told of since a restart."""
        wanted = canonical.to_json_line(call_id)
        for path in self._newest()[: -_MOST_SEARCHED - 1 : -1]:
            with contextlib.suppress(LogError, OSError):
                if path not in self._open and wanted in path.read_bytes():
                    run = self._opened(path, *client_of(path))
                    if call_id in run.waiting:
                        return run
        return None

    def drop(self, run: RecordedSession) -> None:
        """Close a run, whatever state it is in; its log has what it has."""
        path = run.session.path
        self._open.pop(path, None)
        self._used_us.pop(path, None)
        with contextlib.suppress(LogError, OSError):
            run.close()

    def idle(self) -> list[RecordedSession]:
        """Return the runs that may be closed: nobody waits, and they were not used for a while."""
        before = self.clock() - int(self.options.idle_s * 1_000_000)
        free = [(path, run) for path, run in self._open.items() if not run.waiting]
        surplus = len(self._open) - self.options.most_open
        return [
            run
            for at, (path, run) in enumerate(free)
            if at < surplus or self._used_us[path] < before
        ]

    def _opened(self, path: Path, client: str, session: str) -> RecordedSession:
        self.folder.mkdir(parents=True, exist_ok=True)
        run = open_recorded_session(
            path,
            CallClock(self.began.now_us or self.clock()),
            durability=self.options.durability,
            client=client,
            client_session=session,
            store=self.store,
            machine=self.options.machine,
        )
        return self._use(run.session.path, run)

    def _use(self, path: Path, run: RecordedSession) -> RecordedSession:
        self._open.pop(path, None)
        self._open[path] = run
        self._used_us[path] = self.clock()
        return run

    def _look(self) -> None:
        """Note how the newest sessions begin that were not looked at yet."""
        for path in self._newest()[-_MOST_LOOKED_AT:]:
            if path not in self._looked_at and path not in self._open:
                self._looked_at.add(path)
                opening = _opening_in(path)
                if opening:
                    self._by_opening.setdefault(opening, []).append(path)

    def _newest(self) -> list[Path]:
        """Return the sessions that are here, the one written last the last."""
        paths = self.folder.absolute().glob("rec-*.jsonl")
        with contextlib.suppress(OSError):
            return sorted(paths, key=lambda path: path.stat().st_mtime_ns)
        return []


def opening_of(request: ParsedCall) -> str:
    """Return what is the same for requests that begin with the same words, up to an answer."""
    return _opening((item.messages[0].role, item.key) for item in request.items)


def _opening(said: Iterable[tuple[Role, str]]) -> str:
    """Return what a conversation is found by, of the role and key of each item.

    Its system prompt does not count, where it has more: clients write it anew each time they start.
    """
    begins = list(takewhile(lambda one: one[0] != "assistant", said))
    told = [key for role, key in begins if role != "system"]
    return " ".join(told or [key for _, key in begins])


def _opening_in(path: Path) -> str:
    """Return the same of the first request of a log without a name of its own."""
    entries: list[ev.TranscriptEntry] = []
    with contextlib.suppress(LogError, OSError):
        if client_of(path)[1]:
            return ""
        for event in events(path):
            if isinstance(event, ev.TranscriptEntry):
                entries.append(event)
            elif isinstance(event, ev.LlmRequest):
                name, forms = (event.wire or {}).get("protocol"), forms_in(event)
                protocol = wires.WIRES.get(str(name), messages_v1.PROTOCOL)
                heard = [e for e in entries if e.agent_id == event.agent_id]
                return _opening(
                    (one[0].role, known_by(protocol, one, forms.get(one[0].message_id))[0])
                    for one in items_of(heard, forms)
                )
    return ""


def _is_of(path: Path, client: str, session: str) -> bool:
    """Whether a file is the log of a session that a client calls so."""
    with contextlib.suppress(LogError, OSError):
        return client_of(path) == (client, session)
    return False


def _names(folder: Path, client: str, session: str) -> Iterator[Path]:
    """Yield the files that a session may be: its short name, longer ones, numbered ones."""
    plain_name = re.sub(r"[^A-Za-z0-9-]+", "-", session).strip("-") or "call"
    beginning = f"rec-{client or 'client'}"
    names = dict.fromkeys(plain_name[:length].strip("-") for length in _SHORT)
    if plain_name != session or len(session) > _SHORT[-1]:
        names[f"{plain_name[:8]}-{blake3(session.encode()).hexdigest()[:12]}"] = None
    longest = list(names)[-1]
    for name in (*names, *(f"{longest}.{count}" for count in range(2, _MOST_NAMES))):
        yield folder / f"{beginning}-{name}.jsonl"
