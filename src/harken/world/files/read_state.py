"""The file content that each agent knows, derived from the tool results in its context.

A tool that shows or writes a content records it in the `meta` of its result: `{"files": {path:
hash}}`. So the knowledge of an agent follows its context, also after a resume, a fork or a
compaction, and no state besides the log can contradict it. The state here is a cache, except for
the writes of calls with results that are not in the context yet.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias
from weakref import WeakKeyDictionary

import msgspec

from harken.core.events import Reference
from harken.core.ids import reference_message_id
from harken.core.messages import ChatMessage, Meta, TextPart
from harken.session.session import Session
from harken.world.files.regular_file import MAX_FILE_BYTES, load
from harken.world.files.root import Root, decode_shown_name
from harken.world.result import ToolError
from harken.world.tool import ToolContext

_RACY_NS = 100_000_000
"""A file may change twice within a tick of its clock with equal metadata.

Metadata that is more recent than this is not trusted.
"""
Standing: TypeAlias = Literal["new", "known", "unknown", "changed"]
"""The state of a file for an agent: absent, as the agent knows it, never read, or changed since."""


class FileReadState(msgspec.Struct, frozen=True):
    """The content of a file that an agent knows, and the lines of it that were read."""

    hash: str
    seen: tuple[tuple[int, int], ...] | None = None
    """The lines, from 1, inclusive and sorted. None if all were read."""
    lines: int = 0
    """The number of lines in the file, if not all were read."""

    def with_earlier(self, earlier: FileReadState | None) -> FileReadState:
        """Merge with an earlier state of the same content."""
        if earlier is None or earlier.hash != self.hash or self.seen is None:
            return self
        if earlier.seen is None:
            return earlier
        spans: list[tuple[int, int]] = []
        for first, last in sorted({*earlier.seen, *self.seen}):
            if spans and first <= spans[-1][1] + 1:
                spans[-1] = (spans[-1][0], max(last, spans[-1][1]))
            else:
                spans.append((first, last))
        all_seen = spans == [(1, self.lines)]
        return (
            FileReadState(self.hash)
            if all_seen
            else FileReadState(self.hash, tuple(spans), self.lines)
        )


def meta_of(path: str, read_state: FileReadState) -> Meta:
    """Return the `meta` of a result for a file.

    >>> meta_of("a.py", FileReadState("ea8f", ((1, 200),), 500))
    {'files': {'a.py': 'ea8f'}, 'seen': {'a.py': [[1, 200]]}, 'lines': {'a.py': 500}}
    """
    meta: Meta = {"files": {path: read_state.hash}}
    if read_state.seen is not None:
        meta |= {
            "seen": {path: [list(span) for span in read_state.seen]},
            "lines": {path: read_state.lines},
        }
    return meta


def iter_read_states(message: ChatMessage) -> Iterator[tuple[str, FileReadState]]:
    """Yield the read states in the `meta` of a tool result; malformed ones are skipped."""
    if message.role != "tool" or not isinstance(message.content, list):
        return
    for part in message.content:
        meta = part.meta if isinstance(part, TextPart) else None
        files = meta.get("files") if meta else None
        if meta and isinstance(files, dict):
            for path, hash_ in files.items():
                if isinstance(path, str) and isinstance(hash_, str):
                    yield (
                        path,
                        _parse_read_state(
                            hash_, _find_value(meta, "seen", path), _find_value(meta, "lines", path)
                        ),
                    )


def _find_value(meta: Meta, name: str, path: str) -> Any:
    inner = meta.get(name)
    return inner.get(path) if isinstance(inner, dict) else None


def _parse_read_state(hash_: str, seen: Any, lines: Any) -> FileReadState:
    """Parse the read state in a log; a malformed one means that no line was read."""
    if seen is None:
        return FileReadState(hash_)
    pairs = seen if isinstance(seen, list) else []
    try:
        spans = tuple((int(first), int(last)) for first, last in pairs)
        return FileReadState(hash_, spans, int(lines))
    except (TypeError, ValueError, OverflowError):
        return FileReadState(hash_, (), 0)


class _AgentFiles(msgspec.Struct):
    """The derived state of one agent, up to a position in its context."""

    context_prefix: object = None
    """The prefix of the agent's context, compared by identity: an edit replaces it."""
    position: int = 0
    """The position of the message with pending calls, else the end."""
    files: dict[str, FileReadState] = msgspec.field(default_factory=dict)
    written_by_call: dict[Reference, dict[str, FileReadState]] = msgspec.field(default_factory=dict)
    """Call -> the files it wrote, while calls of the same message are pending."""


def _add_read_states(files: dict[str, FileReadState], message: ChatMessage) -> None:
    """Add the read states of a message."""
    for path, read_state in iter_read_states(message):
        files[path] = read_state.with_earlier(files.get(path))


def _find_pending_calls(agent: Any) -> set[Reference]:
    """Return the calls of an agent without a result in its context."""
    return {call.reference for call in agent.session.agent(agent.agent_id).open_calls.values()}


class _FileCheck(msgspec.Struct, frozen=True):
    """The metadata and hash of a file at its last check."""

    stat: tuple[int, ...]
    hash: str


class KnownFiles:
    """The file content that all agents of a world know."""

    def __init__(self, folder: Path | None = None) -> None:
        """Track files relative to this folder, or only files with absolute names without one."""
        self._root = None if folder is None else Root(folder)
        self._sessions: WeakKeyDictionary[Session, dict[str, _AgentFiles]] = WeakKeyDictionary()
        self._checks: dict[str, _FileCheck] = {}

    def find_known_hashes(self, agent: Any) -> Mapping[str, str]:
        """Return the known files of an agent: path (from the folder, or absolute) -> hash.

        The cost is proportional to the new messages in the context, unless it was edited.
        """
        agent_files = self._update_agent_files(agent)
        all_files = dict(agent_files.files)
        context = agent.session.context(agent.agent_id)
        for position in range(agent_files.position, len(context)):
            _add_read_states(all_files, context[position])
        for written_files in agent_files.written_by_call.values():
            all_files |= written_files
        return {path: read_state.hash for path, read_state in all_files.items()}

    def find_read_state(self, caller: ToolContext, path: str) -> FileReadState | None:
        """Return the read state of a file at the time of a call. Return None if it was unknown.

        A model writes the calls of a message before it gets any of their results. So a parallel
        read does not count, but a parallel write does, because the model intended it.
        """
        agent_files = self._update_agent_files(caller.agent)
        for written_files in reversed(agent_files.written_by_call.values()):
            if path in written_files:
                return written_files[path]
        return agent_files.files.get(path)

    def compare(self, caller: ToolContext, path: str) -> Standing:
        """Compare a file, by a path that a model wrote, with the content that the caller knows.

        A path that is no file, or unreadable, is `new`: opening it reports the error.
        """
        folder = Path("/") if self._root is None else self._root.folder
        try:
            file = Path(os.path.realpath(folder / decode_shown_name(folder, path)))
        except (OSError, ValueError):  # The text is not a valid path.
            return "new"
        current_hash = self._hash_now(str(file))
        if current_hash is None:
            return "new"
        read_state = self.find_read_state(caller, Root(folder).name(file))
        if read_state is None:
            return "unknown"
        return "known" if read_state.hash == current_hash else "changed"

    def record(
        self, caller: ToolContext, path: str, known: FileReadState, *, wrote: bool = False
    ) -> None:
        """Record a file that a call has read or written.

        A model knows what it read when the result is in its context, and only then. An agent that
        acts in code has no pending call, and knows it at once.
        """
        agent_files = self._update_agent_files(caller.agent)
        if caller.call not in _find_pending_calls(caller.agent):
            agent_files.files[path] = known.with_earlier(agent_files.files.get(path))
        elif wrote:
            agent_files.written_by_call.setdefault(caller.call, {})[path] = known

    def find_changed(self, agent: Any) -> Mapping[str, str | None]:
        """Return the files that differ from what an agent knows: path -> current hash.

        The hash is None for a removed file and "" for one that is too large. A file is read only if
        its metadata (times, size, inode) differs from the last check.
        """
        changed: dict[str, str | None] = {}
        for name, known_hash in self.find_known_hashes(agent).items():
            path = self._resolve_name(name)
            if path is not None and (current_hash := self._hash_now(path)) != known_hash:
                changed[name] = current_hash
        return changed

    def _update_agent_files(self, agent: Any) -> _AgentFiles:
        """Return the state of an agent, updated with the new messages in its context."""
        state = agent.session.agent(agent.agent_id)
        agent_files = self._sessions.setdefault(agent.session, {}).setdefault(
            agent.agent_id, _AgentFiles()
        )
        context = agent.session.context(agent.agent_id)
        if agent_files.context_prefix is not state.context_prefix or agent_files.position > len(
            context
        ):
            agent_files.context_prefix, agent_files.position, agent_files.files = (
                state.context_prefix,
                0,
                {},
            )
        pending_messages = {reference_message_id(call) for call in _find_pending_calls(agent)}
        if agent_files.written_by_call:
            written = agent_files.written_by_call.items()
            agent_files.written_by_call = {
                call: written_files
                for call, written_files in written
                if reference_message_id(call) in pending_messages
            }
        while agent_files.position < len(context):
            message = context[agent_files.position]
            if pending_messages and getattr(message, "message_id", None) in pending_messages:
                # The following messages are results that the pending calls did not depend on.
                break
            _add_read_states(agent_files.files, message)
            agent_files.position += 1
        return agent_files

    def _resolve_name(self, name: str) -> str | None:
        """Return the absolute path of a file. Return None if the folder is unknown."""
        if name.startswith("/"):
            return name
        return None if self._root is None else f"{self._root.folder}/{name}"

    def _hash_now(self, path: str) -> str | None:
        """Return the current hash of a file."""
        try:
            status = os.lstat(path)
        except (OSError, ValueError):  # ValueError: a name in a log may be no valid path.
            return None
        if status.st_size > MAX_FILE_BYTES:
            return ""
        fingerprint = (
            status.st_dev,
            status.st_ino,
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
        )
        check = self._checks.get(path)
        if check is not None and check.stat == fingerprint:
            return check.hash
        try:
            hash_ = load(self._root or Root("/"), Path(path)).hash
        except ToolError:
            return None
        if time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) > _RACY_NS:
            self._checks[path] = _FileCheck(fingerprint, hash_)
        return hash_
