"""`OpenThreads`: the threads that a logger currently writes, with their sessions."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec

from harken.context.checkpoint import CommitIdentity
from harken.core.clock import Clock, format_rfc3339
from harken.core.commits import Checkpoint
from harken.core.event_types.spec import AgentSpec, ForeignAgent
from harken.core.events import AgentMoved, ContextLoaded
from harken.core.ids import AgentId
from harken.core.messages import ChatMessage
from harken.core.secrets.redaction import Credentials, find_kind
from harken.errors import ConfigError, NameNotFound
from harken.interactions.writer import SettableClock, ThreadWriter
from harken.recording.writer.commits import SessionCommits
from harken.session.log.compressed import is_packed, log_path
from harken.session.log.file import new_log
from harken.session.session import Durability, Session, SessionOptions
from harken.store.base import Store

RECORDED_BY = "interaction-logger"
"""Value of `recorded` in the `spec` of agents that a logger creates."""
MAX_OPEN_SESSIONS = 64
"""Maximum number of open sessions; others are closed and reopened when they are used again."""
_NAME_PATTERN = re.compile(r"[^/\\\0-\x1f\x7f.][^/\\\0-\x1f\x7f]{0,150}")
_DISABLED = "disabled"
Resolve = Callable[[ContextLoaded], Sequence[ChatMessage]]


class _OpenSession(msgspec.Struct):
    """An open session and its open threads."""

    session: Session
    clock: SettableClock
    commits: SessionCommits | None = None
    writers: dict[str, ThreadWriter] = msgspec.field(default_factory=dict)


class OpenThreads(msgspec.Struct, kw_only=True):
    """Starts and ends threads. If disabled, it writes nothing."""

    folder: Path
    clock: Clock
    resolver: Resolve
    durability: Durability = "turn"
    enabled: bool = True
    contexts: bool = True
    open_store: Callable[[], Store] | None = None
    """Returns the store for commits. If None, nothing is committed."""
    identity: CommitIdentity = msgspec.field(default_factory=CommitIdentity)
    """The identity of commits."""
    redact: Credentials | None = None
    """Removes credentials before anything is stored."""
    issued: set[str] = msgspec.field(default_factory=set)
    """Ids of threads that were started while disabled."""
    _sessions: dict[str, _OpenSession] = msgspec.field(default_factory=dict)
    """Ordered by last use, oldest first."""

    def start(self, session_id: str | None, name: str | None, agent_id: str | None) -> str:
        """Start a thread, or continue the first one of an existing session; return its id.

        `name` adds another agent to the session. Raises ConfigError, LogError, NameNotFound.
        """
        if session_id is not None:
            check_session_name(session_id)
        if not self.enabled:
            thread = f"{session_id or _DISABLED}/{agent_id or 'agent_001'}"
            self.issued.add(thread)
            return thread
        path = self._new_log() if session_id is None else self.folder / f"{session_id}.jsonl"
        if self.redact is not None and (kind := find_kind(path.stem.encode())):
            raise ConfigError(f"the name of a session is stored, and has a credential ({kind})")
        open_session = self._get_session(path)
        state = open_session.session.state
        if state.root is None:
            root = agent_id or open_session.session.allocate_agent_id()
            is_named = name is not None or agent_id is not None
            self._create_agent(
                open_session.session, root, name if is_named else "main", is_root=True
            )
        elif name is not None or (agent_id is not None and agent_id not in state.agents):
            root = agent_id or open_session.session.allocate_agent_id()
            self._create_agent(open_session.session, root, name, is_root=False)
        else:
            root = agent_id or state.root
        self._check_agent(open_session.session, root)
        open_session.session.sync()
        return f"{path.stem}/{root}"

    def writer(self, thread_id: str) -> ThreadWriter:
        """Return the writer of a thread. Raises NameNotFound, ConfigError, LogError."""
        session_id, agent_id = parse_thread_id(thread_id)
        path = self.folder / f"{session_id}.jsonl"
        exists = path.is_file() or is_packed(path)
        if session_id not in self._sessions and not exists:
            raise NameNotFound("thread", thread_id, [log.stem for log in list_logs(self.folder)])
        open_session = self._get_session(path)
        agent_id = agent_id or str(open_session.session.state.root)
        if agent_id not in open_session.writers:
            self._check_agent(open_session.session, agent_id)
            writer = ThreadWriter(
                open_session.session, agent_id, open_session.clock, contexts=self.contexts
            )
            open_session.writers[agent_id] = writer
            self._restore_commit(open_session, writer)
        return open_session.writers[agent_id]

    def commit(self, thread_id: str, trigger: Checkpoint) -> None:
        """Commit new messages of a thread. Raises StoreError; they stay pending then."""
        writer = self.writer(thread_id)
        open_session = self._sessions[writer.session.path.stem]
        if open_session.commits is not None:
            open_session.commits.commit_new(
                writer.recorder, trigger, is_compaction=trigger == "compaction"
            )

    def _restore_commit(self, open_session: _OpenSession, writer: ThreadWriter) -> None:
        """Continue from the last commit that the log names."""
        if self.open_store is None:
            return
        id_ = open_session.session.state.session_id or open_session.session.path.stem
        if open_session.commits is None:
            origin_of = partial(self.identity.origin, id_, template=self.identity.template)
            open_session.commits = SessionCommits(self.open_store(), origin_of)
        state = open_session.session.agents[writer.agent_id]
        if state.commit_id and state.committed_upto and state.uncommitted_edit is None:
            open_session.commits.register(writer.recorder, state.committed_upto, state.commit_id)

    def end(self, thread_id: str, reason: str | None) -> None:
        """End a thread. Ending the first thread ends the session. Raises as `writer`."""
        writer = self.writer(thread_id)
        session = writer.session
        if writer.agent_id == session.state.root:
            del self._sessions[session.path.stem]
            session.end(reason)
        else:
            session.append(AgentMoved(agent_id=writer.agent_id, place="gone"))
            session.sync()

    def close(self) -> None:
        """Write all pending data and close the sessions."""
        while self._sessions:
            _, open_session = self._sessions.popitem()
            open_session.session.close()

    def _get_session(self, path: Path) -> _OpenSession:
        open_session = self._sessions.pop(path.stem, None)
        if open_session is None:
            self._create_folder()
            moment = SettableClock(self.clock)
            options = SessionOptions(
                durability=self.durability,
                clock=moment,
                resolver=self.resolver,
                redact=self.redact,
            )
            open_session = _OpenSession(Session(path, options=options), moment)
        self._sessions[path.stem] = open_session
        self._close_oldest()
        return open_session

    def _close_oldest(self) -> None:
        """Close the least recently used session if too many are open."""
        if len(self._sessions) <= MAX_OPEN_SESSIONS:
            return
        for session_id, open_session in list(self._sessions.items())[:-1]:
            if all(
                writer.recorder.open_request is None for writer in open_session.writers.values()
            ):
                del self._sessions[session_id]
                open_session.session.close()
                return

    def _create_agent(
        self, session: Session, agent_id: str, name: str | None, *, is_root: bool
    ) -> None:
        root = session.state.root
        cause = None if is_root or root is None else session.agents[root].birth
        session.log_agent_created(
            agent_id, cause, name, spec=AgentSpec(foreign=ForeignAgent(RECORDED_BY))
        )

    def _check_agent(self, session: Session, agent_id: str) -> None:
        """Raise NameNotFound for an unknown agent, and ConfigError for one that Harken runs."""
        agent = session.agents.get(AgentId(agent_id))
        thread = f"{session.path.stem}/{agent_id}"
        if agent is None:
            raise NameNotFound(
                "thread", thread, [f"{session.path.stem}/{other_id}" for other_id in session.agents]
            )
        if not agent.is_recorded:
            raise ConfigError(
                f"{thread} is run by Harken, which logs it; it can be read here, not written"
            )

    def _create_folder(self) -> None:
        try:
            self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ConfigError(f"{self.folder}: the folder cannot be created ({reason})") from None

    def _new_log(self) -> Path:
        """Create an empty log with a new name. Raises ConfigError, LogWriteError."""
        self._create_folder()
        digits = re.sub(r"\D", "", format_rfc3339(self.clock())[:19])
        return new_log(self.folder, f"session_{digits[:8]}_{digits[8:]}")


def list_logs(folder: Path) -> list[Path]:
    """Return the logs of a folder, compressed or not, sorted by name. Hidden files are none."""
    files = (file for file in folder.glob("[!.]*.jsonl*") if file.is_file())
    return sorted({path for file in files if (path := log_path(file)).suffix == ".jsonl"})


def check_session_name(session_id: str) -> None:
    """Raise ConfigError for an invalid session name."""
    if not _NAME_PATTERN.fullmatch(session_id):
        raise ConfigError(
            f"{session_id[:80]!r} is not a valid session name: it must be a valid file name"
        )


def parse_thread_id(thread_id: str) -> tuple[str, str]:
    """Parse a thread id into session and agent. An empty agent means the first one.

    Raises NameNotFound if the session cannot be a file name.

    >>> parse_thread_id("cafe/agent_002"), parse_thread_id("cafe")
    (('cafe', 'agent_002'), ('cafe', ''))
    """
    session_id, _, agent_id = thread_id.partition("/")
    if not _NAME_PATTERN.fullmatch(session_id):
        raise NameNotFound("thread", thread_id[:200], ())
    return session_id, agent_id
