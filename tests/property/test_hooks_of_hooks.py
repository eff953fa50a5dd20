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

from harken import SessionViewer
from harken.core import events as ev
from harken.core.ids import AgentId, MessageId, parse_id_number, reference_message_id
from harken.core.messages import text_of
from harken.core.verdict import HOOK_FAILED_PREFIX, parse_verdict_entry
from harken.session.fold import fold
from harken.session.session import Session
from harken.session.state import AgentState, SessionState
from tests.agent_kit import Stage, check_log, fast_options, full_state, select_lines
from tests.property.hooked_sessions import GUARD, Counting, Course
from tests.property.hooked_voices import QUESTION, dice

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
    questions: dict[str, str] = field(default_factory=dict)
    """The id of a question -> what it is about."""
    asked: dict[AgentId, str] = field(default_factory=dict)
    """What a hook was asked about last."""
    refused: dict[tuple[str, AgentId], str] = field(default_factory=dict)
    """What a hook denied last, or failed at -> its words."""
    objected: set[str] = field(default_factory=set)
    """What any hook denied, rewrote or failed at."""
    done: set[ev.Cause] = field(default_factory=set)
    """The questions that a hook in code has answered."""
    answered: Counter[tuple[AgentId, str]] = field(default_factory=Counter)
    """How often a hook in code has answered about something."""
    said: Counter[AgentId] = field(default_factory=Counter)
    """How much a hook in code has said."""
    born_with: dict[AgentId, int] = field(default_factory=dict)
    """What a copy had counted before."""
    heard: Counter[tuple[AgentId, str]] = field(default_factory=Counter)
    """How often an agent heard one comment."""
    words: dict[str, str] = field(default_factory=dict)
    """The event of a verdict -> the hook's message with it."""
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
            case ev.AgentStateSaved() if event.agent_id and event.agent_id not in self.asked:
                self.born_with.setdefault(event.agent_id, event.state["asked"])
            case ev.HookVerdict():
                self.words[event.message_id] = event.said or event.message_id
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
        text, cause = text_of(entry.content), entry.cause
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
        elif entry.role == "user" and isinstance(cause, str) and QUESTION.match(text):
            self._is_asked(entry, cause, agent)
        elif entry.role == "user" and isinstance(cause, str) and text.startswith("[hook "):
            self.heard[agent.id, cause] += 1
            self._counts(self.words.get(cause, cause))
        elif isinstance(cause, str) and cause in self.questions:
            self._judges(entry, agent, self.questions[cause])
        elif entry.is_utterance and agent.id in self.asked:
            self._judges(entry, agent, self.asked[agent.id])

    def _is_asked(self, question: ev.TranscriptEntry, subject: str, hook: AgentState) -> None:
        self.questions[question.message_id] = self.asked[hook.id] = subject
        about = self.entries[reference_message_id(subject)]
        if about.role == "tool" and MADE_UP.match(text_of(about.content)):
            self.faults.append(f"{hook.name} judges {subject}, which no tool said")
        if hook.place == "gone":
            self.faults.append(f"{hook.name} is asked about {subject}, though it has left")

    def _judges(self, entry: ev.TranscriptEntry, hook: AgentState, subject: str) -> None:
        """Note what a hook says, or that it failed; the last of it is its verdict."""
        has_failed = text_of(entry.content).startswith(HOOK_FAILED_PREFIX)
        verdict = parse_verdict_entry(entry)
        self.refused.pop((subject, hook.id), None)
        if has_failed or (verdict is not None and verdict.word == "DENY"):
            self.refused[subject, hook.id] = entry.message_id
        if verdict is None or verdict.word in ("DENY", "REWRITE"):
            self.objected.add(subject)
        if not is_code(hook):
            return
        if not has_failed and self.answered[hook.id, subject]:
            self.faults.append(f"{hook.name} is asked twice about {subject}")
        self.answered[hook.id, subject] += 1
        self.said[hook.id] += 1
        self.done.add(entry.cause)

    def _refusals(self, subject: str) -> list[str]:
        """Return the words that deny something, and that no hook has touched."""
        words = [refusal for (about, _), refusal in self.refused.items() if about == subject]
        return [word for word in words if word not in self.objected]

    def _counts(self, words: str) -> None:
        """Look whether what a hook said came through hooks of its own before others heard it."""
        verdict = self.entries[words]
        hook = self.state.agents[verdict.agent_id or AgentId("")]
        if is_code(hook) or not verdict.is_utterance:
            return  # that it failed nobody judges
        if self._refusals(words):
            self.faults.append(f"{words} of {hook.name} counts, which is denied")
        self._judged(hook, words, "response")

    def _goes_on(self, agent: AgentState) -> None:
        """Look whether the user has heard, before the next word, what hooks had not seen."""
        answer = self.last.get(agent.id)
        if answer is not None and answer not in {about for about, _ in self.refused}:
            self._judged(agent, answer, "response")

    def _gets(self, result: ev.TranscriptEntry, agent: AgentState) -> None:
        """Look whether an action ran that hooks did not see, or did not want."""
        action = self.calls[agent.id, result.tool_call_id]
        text = text_of(result.content)
        if MADE_UP.match(text) or text.startswith(BLOCKED):
            return
        if self._refusals(action):
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
            if is_code(hook) and was_there and not self.answered[hook.id, subject]:
                self.faults.append(f"{hook.name} did not judge the {point} {subject}")

    def check_counts(self) -> None:
        """Check that a hook in code has counted what it has answered, and nothing else."""
        for agent in filter(is_code, self.state.agents.values()):
            saved = agent.saved_state or {"asked": 0}
            expected = {"asked": self.born_with.get(agent.id, 0) + self.said[agent.id]}
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
        course.go_on(later, index)
        check(later)


@pytest.mark.req("S4-27")
@pytest.mark.parametrize("seed", range(16, 44))
def test_hooks_of_hooks_judge_once_after_any_cut(tmp_path: Path, seed: int) -> None:
    check_cuts(tmp_path, seed, 10)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(100, 200))
def test_hooks_of_hooks_judge_once_in_many_sessions(tmp_path: Path, seed: int) -> None:
    check_cuts(tmp_path, seed, None)
