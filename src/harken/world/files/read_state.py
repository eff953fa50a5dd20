"""What agents know of files: which content of which file is in whose context.

A tool that shows or makes a content says so in the `meta` of its result: `{"files": {path: hash}}`.
So what an agent knows is what its context says now, after a resume, a fork or a compaction as
well, and nothing beside the log can be wrong about it. What is kept here is derived, but for one
thing: what calls have written whose results are not in the context yet.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias
from weakref import WeakKeyDictionary

from harken.core.events import Reference
from harken.core.ids import reference_message_id
from harken.core.messages import ChatMessage, Meta, TextPart
from harken.session.session import Session
from harken.world.files.regular_file import WHOLE, load
from harken.world.files.root import Root, decode_shown_name
from harken.world.result import ToolError
from harken.world.tool import ToolContext

_RACY_NS = 100_000_000
"""A file may change twice within a tick of its clock and look the same: so long it is not trusted
that what looks the same is the same."""


Standing: TypeAlias = Literal["new", "known", "unknown", "changed"]
"""Of a file to an agent: not there, as the agent knows it, never read, no longer as it was read."""


@dataclass(frozen=True, slots=True)
class FileReadState:
    """What an agent knows of one file: which content it had, and how much of it was seen."""

    hash: str
    seen: tuple[tuple[int, int], ...] | None = None
    """The lines, from 1, both ends included, in order; None: all of it."""
    lines: int = 0
    """How many there are, where not all were seen."""

    def with_earlier(self, earlier: FileReadState | None) -> FileReadState:
        """Add what was seen of the same content before."""
        if earlier is None or earlier.hash != self.hash or self.seen is None:
            return self
        if earlier.seen is None:
            return earlier
        joined: list[tuple[int, int]] = []
        for first, last in sorted({*earlier.seen, *self.seen}):
            if joined and first <= joined[-1][1] + 1:
                joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
            else:
                joined.append((first, last))
        all_seen = joined == [(1, self.lines)]
        return (
            FileReadState(self.hash)
            if all_seen
            else FileReadState(self.hash, tuple(joined), self.lines)
        )


def meta_of(path: str, known: FileReadState) -> Meta:
    """Return what a result says of a file in its `meta`.

    >>> meta_of("a.py", FileReadState("ea8f", ((1, 200),), 500))
    {'files': {'a.py': 'ea8f'}, 'seen': {'a.py': [[1, 200]]}, 'lines': {'a.py': 500}}
    """
    meta: Meta = {"files": {path: known.hash}}
    if known.seen is not None:
        meta |= {"seen": {path: [list(one) for one in known.seen]}, "lines": {path: known.lines}}
    return meta


def files_in(message: ChatMessage) -> Iterator[tuple[str, FileReadState]]:
    """Yield what a message says of files; only results of tools can, and only well formed."""
    if message.role != "tool" or not isinstance(message.content, list):
        return
    for part in message.content:
        meta = part.meta if isinstance(part, TextPart) else None
        files = meta.get("files") if meta else None
        if meta and isinstance(files, dict):
            for path, hash_ in files.items():
                if isinstance(path, str) and isinstance(hash_, str):
                    yield path, _known(hash_, _at(meta, "seen", path), _at(meta, "lines", path))


def _at(meta: Meta, name: str, path: str) -> Any:
    inner = meta.get(name)
    return inner.get(path) if isinstance(inner, dict) else None


def _known(hash_: str, seen: Any, lines: Any) -> FileReadState:
    """Read what a log says; what cannot be read means that nothing was seen."""
    if seen is None:
        return FileReadState(hash_)
    pairs = seen if isinstance(seen, list) else []
    try:
        spans = tuple((int(first), int(last)) for first, last in pairs)
        return FileReadState(hash_, spans, int(lines))
    except (TypeError, ValueError, OverflowError):
        return FileReadState(hash_, (), 0)


@dataclass(slots=True)
class _Agent:
    """What is derived for one agent, up to a place in its context."""

    context_prefix: object = None
    """Of the agent's state: another one where the context is no longer what it was."""
    position: int = 0
    """At the message whose calls are under way, else at the end."""
    files: dict[str, FileReadState] = field(default_factory=dict)
    written: dict[Reference, dict[str, FileReadState]] = field(default_factory=dict)
    """Call -> what it wrote, as long as calls of the same message are under way."""


def _take(files: dict[str, FileReadState], message: ChatMessage) -> None:
    """Add what a message says of files."""
    for path, known in files_in(message):
        files[path] = known.with_earlier(files.get(path))


def _under_way(agent: Any) -> set[Reference]:
    """Return the calls of an agent that have no result in its context."""
    return {call.reference for call in agent.session.agent(agent.agent_id).open_calls.values()}


@dataclass(frozen=True, slots=True)
class _Look:
    """What a file was when it was last looked at."""

    stat: tuple[int, ...]
    hash: str


class KnownFiles:
    """What all agents of a world know of files."""

    def __init__(self, folder: Path | None = None) -> None:
        """Keep it for files of this folder; None: only those with absolute names are looked at."""
        self._root = None if folder is None else Root(folder)
        self._sessions: WeakKeyDictionary[Session, dict[str, _Agent]] = WeakKeyDictionary()
        self._looks: dict[str, _Look] = {}

    def of(self, agent: Any) -> Mapping[str, str]:
        """Return what an agent knows: path (from the folder, or absolute) -> hash of its content.

        Costs only what is new in its context, except after that was edited.
        """
        mine = self._agent(agent)
        every = dict(mine.files)
        context = agent.session.context(agent.agent_id)
        for at in range(mine.position, len(context)):
            _take(every, context[at])
        for new in mine.written.values():
            every |= new
        return {path: known.hash for path, known in every.items()}

    def before(self, caller: ToolContext, path: str) -> FileReadState | None:
        """Return what of a file was known where a call was made; None: nothing.

        A model makes the calls of a message before it has the result of any of them. So what
        another one reads does not count, but what another one wrote does: it meant that.
        """
        mine = self._agent(caller.agent)
        for new in reversed(mine.written.values()):
            if path in new:
                return new[path]
        return mine.files.get(path)

    def standing(self, caller: ToolContext, path: str) -> Standing:
        """Return how a file, by a path that a model wrote, stands to what the caller knows of it.

        What is no file, or cannot be read, is `new`: who opens it will say so.
        """
        folder = Path("/") if self._root is None else self._root.folder
        try:
            file = Path(os.path.realpath(folder / decode_shown_name(folder, path)))
        except (OSError, ValueError):  # no path at all
            return "new"
        now = self._now(str(file))
        if now is None:
            return "new"
        known = self.before(caller, Root(folder).name(file))
        if known is None:
            return "unknown"
        return "known" if known.hash == now else "changed"

    def learn(
        self, caller: ToolContext, path: str, known: FileReadState, *, wrote: bool = False
    ) -> None:
        """Take note of what a call has read or written.

        What a model reads it knows when the result is in its context, and by that alone. An agent
        that acts in code has no call under way, and knows everything at once.
        """
        mine = self._agent(caller.agent)
        if caller.call not in _under_way(caller.agent):
            mine.files[path] = known.with_earlier(mine.files.get(path))
        elif wrote:
            mine.written.setdefault(caller.call, {})[path] = known

    def changed(self, agent: Any) -> Mapping[str, str | None]:
        """Return the files that are no longer what an agent knows: path -> hash now.

        None is a file that is gone, "" one that is too large to be known. Only what looks
        different (times, size, inode) than at the last look is read.
        """
        changed: dict[str, str | None] = {}
        for name, known in self.of(agent).items():
            path = self._path(name)
            if path is not None and (now := self._now(path)) != known:
                changed[name] = now
        return changed

    def _agent(self, agent: Any) -> _Agent:
        """Return what is kept for an agent, after reading what is new in its context."""
        state = agent.session.agent(agent.agent_id)
        mine = self._sessions.setdefault(agent.session, {}).setdefault(agent.agent_id, _Agent())
        context = agent.session.context(agent.agent_id)
        if mine.context_prefix is not state.context_prefix or mine.position > len(context):
            mine.context_prefix, mine.position, mine.files = state.context_prefix, 0, {}
        acting = {reference_message_id(call) for call in _under_way(agent)}
        if mine.written:
            written = mine.written.items()
            mine.written = {
                call: new for call, new in written if reference_message_id(call) in acting
            }
        while mine.position < len(context):
            message = context[mine.position]
            if acting and getattr(message, "message_id", None) in acting:
                break  # what comes after it are results that no call of it was made with
            _take(mine.files, message)
            mine.position += 1
        return mine

    def _path(self, name: str) -> str | None:
        """Return where a file is; None where that cannot be said."""
        if name.startswith("/"):
            return name
        return None if self._root is None else f"{self._root.folder}/{name}"

    def _now(self, path: str) -> str | None:
        """Return the hash that a file has now."""
        try:
            found = os.lstat(path)
        except (OSError, ValueError):  # ValueError: what a log names may be no path
            return None
        if found.st_size > WHOLE:
            return ""
        same = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        look = self._looks.get(path)
        if look is not None and look.stat == same:
            return look.hash
        try:
            hash_ = load(self._root or Root("/"), Path(path)).hash
        except ToolError:
            return None
        if time.time_ns() - max(found.st_mtime_ns, found.st_ctime_ns) > _RACY_NS:
            self._looks[path] = _Look(same, hash_)
        return hash_
