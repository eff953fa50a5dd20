"""Hooks that have hooks, wherever a log is cut: nothing passes unjudged, and nothing is twice.

Random sessions, in which hooks watch agents and each other, in code and by a model, make more of
themselves, move, quit, deny and rewrite. Each log is cut after some of its lines and goes on from
there. What then holds is read from the log alone, event by event.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harken import HookQuestion, SessionViewer
from harken.core import events as ev
from harken.core.ids import AgentId, MessageId, parse_id_number, reference_message_id
from harken.core.messages import text_of
from harken.session.fold import fold
from harken.session.session import Session
from harken.session.state import AgentState, SessionState
from harken.views.dialogs.hook_messages import HookMessages
from tests.agent_kit import Stage, check_log, fast_options, full_state, select_lines
from tests.property.hooked_sessions import GUARD, JUDGED, Counting, Course
from tests.property.hooked_voices import dice

MADE_UP = re.compile(r"Error: (interrupted before|your answer reached its|\w+ was not run)")
"""How that begins which stands in the place of a result: nobody said it."""
TURNS = ("agent_moved", "agent_configured", "action_rewritten", "transcript_edited")
"""Events after which much changes: half of the cuts come just after one."""
BLOCKED = "Error: Action blocked by hook"


@dataclass
class Reading:
    """A log, read to an event: who stands where, what hooks were asked and said, what is wrong."""

    state: SessionState = field(default_factory=SessionState)
    faults: list[str] = field(default_factory=list)
    entries: dict[str, ev.TranscriptEntry] = field(default_factory=dict)
    denied: set[str] = field(default_factory=set)
    """The subjects that a hook has denied."""
    judged: Counter[tuple[AgentId, str]] = field(default_factory=Counter)
    """How often a hook has given a verdict on a subject."""
    verdict_counts: Counter[AgentId] = field(default_factory=Counter)
    born_with: dict[AgentId, int] = field(default_factory=dict)
    """What a copy had counted before."""
    heard: Counter[tuple[AgentId, str]] = field(default_factory=Counter)
    """How often an agent heard one comment."""
    last: dict[AgentId, str] = field(default_factory=dict)
    """What an agent answered last."""
    calls: dict[tuple[AgentId, str | None], str] = field(default_factory=dict)
    """An agent and the id of a call -> the call as hooks know it."""
    concerned: set[AgentId] = field(default_factory=lambda: {AgentId("agent_001")})
    """The first agent, and all who come from it, by what it or one of those did."""

    @classmethod
    def of(cls, log: Path) -> Reading:
        reading = cls()
        for event in SessionViewer(log).events:
            reading.take(event)
            fold(reading.state, event)
        reading.check_counts()
        reading.check_comments()
        reading.check_guards()
        return reading

    def take(self, event: ev.Event) -> None:
        match event:
            case ev.AgentCreated():
                self._born(event)
            case ev.AgentStateSaved() if event.agent_id not in self.verdict_counts:
                self.born_with.setdefault(event.agent_id or AgentId(""), event.state["asked"])
            case ev.HookVerdict():
                self._judges(event, self.state.agents[event.agent_id or AgentId("")])
            case ev.LlmRequest() if event.agent_id in self.state.agents:
                self._asks(self.state.agents[event.agent_id])
            case ev.TranscriptEntry() if event.agent_id in self.state.agents:
                self._enters(event, self.state.agents[event.agent_id])

    def _born(self, birth: ev.AgentCreated) -> None:
        causes = [birth.cause] if isinstance(birth.cause, str) else birth.cause or []
        made_by = self.entries.get(reference_message_id(causes[-1])) if causes else None
        if made_by and birth.agent_id and made_by.agent_id in self.concerned and made_by.tool_calls:
            self.concerned.add(birth.agent_id)

    def _enters(self, entry: ev.TranscriptEntry, agent: AgentState) -> None:
        self.entries[entry.message_id] = entry
        cause = entry.cause
        for call in entry.tool_calls or ():
            alone = len(entry.tool_calls or ()) == 1
            id_ = entry.message_id if alone else f"{entry.message_id}.{call.id}"
            self.calls[agent.id, call.id] = id_
        if entry.is_utterance and not is_code(agent):
            self.last[agent.id] = entry.message_id
        if entry.role == "tool":
            self._gets(entry, agent)
        elif entry.role == "user" and cause is None and agent.place == "primary":
            self._goes_on(agent)
        elif entry.role == "user" and entry.purpose == "question" and is_code(agent):
            self.faults.append(f"{agent.name} is code, and has a question in its transcript")
        elif isinstance(cause, str) and entry.purpose in ("comment", "returned"):
            self.heard[agent.id, cause] += 1

    def _judges(self, verdict: ev.HookVerdict, hook: AgentState) -> None:
        """Note a verdict, and check that its hook was to judge its subject, once."""
        subject = verdict.subject
        entry = self.entries[reference_message_id(subject)]
        if verdict.point == "result" and MADE_UP.match(text_of(entry.content)):
            self.faults.append(f"{hook.name} judges {subject}, which no tool said")
        if hook.place == "gone":
            self.faults.append(f"{hook.name} judges {subject}, though it has left")
        if self.judged[hook.id, subject]:
            self.faults.append(f"{hook.name} judges {subject} twice")
        if is_code(hook) and verdict.said is not None:
            self.faults.append(f"{hook.name} is code, and has a message with its verdict")
        if verdict.verdict == "deny":
            self.denied.add(subject)
        self.judged[hook.id, subject] += 1
        self.verdict_counts[hook.id] += 1
        if verdict.said is not None:
            self._counts(verdict.said, hook)

    def _counts(self, answer: str, hook: AgentState) -> None:
        """Check that the answer of a hook came through hooks of its own before it counts."""
        if answer in self.denied:
            self.faults.append(f"{answer} of {hook.name} counts, which is denied")
        self._judged(hook, answer, "response")

    def _goes_on(self, agent: AgentState) -> None:
        """Look whether the user has heard, before the next word, what hooks had not seen."""
        answer = self.last.get(agent.id)
        if answer is not None and answer not in self.denied:
            self._judged(agent, answer, "response")

    def _gets(self, result: ev.TranscriptEntry, agent: AgentState) -> None:
        """Look whether an action ran that hooks did not see, or did not want."""
        action = self.calls[agent.id, result.tool_call_id]
        text = text_of(result.content)
        if MADE_UP.match(text) or text.startswith(BLOCKED):
            return
        if action in self.denied:
            self.faults.append(f"{agent.name} runs {action}, which is denied")
        self._judged(agent, action, "action")

    def _asks(self, agent: AgentState) -> None:
        """Look whether a model reads what hooks have not seen."""
        if is_code(agent):
            return
        for id_ in agent.new_entries:
            entry = self.entries.get(id_)
            if entry is None or entry.agent_id != agent.id:
                continue
            if entry.role == "user" and entry.cause is None:
                self._judged(agent, id_, "input")
            elif entry.role == "tool" and not MADE_UP.match(text_of(entry.content)):
                self._judged(agent, id_, "result")

    def _judged(self, agent: AgentState, subject: str, point: str) -> None:
        """Check that all hooks in code that were there have answered about something."""
        for hook in (self.state.agents[id_] for id_ in agent.hooks):
            was_there = number(hook.placed_by) < number(subject)
            if is_code(hook) and was_there and not self.judged[hook.id, subject]:
                self.faults.append(f"{hook.name} did not judge the {point} {subject}")

    def check_counts(self) -> None:
        """Check that a hook in code has counted what it has answered, and nothing else."""
        for agent in filter(is_code, self.state.agents.values()):
            saved = agent.saved_state or {"asked": 0}
            count = self.verdict_counts[agent.id]
            expected = {"asked": self.born_with.get(agent.id, 0) + count}
            if saved != expected:
                self.faults.append(f"{agent.name} ({agent.id}) counts {saved}, not {expected}")

    def check_comments(self) -> None:
        for (agent, comment), times in self.heard.items():
            if times > 1:
                self.faults.append(f"{agent} hears {comment} {times} times")

    def check_guards(self) -> None:
        """Check that who comes from the first agent, and may act, has its guard or a copy of it."""
        agents = self.state.agents
        guard = next(agent.id for agent in agents.values() if agent.name == GUARD)

        def is_copy(id_: AgentId) -> bool:
            return guard in (id_, agents[id_].spec.original)

        for agent in (agents[id_] for id_ in self.concerned):
            only_judges = agent.place == "hook" and not agent.spec.may_act
            if is_code(agent) or only_judges or not self.state.is_live(agent.id):
                continue
            if not any(map(is_copy, agent.hooks)):
                self.faults.append(f"{agent.name} ({agent.id}) is not guarded")


def is_code(agent: AgentState) -> bool:
    return agent.spec.kind == Counting._kind


def number(reference: str) -> int:
    return parse_id_number(MessageId(reference_message_id(reference)), "msg_") or 0


def judged_questions(session: Session) -> list[HookQuestion]:
    """Return the questions of hooks in code, as a view composes them from the verdicts."""
    links = SessionViewer(session.path).events
    messages = HookMessages(links)
    return [
        messages.find_question(event)
        for event in links
        if isinstance(event, ev.HookVerdict)
        and is_code(session.agents[event.agent_id or AgentId("")])
    ]


def check(stage: Stage) -> None:
    """Check a session, and close it: the laws of hooks, those of logs, and that it resumes."""
    assert Reading.of(stage.log).faults == [], stage.log.parent.name
    before = full_state(stage.session)
    stage.session.close()
    session = Session(stage.log, options=fast_options())
    assert full_state(session) == before
    session.close()
    check_log(stage.log, finished=False)


def check_cuts(folder: Path, seed: int, count: int | None) -> None:
    """Play a session, then go on after any line of its log; count: after so many (None: all)."""
    course = Course.of(seed)
    stage, begin = course.played(folder)
    check(stage)
    kinds = [row["event_type"] for row in select_lines(stage.log)]
    ends: Sequence[int] = range(begin, len(kinds))
    if count is not None:
        turns = [index for index in ends if kinds[index - 1] in TURNS]
        random = dice("cuts", seed)
        cut_points = random.sample(ends, count // 2) + random.sample(
            turns, min(count // 2, len(turns))
        )
        ends = sorted({*cut_points})
    for index in ends:
        later = course.cut(stage.log, index)
        before = full_state(later.session)
        later.session.close()
        later = course.load(later.log)
        assert full_state(later.session) == before, index
        earlier, count_before = judged_questions(later.session), len(JUDGED)
        course.go_on(later, index)
        assert judged_questions(later.session) == earlier + JUDGED[count_before:], index
        check(later)


@pytest.mark.req("S4-27")
@pytest.mark.parametrize("seed", range(16, 44, 3))
def test_hooks_of_hooks_judge_once_after_any_cut(tmp_path: Path, seed: int) -> None:
    check_cuts(tmp_path, seed, 4)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(16, 200))
def test_hooks_of_hooks_judge_once_in_many_sessions(tmp_path: Path, seed: int) -> None:
    check_cuts(tmp_path, seed, None)
