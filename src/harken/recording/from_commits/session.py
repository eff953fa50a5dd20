"""`retell`: convert commits to the events of a session log.

Every agent is a generator of events, in the order of its commits, which yields the time before each
entry; the agent with the earliest time continues. So the events are in order of time as far as each
agent's own order allows, and a subagent is created while its call is open.

Nothing is invented that the commits do not contain: the context of a model call follows from what
an answer was built on. The same commits give the same events. The events satisfy the rules of a log
(`harken.session.invariants`): each could be written.

Source: docs/formats/session-log.md; docs/design/005-other-runtimes.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import chain
from typing import TypeAlias

from harken.context.commit_content import entries_or_note, read_contents
from harken.context.materialize import is_spawn
from harken.core import events as ev
from harken.core.commits import CommitId
from harken.core.event_types.spec import AgentSpec, ForeignAgent, TemplateOrigin
from harken.core.ids import agent_id
from harken.errors import NameNotFound
from harken.formats.base import ConversationEntry
from harken.formats.runtimes.sent_requests import SentRequests
from harken.recording.from_commits.agent import AgentEvents, normalize_time
from harken.recording.from_commits.branches import AgentBranch, BranchTip, collect_branches
from harken.recording.from_commits.known_requests import KnownRequests
from harken.recording.from_commits.response_facts import find_model, find_response_id, is_answer
from harken.recording.from_commits.spawning import find_prompt, find_spawning_call
from harken.recording.writer.item import LoggedItem
from harken.recording.writer.memory_session import MemorySession
from harken.session.log.reader import paused_gc
from harken.session.state import OpenCall
from harken.store.base import Store, StoredCommit

MAIN = "main"
RECORDED_BY = "import"
"""In the spec of every agent: another program ran it, so results stand as that program had them."""
_EventGenerator: TypeAlias = Iterator[str]
"""A generator of an agent's events. It yields the time of the next event before it is logged."""
_Entries: TypeAlias = dict[CommitId, list[ConversationEntry]]


def retell(
    store: Store, name: str, ends: Sequence[BranchTip], requests: Sequence[SentRequests] = ()
) -> list[ev.Event]:
    """Return the events of a session that was recorded as commits only.

    name: of the session. ends: the tips of its conversations, the main one first; further tips of
    an agent are branches. requests: those that its transcripts record. Raises NameNotFound if a
    commit does not exist; ObjectNotFound, ObjectCorrupted.
    """
    if not ends:
        raise NameNotFound("commit of session", name, ())
    with paused_gc():
        lanes = collect_branches(store, ends)
        entries = _read_all(store, lanes)
        known_requests = KnownRequests.of(requests, entries.values())
        return [*_SessionConverter(name, lanes, entries, known_requests).events()]


def _read_all(store: Store, lanes: Iterable[AgentBranch]) -> _Entries:
    """Read the entries of all commits."""
    entries: _Entries = {}
    for content in read_contents(store, [stored for lane in lanes for stored in lane.commits]):
        entries.setdefault(content.stored.id, []).extend(entries_or_note(content))
    return entries


@dataclass(slots=True)
class _SessionConverter:
    """The conversion of all agents of a session."""

    name: str
    lanes: list[AgentBranch]
    entries: _Entries
    requests: KnownRequests
    session: MemorySession = field(default_factory=MemorySession)
    last: dict[str, ConversationEntry] = field(init=False)
    """Response -> the last entry with it, which is logged as the answer of the model."""
    root: AgentEvents | None = None
    begun: int = 0
    spawns: dict[CommitId, list[AgentBranch]] = field(default_factory=dict)
    """Commit -> the branches that begin there."""
    due: list[_EventGenerator] = field(default_factory=list)
    """Generators that start now."""

    def __post_init__(self) -> None:
        """Index responses. Those in a snapshot count only if they are nowhere else."""
        commits = sorted(
            (stored for lane in self.lanes for stored in lane.commits if _has_own_calls(stored)),
            key=lambda stored: stored.commit.type == "delta",
        )
        entries = chain.from_iterable(self.entries.get(stored.id, ()) for stored in commits)
        self.last = {
            id_: entry for entry in entries if (id_ := find_response_id(entry)) is not None
        }

    def events(self) -> list[ev.KnownEvent]:
        """Log everything, and return the events."""
        commit_ids = {stored.id for lane in self.lanes for stored in lane.commits}
        roots: list[AgentBranch] = []
        for lane in self.lanes:
            if lane.origin in commit_ids:
                self.spawns.setdefault(lane.origin, []).append(lane)
            else:
                roots.append(lane)
        self.session.time = self._start_time(roots[0])
        self.session.append(
            ev.SessionStarted(session_id=self.name, schema_version=ev.SCHEMA_VERSION)
        )
        self.due += [self._convert_agent(lane, None) for lane in roots]
        self._run()
        return self.session.events

    def _run(self) -> None:
        """Resume the agent with the earliest time; at equal times, the one that began last."""
        queue: list[tuple[str, int, _EventGenerator]] = []
        while self.due or queue:
            previous_time = ""
            if self.due:
                telling = self.due.pop(0)
                self.begun += 1
                number = -self.begun
            else:
                previous_time, number, telling = heappop(queue)
            time = next(telling, None)
            if time is not None:
                heappush(queue, (max(previous_time, time), number, telling))

    def _convert_agent(self, lane: AgentBranch, parent: AgentEvents | None) -> _EventGenerator:
        """Log the events of an agent."""
        if parent is None and self.root is not None:
            yield self._start_time(lane)
        agent = self._create_agent(lane, parent)
        contexts_by_commit: dict[CommitId | None, list[LoggedItem]] = {None: []}
        previous: CommitId | None = None
        for stored in lane.commits:
            entries = self.entries.get(stored.id, [])
            if previous is None:
                entries = _inherit(agent, parent, stored, entries)
            elif stored.commit.parent != previous:
                agent.time = _first_time(entries, stored.commit.created_at)
                yield agent.time
                agent.log_rewind(contexts_by_commit.get(stored.commit.parent, []))
            yield from self._convert_commit(agent, stored, entries)
            if stored.id in lane.forks:
                contexts_by_commit[stored.id] = [*agent.recorder.items]
            previous = stored.id
            self.due += [
                self._convert_agent(child_lane, agent)
                for child_lane in self.spawns.get(stored.id, ())
            ]

    def _convert_commit(
        self, agent: AgentEvents, stored: StoredCommit, entries: Sequence[ConversationEntry]
    ) -> _EventGenerator:
        """Log the new entries of a commit, or the replaced context, and the commit."""
        created = stored.commit.created_at
        if stored.commit.type != "delta" and not is_spawn(stored) and agent.recorder.items:
            yield max(created, agent.time)
            agent.log_replacement(entries, stored.commit.type, created)
        else:
            for entry in entries:
                if _has_own_calls(stored) and is_answer(entry) and self._is_logged_answer(entry):
                    agent.log_request(entry)
                time = normalize_time(entry, agent.time)
                yield time
                agent.log_entry(entry, time)
        agent.log_commit(stored)

    def _is_logged_answer(self, answer: ConversationEntry) -> bool:
        """Whether this is the entry that is logged as the answer of its model call."""
        id_ = find_response_id(answer)
        return id_ is None or self.last[id_] is answer

    def _create_agent(self, lane: AgentBranch, spawner: AgentEvents | None) -> AgentEvents:
        """Log the creation of an agent, and its prompt."""
        entries = self.entries.get(lane.commits[0].id, [])
        prompt = find_prompt(entries)
        call: OpenCall | None = None
        time = self._start_time(lane) if spawner is None else spawner.time
        if spawner is not None:
            calls = [call for call in spawner.open_calls() if call.id not in spawner.spawned]
            call = find_spawning_call(calls, lane.agent, prompt)
        parent = spawner or self.root
        cause = call.reference if call is not None else None if parent is None else parent.birth
        id_ = agent_id(self.session.state.next_agent)
        all_entries = chain.from_iterable(
            self.entries.get(stored.id, ()) for stored in lane.commits
        )
        model = next(filter(None, map(find_model, filter(is_answer, all_entries))), None)
        birth = ev.AgentCreated(
            agent_id=id_,
            cause=cause,
            name=lane.agent or MAIN,
            language_model=model,
            relation="primary" if parent is None else "subagent",
            spec=_build_spec(lane.commits[0], is_main=lane.agent in ("", MAIN)),
        )
        self.session.time = time
        birth_id = self.session.append(birth)
        agent = AgentEvents(self.session, id_, birth_id, time, self.requests, model)
        self.root = self.root or agent
        if spawner is not None and call is not None:
            spawner.spawned[call.id] = agent
            if prompt:
                piece = ev.PieceOfText(agent_id=spawner.id, content=prompt, cause=call.reference)
                agent.prompt = self.session.append(piece), prompt
        return agent

    def _start_time(self, lane: AgentBranch) -> str:
        """Return the time at which an agent began."""
        first = lane.commits[0]
        return _first_time(self.entries.get(first.id, []), first.commit.created_at)


def _build_spec(first: StoredCommit, *, is_main: bool) -> AgentSpec:
    """Return the spec of an agent: of a subagent, with template and task from its first commit."""
    foreign = ForeignAgent(RECORDED_BY)
    if is_main:
        return AgentSpec(foreign=foreign)
    template = TemplateOrigin(first.commit.template) if first.commit.template else None
    has_task = is_spawn(first) and not first.notes.derived
    task = first.notes.summary or None if has_task else None
    return AgentSpec(foreign=foreign, template=template, task=task)


def _has_own_calls(stored: StoredCommit) -> bool:
    """Whether model calls in a commit were made there, and not repeated from before."""
    return stored.commit.type == "delta" or is_spawn(stored)


def _inherit(
    agent: AgentEvents,
    parent: AgentEvents | None,
    stored: StoredCommit,
    entries: list[ConversationEntry],
) -> list[ConversationEntry]:
    """Let an agent start with the context of its parent, and return the remaining entries.

    A snapshot contains the complete context: the entries that equal the parent's are inherited. A
    delta continues from the parent's context.
    """
    if parent is None:
        return entries
    same_count = len(parent.recorder.items)
    if stored.commit.type != "delta":
        same_count = parent.count_common(entries)
        entries = entries[same_count:]
    if same_count:
        agent.inherit(parent, same_count)
    return entries


def _first_time(entries: Iterable[ConversationEntry], created_at: str) -> str:
    """Return the time of the first entry with a time, else that of the commit."""
    return next((time for entry in entries if (time := normalize_time(entry, ""))), created_at)
