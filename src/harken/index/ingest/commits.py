"""Commits as rows of facts.

One idea: what is said once is one row that counts, however many commits and files say it. It is
known again by three keys: by the ids that its runtime gave it, by its place in the history (a file
that grew has the same messages in a longer commit), and, where a compaction or a snapshot says
again what was said before, by its content since the beginning of that history.

Source: docs/formats/facts.md, "Repeats".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from blake3 import blake3

from harken.core.commits import CommitId, DeltaEntry
from harken.index.ingest.messages import MessageRow, Messages
from harken.index.ingest.new_commits import CommitText
from harken.index.ingest.responses import ResponseIngest, ResponseRow
from harken.index.ingest.row_writer import RowWriter, time_us
from harken.index.ingest.usage import TokenCounts, provider_of, spent, told_cost
from harken.index.message_text import MessageText, utf8
from harken.store.base import StoredCommit

HARKEN = "harken"
"""What Harken itself is called among the runtimes."""
_GLOBAL = 16
"""An id of so many characters is that of one response among all there are; a shorter one, as Pi
gives them, is one in its session."""
_SILENT = frozenset({"codex"})
"""Runtimes in whose results nothing says that all went well, but for the exit code of a command."""
_SHOWN = 100
_ODD, _WHOLE = 0x9E3779B97F4A7C15, (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class CommitAuthor:
    """Whose a commit is."""

    runtime: str
    native: str
    """The session, as the runtime calls it."""
    agent: str
    """Empty: the main conversation."""

    @property
    def session(self) -> str:
        """The name of the session among all sessions."""
        return self.native if self.runtime == HARKEN else f"{self.runtime}:{self.native}"


def origin_of(principal: str, session_id: str) -> CommitAuthor:
    """Return whose a commit is, by its principal: `claude:SESSION/AGENT`, else it is Harken's own.

    >>> origin_of("codex:0f1e/ann", "0f1e")
    CommitAuthor(runtime='codex', native='0f1e', agent='ann')
    >>> origin_of("demo/Jack", "demo")
    CommitAuthor(runtime='harken', native='demo', agent='Jack')
    """
    runtime, colon, rest = principal.partition(":")
    after = rest.removeprefix(session_id)
    is_foreign = colon and runtime and rest.startswith(session_id) and after[:1] in ("", "/")
    if is_foreign:
        return CommitAuthor(utf8(runtime), utf8(session_id), utf8(after[1:]))
    return CommitAuthor(HARKEN, utf8(session_id or principal), utf8(principal.partition("/")[2]))


@dataclass(frozen=True, slots=True)
class _Placed:
    """A commit that has a row."""

    row: int
    root: int
    """The commit with which its history begins."""
    session: int
    agent: int
    origin: CommitAuthor
    read: CommitText
    is_logged: bool
    """Whether a log says what it says, and more."""


class _Item(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a commit, and by what it is known again."""

    position: int
    entry: DeltaEntry
    said: MessageText
    content: int
    """What it says, since the beginning of the history."""
    others: tuple[int, ...]
    """Its ids, and its place."""
    response: str | None
    """The response that it is, or belongs to."""
    usage: Mapping[str, Any]

    @property
    def source(self) -> Mapping[str, Any]:
        """What only its runtime knows."""
        return self.entry.source or {}


@dataclass(slots=True)
class CommitIngest:
    """Enters commits."""

    ledger: RowWriter
    messages: Messages
    requests: ResponseIngest
    logged: set[int]
    """Sessions of which a log has been read."""
    _roots: dict[CommitId, tuple[int, int, int]] = field(default_factory=dict)
    """Commit -> its row, the root's and the agent's."""
    _goes_on: set[int] = field(default_factory=set)
    """Commits that have a `next` one."""
    _links: dict[CommitId, int] = field(default_factory=dict)
    """Commit -> the agent that its log says."""
    superseded: list[tuple[int]] = field(default_factory=list)
    """Messages whose place others took, which are to be taken out of the index."""
    _tips: list[tuple[int, int]] = field(default_factory=list)

    def take(self, reads: Sequence[CommitText]) -> None:
        """Enter commits, parents first, and write them."""
        self._learn(reads)
        placed = [self._place(one) for one in reads]
        items = [(one, item) for one in placed if not one.is_logged for item in _items(one)]
        keys = {key for _, item in items for key in (item.content, *item.others)}
        known = self.ledger.known(keys)
        self.requests.learn({item.response for _, item in items if item.response is not None})
        for one, item in items:
            self._enter(one, item, known)
        self._write()

    def _write(self) -> None:
        self.messages.write()
        self.requests.write()
        database = self.ledger.database
        database.executemany("UPDATE messages SET is_repeat = 1 WHERE id = ?", self.superseded)
        database.executemany("DELETE FROM tool_calls WHERE message_id = ?", self.superseded)
        database.executemany(_TIP, self._tips)
        self._tips.clear()

    def _learn(self, reads: Sequence[CommitText]) -> None:
        """Find out what is known of parents that were read before."""
        own = {one.stored.id for one in reads}
        parents = {one.stored.commit.parent for one in reads} - own - {None}
        names = [bytes.fromhex(name[4:]) for name in parents if name is not None]
        query = (
            "SELECT name, c.id, r.root, agent_id, EXISTS (SELECT 1 FROM edges e "
            "WHERE e.parent_id = c.id AND kind = 'next') "
            "FROM commits c JOIN roots r ON r.commit_id = c.id WHERE name IN"
        )
        for name, row, root, agent, goes_on in self.ledger.rows(query, names):
            self._roots[CommitId(f"ctx-{name.hex()}")] = row, root, agent
            if goes_on:
                self._goes_on.add(row)
        names = [bytes.fromhex(one.stored.id[4:]) for one in reads]
        for name, agent in self.ledger.rows("SELECT ctx, agent_id FROM links WHERE ctx IN", names):
            self._links[CommitId(f"ctx-{name.hex()}")] = agent

    def _place(self, read: CommitText) -> _Placed:
        """Give a commit its row, and its place among the others."""
        stored, commit, ledger = read.stored, read.stored.commit, self.ledger
        origin = origin_of(commit.principal, commit.session_id)
        parent = self._roots.get(commit.parent) if commit.parent is not None else None
        session = ledger.session(origin.session, origin.runtime, origin.native)
        is_logged = session in self.logged
        agent = self._links.get(stored.id) if is_logged else None
        if agent is None:
            is_spawn = commit.checkpoint == "spawn" and parent is not None
            agent = ledger.agent(
                session,
                utf8(commit.principal),
                origin.agent,
                template=utf8(commit.template),
                parent=parent[2] if is_spawn and parent is not None else None,
            )
        row = ledger.number("commits")
        root = row if parent is None else parent[1]
        self._roots[stored.id] = row, root, agent
        ledger.add(
            "commits",
            row,
            bytes.fromhex(stored.id[4:]),
            None if parent is None else parent[0],
            session,
            agent,
            commit.type,
            commit.checkpoint,
            time_us(commit.created_at),
            commit.message_count,
            commit.token_count,
        )
        ledger.add("roots", row, root)
        self._tips.append((row, agent))
        if parent is not None:
            ledger.add("edges", parent[0], row, self._edge(stored, parent[0]))
        return _Placed(row, root, session, agent, origin, read, is_logged)

    def _edge(self, stored: StoredCommit, parent: int) -> str:
        if stored.commit.checkpoint == "spawn":
            return "spawn"
        if stored.commit.type == "compaction":
            return "compaction"
        kind = "fork" if parent in self._goes_on else "next"
        self._goes_on.add(parent)
        return kind

    def _enter(self, one: _Placed, item: _Item, known: set[int]) -> None:
        """Enter a message of a commit, and what it answers."""
        says_again = one.read.stored.commit.type != "delta" and item.content in known
        is_repeat = says_again or not known.isdisjoint(item.others)
        known.update((item.content, *item.others))
        self.ledger.keys.update((item.content, *item.others))
        entry, took = item.entry, spent(item.usage) if item.usage else _NOTHING
        if not is_repeat:
            is_repeat = self._is_less(item, took)
        commit, time = one.read.stored.commit, time_us(entry.time)
        heard = MessageRow(
            commit=one.row,
            position=item.position,
            session=one.session,
            agent=one.agent,
            kind=_kind(one, item, is_repeat=is_repeat),
            time_us=time,
            made_us=time_us(commit.created_at) if time is None else None,
            hash=bytes.fromhex(entry.message),
            said=item.said,
            calls=[_text(call, "id") for call in entry.occurrence.calls],
            answers=entry.occurrence.tool_call_id if item.said.role == "tool" else None,
            failed=_failed(one, item),
            is_repeat=is_repeat,
        )
        row = self.messages.add(heard)
        if not is_repeat and (heard.kind == "response" or took.is_some):
            self._answered(one, item, took, (row, heard.time_us))

    def _is_less(self, item: _Item, took: TokenCounts) -> bool:
        """Whether the same response was read before, with more in it: its file had grown.

        Where it had less, this one takes its place.
        """
        before = None if item.response is None else self.requests.known.get(item.response)
        if before is None or before.message is None or item.said.role != "assistant":
            return False
        if (took.output or 0) < before.output:
            return True
        self.superseded.append((before.message,))
        return False

    def _answered(
        self, one: _Placed, item: _Item, took: TokenCounts, said: tuple[int, int | None]
    ) -> None:
        """Enter a response; `said`: the row of its message, and its time."""
        row, time = said
        self.requests.add(
            ResponseRow(
                id=item.response,
                session=one.session,
                agent=one.agent,
                message=row if item.said.role == "assistant" else None,
                model=_text(item.source, "model"),
                provider=provider_of(item.source) or one.origin.runtime,
                time_us=time,
                stop_reason=_text(item.source, "stop_reason") or None,
                took=took,
                cost_usd=told_cost(item.source),
            )
        )


_NOTHING = TokenCounts()
_TIP = """
UPDATE agents SET tip_id = ?1 WHERE id = ?2 AND (tip_id IS NULL OR
(SELECT time FROM commits WHERE id = tip_id) <= (SELECT time FROM commits WHERE id = ?1))
"""


def _items(one: _Placed) -> Iterator[_Item]:
    """Yield the messages of a commit, with their keys."""
    parent = one.read.stored.commit.parent or one.origin.session
    for at, (entry, said) in enumerate(one.read.messages):
        source = entry.source or {}
        call = entry.occurrence.tool_call_id or ""
        keys = [_key("place", parent, str(at), entry.message, entry.time or "", call)]
        named = next(filter(None, (source.get(name) for name in ("uuid", "uuids", "id"))), None)
        if named is not None:
            keys.append(_key("id", one.origin.runtime, str(named), entry.message, call))
        usage = source.get("usage")
        yield _Item(
            position=at,
            entry=entry,
            said=said,
            content=_content_key(one.root, entry.message),
            others=tuple(keys),
            response=_response(one.origin, entry),
            usage=usage if isinstance(usage, dict) else {},
        )


def _failed(one: _Placed, item: _Item) -> bool | None:
    """Return whether a result is that of a call that failed; None: nothing says it."""
    code = item.source.get("exit_code")
    if item.said.is_error or item.said.role != "tool":
        return item.said.is_error
    if isinstance(code, int):
        return code != 0
    return None if one.origin.runtime in _SILENT else False


def _kind(one: _Placed, item: _Item, *, is_repeat: bool) -> str:
    """Return who says a message, and as what."""
    told = item.source.get("kind")
    match item.said.role:
        case "tool":
            return "tool_result"
        case "assistant":
            if told == "error" or item.source.get("error"):
                return "error"
            is_summary = one.read.stored.commit.type == "compaction" and not is_repeat
            return "summary" if is_summary else "system" if told == "client" else "response"
        case "user":
            return _kind_of_user(one, item, is_repeat=is_repeat)
    return "system"


def _kind_of_user(one: _Placed, item: _Item, *, is_repeat: bool) -> str:
    """Return what stands in a user's place: a person's prompt, or what only looks like one."""
    stored, told = one.read.stored, item.source.get("kind")
    if item.source.get("summary") is True:
        return "summary"
    if stored.commit.type == "compaction" and not is_repeat:
        beginning = stored.notes.summary[:_SHOWN]
        is_summary = beginning and any(beginning in text for text in item.said.texts)
        return "summary" if is_summary or told != "system" else "system"
    return "system" if told == "system" or one.origin.agent else "prompt"


def _response(origin: CommitAuthor, entry: DeltaEntry) -> str | None:
    """Return what tells a response from all others; None: nothing does."""
    source = entry.source or {}
    own = source.get("pi")
    id_ = _text(own, "responseId") if isinstance(own, dict) else ""
    id_ = utf8(id_ or _text(source, "id"))
    if not id_:
        return None
    if origin.runtime == "opencode":  # which has one id for all steps of an answer
        return f"{id_}/{entry.message[:16]}"
    return id_ if len(id_) >= _GLOBAL else f"{origin.session}/{id_}"


def _text(value: Mapping[str, Any], name: str) -> str:
    one = value.get(name)
    return one if isinstance(one, str) else ""


def _content_key(root: int, message: str) -> int:
    """Return a key of what has that content in the history with that root: hashes are random."""
    mixed = (int(message[:16], 16) + root * _ODD) & _WHOLE
    return mixed - (1 << 63)


def _key(*what: str) -> int:
    data = "\0".join(what).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake3(data).digest(8), "big", signed=True)
