"""Random histories: what was live at every append is what the log says up to there.

A history is a list of steps, each with dice that choose among what there is at that moment, so
that Hypothesis can take steps out of a failing history and it is still one. A snapshot of the live state
is taken at every append. Then the log is read again, and every prefix of it folded.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.core import events as ev
from harken.core.event_types.spec import AgentSpec, Budget, Limits, SpecChange
from harken.core.ids import USER, AgentId, MessageId
from harken.core.messages import ChatMessage, Message
from harken.errors import InvalidEvent
from harken.session.fold import fold
from harken.session.log.checksum import has_more
from harken.session.log.reader import LogReadReport, iter_events, iter_records
from harken.session.segments import resolve_context
from harken.session.session import Session
from harken.session.state import AgentState, SessionState
from tests.session_kit import (
    create_agent,
    entry_segment,
    hash_context,
    log_answer,
    log_request,
    log_response,
    log_user_message,
    session_options,
    without_log_fields,
)

Dice: TypeAlias = Callable[[int], int]
"""Given how many there are to choose from, says which."""


def resolver(event: ev.ContextLoaded) -> list[Message]:
    """The store: `ctx-3` is a commit of three messages."""
    size = int(event.ctx.removeprefix("ctx-"))
    return [Message("user" if n % 2 else "assistant", f"{event.ctx} {n}") for n in range(size)]


@dataclass
class History:
    """A session in the making, and what was live at each of its events."""

    session: Session
    dice: Dice = lambda _: 0
    text: Any = ""
    snapshots: dict[str, dict[str, Any]] = field(default_factory=dict)
    contexts: dict[str, list[Message]] = field(default_factory=dict)
    """What the model read, for each request."""

    def begin(self) -> None:
        """Take a snapshot from now on, and make the root."""
        self.listen()
        create_agent(self.session)

    def listen(self) -> None:
        self.session.add_listener(self._snap)

    def _snap(self, event: ev.Event) -> None:
        self.snapshots[event.message_id] = self.session.state.describe()

    def one_of(self, choices: Sequence[Any]) -> Any:
        return choices[self.dice(len(choices))]

    def agent(self) -> AgentState:
        """Anybody, in memory."""
        return self.session.agent(self.one_of(list(self.session.agents)))

    def some_id(self) -> MessageId:
        """Any event so far."""
        return MessageId(f"msg_{self.dice(self.session.state.next_message):03d}")

    def a_cause(self, agent: AgentState) -> ev.Cause:
        """A call in progress, or a birth, or several messages."""
        calls = [call.reference for call in agent.open_calls.values()]
        causes: list[ev.Cause] = [agent.birth, *calls, [agent.birth, *calls]]
        return causes[self.dice(len(causes))]

    def bear(self) -> None:
        agent = self.agent()
        relation: ev.Relation = self.one_of(["subagent", "hook"])
        spec = self.one_of([None, AgentSpec(kind=self.text, limits=Limits(tools=[self.text]))])
        agent_id = self.session.allocate_agent_id()
        self.session.defer_messages(agent_id, [Message("system", self.text)] * self.dice(3))
        self.session.log_agent_created(
            agent_id, self.a_cause(agent), relation=relation, name=self.text, spec=spec
        )

    def hear(self) -> None:
        substance = self.one_of([None, self.some_id()])
        if substance in self.session.state.copied_messages:
            substance = None
        author = self.one_of([self.agent().id, USER])
        log_user_message(self.session, author, self.text, substance=substance)

    def say(self) -> None:
        parts = [{"type": "thinking", "text": "hm"}, {"type": "text", "text": self.text}]
        log_answer(self.session, self.agent().id, self.one_of([self.text, parts]))

    def act(self) -> None:
        agent, count = self.agent(), 1 + self.dice(3)
        first = self.session.state.next_message
        calls = [
            {"id": f"c{first}.{n}", "function": {"name": "look", "arguments": self.text}}
            for n in range(count)
        ]
        message = {"role": "assistant", "content": None, "tool_calls": calls}
        self.session.log_transcript_entry(agent.id, message)

    def result(self) -> None:
        agent = self.agent()
        for call in list(agent.open_calls.values())[: 1 + self.dice(2)]:
            message = {
                "role": "tool",
                "content": self.text,
                "tool_call_id": call.id,
                "name": call.name,
                "is_error": bool(self.dice(2)),
            }
            self.session.log_transcript_entry(agent.id, message)

    def piece(self) -> None:
        agent = self.agent()
        cause = self.a_cause(agent)
        self.session.log_piece_of_text(agent.id, self.text, cause)

    def move(self) -> None:
        place: ev.Place = self.one_of(["subagent", "hook", "primary", "gone"])
        parent = None if place == "primary" else self.one_of([None, self.agent().id])
        moved = ev.AgentMoved(agent_id=self.agent().id, place=place, parent=parent)
        try:
            self.session.append(moved)
        except InvalidEvent as refused:  # below itself, or a subagent of nobody
            assert "itself" in str(refused) or "needs a parent" in str(refused)  # noqa: PT017 - either

    def speak_with(self) -> None:
        born_ones = list(self.session.agents)
        agent_ids = [self.one_of(born_ones) for _ in range(self.dice(3))]
        agent = self.agent().id
        self.session.append(
            ev.InterlocutorsSet(agent_id=agent, speakers=agent_ids, listeners=agent_ids[:1])
        )

    def edit(self) -> None:
        agent = self.agent()
        size = len(self.session.context(agent.id))
        segments = []
        for _ in range(self.dice(4)):
            start, stop = sorted((self.dice(size + 1), self.dice(size + 1)))
            entries = [e.message_id for e in self.agent().transcript or ()]
            segment = entry_segment(*(self.one_of(entries) for _ in range(self.dice(3)) if entries))
            segments.append(self.one_of([ev.Segment(start=start, stop=stop), segment]))
        self.session.append(ev.TranscriptEdited(agent_id=agent.id, segments=segments))

    def load(self) -> None:
        ctx = f"ctx-{self.dice(4)}"
        event = ev.ContextLoaded(agent_id=self.agent().id, ctx=ctx, count=0, context_hash="")
        event.count, event.context_hash = len(resolver(event)), hash_context(resolver(event))
        self.session.append(event)

    def ask(self) -> None:
        agent = self.agent()
        tools = self.session.state.tools.get("h")
        if tools is None and self.dice(2):
            tools = self.session.append(ev.ToolsDefined(tools=[{}], tools_hash="h"))
        request = log_request(self.session, agent.id, tools=tools)
        self.contexts[request] = without_log_fields(self.session.context(agent.id))

    def answer(self) -> None:
        open_ones = list(self.session.state.requests.items())
        for agent_id, request in open_ones[: 1 + self.dice(2)]:
            usage = ev.Usage(input_tokens=self.dice(100), output_tokens=self.dice(100))
            message_id = log_answer(self.session, agent_id, self.text)
            log_response(
                self.session,
                agent_id,
                request.message_id,
                entry=message_id,
                usage=self.one_of([None, usage]),
                cost_usd=self.dice(100) / 7,
            )

    def save(self) -> None:
        value = self.one_of([None, self.text, {"n": [self.dice(9), 0.1, None], "t": self.text}])
        self.session.append(ev.AgentStateSaved(agent_id=self.agent().id, state=value))

    def configure(self) -> None:
        spec = self.one_of([None, SpecChange(limits=Limits(budget=Budget(depth=self.dice(9))))])
        name = self.one_of([None, self.text])
        self.session.append(ev.AgentConfigured(agent_id=self.agent().id, name=name, spec=spec))

    def rest(self) -> None:
        """The events that move nothing but the counter, and an end that is none."""
        agent = self.agent().id
        event: ev.Event = ev.MemoryOperation(agent_id=agent, memory_type="STM", operation="WRITE")
        committed = ev.ContextCommitted(agent_id=agent, ctx=f"ctx-{self.dice(9)}")
        self.session.append(self.one_of([event, committed, ev.SessionEnded()]))

    def evict(self) -> None:
        """Drop a transcript; reading it again must leave the state as it was."""
        before = self.session.state.describe()
        agent = self.agent()
        self.session.evict(agent.id)
        self.session.agent(agent.id)
        assert self.session.state.describe() == before

    def resume(self) -> None:
        before = self.session.state.describe()
        self.session.close()
        self.session = Session.load(self.session.path, options=session_options(resolver=resolver))
        assert self.session.state.describe() == before
        self.listen()


STEPS = [
    History.bear,
    History.bear,
    History.hear,
    History.say,
    History.act,
    History.result,
    History.piece,
    History.move,
    History.move,
    History.speak_with,
    History.edit,
    History.load,
    History.ask,
    History.ask,
    History.answer,
    History.save,
    History.configure,
    History.rest,
    History.evict,
    History.resume,
]
TEXTS = st.sampled_from(
    ["", "hello", 'a "b"\n\\', '","sum":"0123456789abcdef"}\n', "\ud800", "\u2028\0", "x" * 9000]
)
steps = st.lists(
    st.tuples(st.sampled_from(STEPS), st.integers(0, 2**32), TEXTS), min_size=25, max_size=60
)
"""Not fewer: by themselves, lists of Hypothesis have four members on average."""


def write(path: Path, steps: list[tuple[Callable[[History], None], int, str]]) -> History:
    """Make a history in a log."""
    history = History(Session(path, options=session_options(resolver=resolver)))
    history.begin()
    for step, seed, text in steps:
        history.dice, history.text = Random(seed).randrange, text
        step(history)
    history.session.close()
    return history


@given(steps, st.integers(0))
def test_fold_of_each_prefix_equals_the_live_state(steps: Any, position: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.jsonl"
        history = write(path, steps)
        state = SessionState()
        for event, line in iter_records(path, LogReadReport()):
            fold(state, event, resolver)
            if event.message_id in history.snapshots and not has_more(line):
                assert state.describe() == history.snapshots[event.message_id]
        assert len(history.snapshots) == state.next_message - 1  # all but session_started
        raw = path.read_bytes().splitlines(keepends=True)
        line_count = 2 + position % (len(raw) - 1)
        path.write_bytes(b"".join(raw[:line_count]))
        while has_more(raw[line_count - 1]):
            line_count -= 1
        with Session.load(path, options=session_options(resolver=resolver)) as resumed:
            assert resumed.state.describe() == history.snapshots[f"msg_{line_count - 1:03d}"]


@pytest.mark.req("S0-22")
@given(steps)
def test_request_contexts_are_rebuilt_from_the_log(steps: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.jsonl"
        history = write(path, steps)
        events = list(iter_events(path))
        requests = {e.message_id: e for e in events if isinstance(e, ev.LlmRequest)}
        entries = {e.message_id: e for e in events if isinstance(e, ev.TranscriptEntry)}
        commits = {e.message_id: e for e in events if isinstance(e, ev.ContextLoaded)}

        def loaded(id_: MessageId) -> Sequence[ChatMessage]:
            return resolver(commits[id_])

        assert requests.keys() == history.contexts.keys()
        for id_, request in requests.items():
            rebuilt = without_log_fields(resolve_context(request, requests, entries, loaded))
            assert rebuilt == history.contexts[id_]
            assert (len(rebuilt), hash_context(rebuilt)) == (request.count, request.context_hash)


@given(steps)
def test_agents_always_form_a_tree(steps: Any) -> None:
    """Everybody stands in one row at most, that of his parent, and nobody below himself."""
    with tempfile.TemporaryDirectory() as folder:
        state = write(Path(folder) / "s.jsonl", steps).session.state
    rows: dict[AgentId, list[AgentId]] = {agent_id: [] for agent_id in state.agents}
    for above in state.agents.values():
        for below in (*above.subagents, *above.hooks):
            rows[below].append(above.id)
    for agent in state.agents.values():
        stands = agent.place in ("subagent", "hook")
        assert rows[agent.id] == ([agent.parent] if stands else [])
        visited = set()
        above_id: AgentId | None = agent.id
        while above_id is not None:
            assert above_id not in visited
            visited.add(above_id)
            above_id = state.agents[above_id].parent
