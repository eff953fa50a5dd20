"""`OpenThreads`: the threads that a logger writes, each in the session that it belongs to."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harken.context.checkpoint import CommitOrigin
from harken.core.clock import Clock, format_rfc3339
from harken.core.commits import Checkpoint
from harken.core.events import AgentMoved, ContextLoaded
from harken.core.ids import AgentId
from harken.core.messages import ChatMessage
from harken.errors import ConfigError, NameNotFound
from harken.interactions.writer import SettableClock, ThreadWriter
from harken.recording.commits import SessionCommits
from harken.session.log.compressed import is_packed, log_of
from harken.session.log.file import new_log
from harken.session.session import Durability, Session, SessionOptions
from harken.store.base import Store

RECORDED = "interaction-logger"
"""What the birth of an agent says of who runs it."""
MOST_OPEN = 64
"""So many sessions are held open; the others are opened again when they are needed."""
_NAME = re.compile(r"[^/\\\0-\x1f\x7f.][^/\\\0-\x1f\x7f]{0,150}")
_DISABLED = "disabled"
Resolve = Callable[[ContextLoaded], Sequence[ChatMessage]]


@dataclass(slots=True)
class _Open:
    """A session that is open, and its threads that are."""

    session: Session
    moment: SettableClock
    commits: SessionCommits | None = None
    writers: dict[str, ThreadWriter] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class OpenThreads:
    """Starts and ends threads. Where it is not enabled, it writes nothing."""

    folder: Path
    clock: Clock
    resolver: Resolve
    durability: Durability = "turn"
    enabled: bool = True
    contexts: bool = True
    open_store: Callable[[], Store] | None = None
    """Gives the store that commits go to; None: nothing is committed."""
    issued: set[str] = field(default_factory=set)
    """Threads that were started while nothing was written."""
    _sessions: dict[str, _Open] = field(default_factory=dict)
    """The last used stands last."""

    def start(self, session_id: str | None, name: str | None, agent_id: str | None) -> str:
        """Begin a thread, or go on with the first one of a session that is there; return its id.

        name: begins another agent of the session. Raises ConfigError, LogError, NameNotFound.
        """
        if session_id is not None:
            check_name(session_id)
        if not self.enabled:
            thread = f"{session_id or _DISABLED}/{agent_id or 'agent_001'}"
            self.issued.add(thread)
            return thread
        path = self._new_log() if session_id is None else self.folder / f"{session_id}.jsonl"
        found = self._opened(path)
        state = found.session.state
        if state.root is None:
            root = agent_id or found.session.allocate_agent_id()
            is_named = name is not None or agent_id is not None
            self._bear(found.session, root, name if is_named else "main", is_root=True)
        elif name is not None or (agent_id is not None and agent_id not in state.agents):
            root = agent_id or found.session.allocate_agent_id()
            self._bear(found.session, root, name, is_root=False)
        else:
            root = agent_id or state.root
        self._check(found.session, root)
        found.session.sync()
        return f"{path.stem}/{root}"

    def writer(self, thread_id: str) -> ThreadWriter:
        """Return who writes a thread. Raises NameNotFound, ConfigError, LogError."""
        session_id, agent_id = parsed(thread_id)
        path = self.folder / f"{session_id}.jsonl"
        is_there = path.is_file() or is_packed(path)
        if session_id not in self._sessions and not is_there:
            there = sorted(log_of(one).stem for one in self.folder.glob("*.jsonl*"))
            raise NameNotFound("thread", thread_id, there)
        found = self._opened(path)
        agent_id = agent_id or str(found.session.state.root)
        if agent_id not in found.writers:
            self._check(found.session, agent_id)
            writer = ThreadWriter(found.session, agent_id, found.moment, contexts=self.contexts)
            found.writers[agent_id] = writer
            self._know(found, writer)
        return found.writers[agent_id]

    def commit(self, thread_id: str, trigger: Checkpoint) -> None:
        """Commit what is new in a thread's context. Raises StoreError: it is pending then."""
        writer = self.writer(thread_id)
        found = self._sessions[writer.session.path.stem]
        if found.commits is not None:
            found.commits.take(writer.voice, trigger)

    def _know(self, found: _Open, writer: ThreadWriter) -> None:
        """Go on from the commit that the log names last."""
        if self.open_store is None:
            return
        id_ = found.session.state.session_id or found.session.path.stem
        if found.commits is None:
            origin = CommitOrigin(principal=id_, machine=platform.node(), session_id=id_)
            found.commits = SessionCommits(self.open_store(), origin)
        state = found.session.agents[writer.agent_id]
        if state.commit_id and state.committed_upto and state.uncommitted_edit is None:
            found.commits.know(writer.voice, state.committed_upto, state.commit_id)

    def end(self, thread_id: str, reason: str | None) -> None:
        """End a thread; with the first one of a session, the session. As `writer`."""
        writer = self.writer(thread_id)
        session = writer.session
        if writer.agent_id == session.state.root:
            del self._sessions[session.path.stem]
            session.end(reason)
        else:
            session.append(AgentMoved(agent_id=writer.agent_id, place="gone"))
            session.sync()

    def close(self) -> None:
        """Make all durable, and let go of it."""
        while self._sessions:
            _, found = self._sessions.popitem()
            found.session.close()

    def _opened(self, path: Path) -> _Open:
        found = self._sessions.pop(path.stem, None)
        if found is None:
            self._make_folder()
            moment = SettableClock(self.clock)
            options = SessionOptions(
                durability=self.durability, clock=moment, resolver=self.resolver
            )
            found = _Open(Session(path, options=options), moment)
        self._sessions[path.stem] = found
        self._close_others()
        return found

    def _close_others(self) -> None:
        """Close the session that was used longest ago, where there are too many."""
        if len(self._sessions) <= MOST_OPEN:
            return
        for session_id, found in list(self._sessions.items())[:-1]:
            if all(writer.voice.open is None for writer in found.writers.values()):
                del self._sessions[session_id]
                found.session.close()
                return

    def _bear(self, session: Session, agent_id: str, name: str | None, *, is_root: bool) -> None:
        root = session.state.root
        cause = None if is_root or root is None else session.agents[root].birth
        session.log_agent_created(agent_id, cause, name, spec={"recorded": RECORDED})

    def _check(self, session: Session, agent_id: str) -> None:
        """Raise where there is no such agent, or it is one that Harken runs."""
        agent = session.agents.get(AgentId(agent_id))
        thread = f"{session.path.stem}/{agent_id}"
        if agent is None:
            raise NameNotFound(
                "thread", thread, [f"{session.path.stem}/{a}" for a in session.agents]
            )
        if not agent.is_recorded:
            raise ConfigError(
                f"{thread} is run by Harken, which logs it; it can be read here, not written"
            )

    def _make_folder(self) -> None:
        try:
            self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ConfigError(f"{self.folder}: the folder cannot be made ({reason})") from None

    def _new_log(self) -> Path:
        """Make an empty log with a name of its own. Raises ConfigError, LogWriteError."""
        self._make_folder()
        digits = re.sub(r"\D", "", format_rfc3339(self.clock())[:19])
        return new_log(self.folder, f"session_{digits[:8]}_{digits[8:]}")


def check_name(session_id: str) -> None:
    """Raise ConfigError for what cannot be the name of a session."""
    if not _NAME.fullmatch(session_id):
        raise ConfigError(f"{session_id[:80]!r} is no name of a session: it names a file")


def parsed(thread_id: str) -> tuple[str, str]:
    """Return the session and the agent of a thread; no agent: the first one is meant.

    Raises NameNotFound for what names no file.

    >>> parsed("cafe/agent_002"), parsed("cafe")
    (('cafe', 'agent_002'), ('cafe', ''))
    """
    session_id, _, agent_id = thread_id.partition("/")
    if not _NAME.fullmatch(session_id):
        raise NameNotFound("thread", thread_id[:200], ())
    return session_id, agent_id
