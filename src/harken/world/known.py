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
from typing import Any
from weakref import WeakKeyDictionary

from harken.core.messages import ChatMessage, Meta, TextPart
from harken.session.session import Session
from harken.world.file import WHOLE, load
from harken.world.result import Failed
from harken.world.root import Root
from harken.world.tool import Caller

_RACY_NS = 100_000_000
"""A file may change twice within a tick of its clock and look the same: so long it is not trusted
that what looks the same is the same."""


@dataclass(frozen=True, slots=True)
class Known:
    """What an agent knows of one file: which content it had, and how much of it was seen."""

    hash: str
    seen: tuple[tuple[int, int], ...] | None = None
    """The lines, from 1, both ends included, in order; None: all of it."""
    lines: int = 0
    """How many there are, where not all were seen."""

    def with_earlier(self, earlier: Known | None) -> Known:
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
        return Known(self.hash) if all_seen else Known(self.hash, tuple(joined), self.lines)


def meta_of(path: str, known: Known) -> Meta:
    """Return what a result says of a file in its `meta`.

    >>> meta_of("a.py", Known("ea8f", ((1, 200),), 500))
    {'files': {'a.py': 'ea8f'}, 'seen': {'a.py': [[1, 200]]}, 'lines': {'a.py': 500}}
    """
    meta: Meta = {"files": {path: known.hash}}
    if known.seen is not None:
        meta |= {"seen": {path: [list(one) for one in known.seen]}, "lines": {path: known.lines}}
    return meta


def files_in(message: ChatMessage) -> Iterator[tuple[str, Known]]:
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


def _known(hash_: str, seen: Any, lines: Any) -> Known:
    """Read what a log says; what cannot be read means that nothing was seen."""
    if seen is None:
        return Known(hash_)
    pairs = seen if isinstance(seen, list) else []
    try:
        spans = tuple((int(first), int(last)) for first, last in pairs)
        return Known(hash_, spans, int(lines))
    except (TypeError, ValueError):
        return Known(hash_, (), 0)


@dataclass(slots=True)
class _Agent:
    """What is derived for one agent, up to a place in its context."""

    layout: object = None
    """Of the agent's state: another one where the context is no longer what it was."""
    position: int = 0
    files: dict[str, Known] = field(default_factory=dict)
    pending: dict[str, dict[str, Known]] = field(default_factory=dict)
    """Call -> what it wrote, as long as its result is not in the context."""


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
        self._looks: dict[Path, _Look] = {}

    def of(self, agent: Any) -> Mapping[str, str]:
        """Return what an agent knows: path (from the folder, or absolute) -> hash of its content.

        Costs only what is new in its context, except after that was edited.
        """
        return {path: known.hash for path, known in self._all(agent).items()}

    def known(self, agent: Any, path: str) -> Known | None:
        """Return what an agent knows of one file; None: nothing."""
        return self._all(agent).get(path)

    def learn(self, caller: Caller | None, path: str, known: Known, *, wrote: bool = False) -> None:
        """Take note of what a call has read or written.

        What a model reads it knows when the result is in its context, not before: a call in the
        same message was made without it. What it writes it knows at once. An agent that acts in
        code has no open call, and knows everything at once.
        """
        if caller is None:
            return
        mine = self._agent(caller.agent)
        calls = caller.agent.session.agent(caller.agent.agent_id).open_calls.values()
        if all(call.reference != caller.call for call in calls):
            mine.files[path] = known.with_earlier(mine.files.get(path))
        elif wrote:
            mine.pending.setdefault(caller.call, {})[path] = known

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

    def _all(self, agent: Any) -> Mapping[str, Known]:
        mine = self._agent(agent)
        if not mine.pending:
            return mine.files
        open_calls = agent.session.agent(agent.agent_id).open_calls.values()
        references = {call.reference for call in open_calls}
        mine.pending = {call: new for call, new in mine.pending.items() if call in references}
        every = dict(mine.files)
        for new in mine.pending.values():
            every |= new
        return every

    def _agent(self, agent: Any) -> _Agent:
        """Return what is kept for an agent, after reading what is new in its context."""
        state = agent.session.agent(agent.agent_id)
        agents = self._sessions.setdefault(agent.session, {})
        mine = agents.setdefault(agent.agent_id, _Agent())
        context = agent.session.context(agent.agent_id)
        if mine.layout is not state.layout or mine.position > len(context):
            mine.layout, mine.position, mine.files = state.layout, 0, {}
        for at in range(mine.position, len(context)):
            for path, known in files_in(context[at]):
                mine.files[path] = known.with_earlier(mine.files.get(path))
        mine.position = len(context)
        return mine

    def _path(self, name: str) -> Path | None:
        """Return where a file is; None where that cannot be said."""
        if name.startswith("/"):
            return Path(name)
        return None if self._root is None else self._root.folder / name

    def _now(self, path: Path) -> str | None:
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
            hash_ = load(self._root or Root("/"), path).hash
        except Failed:
            return None
        if time.time_ns() - max(found.st_mtime_ns, found.st_ctime_ns) > _RACY_NS:
            self._looks[path] = _Look(same, hash_)
        return hash_
