"""`retell`: commits as the events of a session, such as a log of it would hold.

One idea: every agent is told by itself, in the order of its commits, and says before each entry
when that was; of all agents the one whose turn is the earliest goes on. So the events are in order
of time as far as each agent's own order allows, and a subagent is born while its call is open.

Nothing is made up that the commits do not say: who was asked what in a model call follows from
what an answer was built on. The same commits give the same events. They keep the rules of a log
(`harken.session.invariants`): each could be written.

Source: docs/formats/session-log.md; docs/design/005-other-runtimes.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import chain
from typing import TypeAlias

from harken.context.commit_content import contents_of, entries_or_note
from harken.context.materialize import is_spawn
from harken.context.to_events.agent import AgentEvents, time_in
from harken.context.to_events.branches import AgentBranch, BranchTip, lanes_of
from harken.context.to_events.event_log import ContextItem, EventLog, Reads, message_key
from harken.context.to_events.response_facts import is_answer, model_of, response_of
from harken.context.to_events.tool_calls import prompt_of, spawning
from harken.core import events as ev
from harken.core.commits import CommitId
from harken.core.ids import agent_id
from harken.errors import NameNotFound
from harken.formats.base import ConversationEntry
from harken.session.log.reader import paused_gc
from harken.session.state import OpenCall
from harken.store.base import Store, StoredCommit

MAIN = "main"
_Telling: TypeAlias = Iterator[str]
"""Tells an agent; yields when the next happened, before it is told."""
_Entries: TypeAlias = dict[CommitId, list[ConversationEntry]]


def retell(store: Store, name: str, ends: Sequence[BranchTip]) -> list[ev.Event]:
    """Return the events of a session that was never logged here.

    name: of the session. ends: where its conversations end, the main one first; more than one of an
    agent are branches. Raises NameNotFound for a commit that is not there; ObjectNotFound,
    ObjectCorrupted.
    """
    if not ends:
        raise NameNotFound("commit of session", name, ())
    with paused_gc():
        lanes = lanes_of(store, ends)
        return [*_Retelling(name, lanes, _read(store, lanes)).events()]


def _read(store: Store, lanes: Iterable[AgentBranch]) -> _Entries:
    """Return what all commits hold."""
    found: _Entries = {}
    for content in contents_of(store, [one for lane in lanes for one in lane.commits]):
        found.setdefault(content.stored.id, []).extend(entries_or_note(content))
    return found


@dataclass(slots=True)
class _Retelling:
    """All agents of a session, while they are told."""

    name: str
    lanes: list[AgentBranch]
    entries: _Entries
    last: dict[str, ConversationEntry] = field(init=False)
    """Response -> the last entry with it: that one is told as what a model answered."""
    story: EventLog = field(default_factory=EventLog)
    root: AgentEvents | None = None
    begun: int = 0
    spawns: dict[CommitId, list[AgentBranch]] = field(default_factory=dict)
    """Commit -> the lanes that begin there."""
    due: list[_Telling] = field(default_factory=list)
    """Those that begin now."""

    def __post_init__(self) -> None:
        """Look for responses; what a snapshot repeats counts only where it stands nowhere else."""
        commits = sorted(
            (one for lane in self.lanes for one in lane.commits if _asks(one)),
            key=lambda one: one.commit.type == "delta",
        )
        told = chain.from_iterable(self.entries.get(one.id, ()) for one in commits)
        self.last = {id_: entry for entry in told if (id_ := response_of(entry)) is not None}

    def events(self) -> list[ev.KnownEvent]:
        """Tell all, and return the events."""
        known = {one.id for lane in self.lanes for one in lane.commits}
        free: list[AgentBranch] = []
        for lane in self.lanes:
            if lane.origin in known:
                self.spawns.setdefault(lane.origin, []).append(lane)
            else:
                free.append(lane)
        first = self._time(free[0])
        started = ev.SessionStarted(session_id=self.name, schema_version=ev.SCHEMA_VERSION)
        self.story.say(started, first)
        self.due += [self._lane(lane, None) for lane in free]
        self._run()
        return self.story.events

    def _run(self) -> None:
        """Let each agent go on when it is its turn; at the same time, the one that began last."""
        waiting: list[tuple[str, int, _Telling]] = []
        while self.due or waiting:
            before = ""
            if self.due:
                telling = self.due.pop(0)
                self.begun += 1
                number = -self.begun
            else:
                before, number, telling = heappop(waiting)
            time = next(telling, None)
            if time is not None:
                heappush(waiting, (max(before, time), number, telling))

    def _lane(self, lane: AgentBranch, above: AgentEvents | None) -> _Telling:
        """Tell an agent."""
        if above is None and self.root is not None:
            yield self._time(lane)
        voice = self._born(lane, above)
        inherited = [] if above is None else above.reads.held[:]
        left: dict[CommitId | None, Reads] = {None: Reads()}
        told: CommitId | None = None
        for one in lane.commits:
            entries = self.entries.get(one.id, [])
            if told is None:
                entries = _inherit(voice, one, entries, inherited)
            elif one.commit.parent != told:
                voice.time = _first(entries, one.commit.created_at)
                yield voice.time
                parent = one.commit.parent if one.commit.parent in left else None
                voice.go_back(left[parent].held)
            yield from self._commit(voice, one, entries)
            if one.id in lane.forks:
                left[one.id] = voice.reads.upto(len(voice.reads))
            told = one.id
            self.due += [self._lane(other, voice) for other in self.spawns.get(one.id, ())]

    def _commit(
        self, voice: AgentEvents, one: StoredCommit, entries: Sequence[ConversationEntry]
    ) -> _Telling:
        """Tell what is new in a commit, or what an agent reads from then on, and the commit."""
        created = one.commit.created_at
        if one.commit.type != "delta" and not is_spawn(one) and voice.reads:
            yield max(created, voice.time)
            voice.replace(entries, one.commit.type, created)
        else:
            for entry in entries:
                if _asks(one) and is_answer(entry) and self._counts(entry):
                    voice.ask(entry)
                time = time_in(entry, voice.time)
                yield time
                voice.tell(entry, time)
        voice.commit(one)

    def _counts(self, answer: ConversationEntry) -> bool:
        """Whether a model was asked for this, and it is not said again elsewhere."""
        id_ = response_of(answer)
        return id_ is None or self.last[id_] is answer

    def _born(self, lane: AgentBranch, above: AgentEvents | None) -> AgentEvents:
        """Tell the birth of an agent, and what it was told by whoever made it."""
        entries = self.entries.get(lane.commits[0].id, [])
        prompt = prompt_of(entries)
        call: OpenCall | None = None
        time = self._time(lane) if above is None else above.time
        if above is not None:
            open_calls = above.state.open_calls.values()
            call = spawning(
                (one for one in open_calls if one.id not in above.spawned), lane.agent, prompt
            )
        parent = above or self.root
        cause = call.reference if call is not None else None if parent is None else parent.birth
        id_ = agent_id(self.story.state.next_agent)
        every = chain.from_iterable(self.entries.get(one.id, ()) for one in lane.commits)
        model = next(filter(None, map(model_of, filter(is_answer, every))), None)
        birth = ev.AgentCreated(
            agent_id=id_,
            cause=cause,
            name=lane.agent or MAIN,
            language_model=model,
            relation="primary" if parent is None else "subagent",
            spec=_spec(lane.commits[0]) if lane.agent not in ("", MAIN) else None,
        )
        voice = AgentEvents(self.story, id_, self.story.say(birth, time), time, model)
        self.root = self.root or voice
        if above is not None and call is not None:
            above.spawned[call.id] = voice
            if prompt:
                piece = ev.PieceOfText(agent_id=above.id, content=prompt, cause=call.reference)
                voice.told = self.story.say(piece, time), prompt
        return voice

    def _time(self, lane: AgentBranch) -> str:
        """Return when an agent began."""
        first = lane.commits[0]
        return _first(self.entries.get(first.id, []), first.commit.created_at)


def _spec(first: StoredCommit) -> dict[str, ev.Json] | None:
    """Return what the first commit of a subagent says it is: its template, and its task."""
    spec: dict[str, ev.Json] = {}
    if first.commit.template:
        spec["template"] = {"name": first.commit.template}
    if is_spawn(first) and first.notes.summary and not first.notes.derived:
        spec["task"] = first.notes.summary
    return spec or None


def _asks(one: StoredCommit) -> bool:
    """Whether answers in a commit were given there, and not before."""
    return one.commit.type == "delta" or is_spawn(one)


def _inherit(
    voice: AgentEvents,
    one: StoredCommit,
    entries: list[ConversationEntry],
    inherited: Sequence[ContextItem],
) -> list[ConversationEntry]:
    """Let an agent begin with what the one above it reads, as far as it does; return the rest.

    A snapshot says all that it reads: so much of it as is the same, time and all. Else it goes
    on from there.
    """
    same = len(inherited)
    if one.commit.type != "delta":
        same = _same(entries, inherited)
        entries = entries[same:]
    if same:
        voice.edit(inherited[:same], "inherited")
    return entries


def _same(entries: Sequence[ConversationEntry], inherited: Sequence[ContextItem]) -> int:
    """Return with how many messages, the same at the same time, two contexts begin."""
    for at, (entry, held) in enumerate(zip(entries, inherited, strict=False)):
        if entry.time != held.time or message_key(entry.message) != held.key:
            return at
    return min(len(entries), len(inherited))


def _first(entries: Iterable[ConversationEntry], created_at: str) -> str:
    """Return when the first of some entries was, where one says so."""
    return next((time for entry in entries if (time := time_in(entry, ""))), created_at)
