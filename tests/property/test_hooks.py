"""Hooks after a resume, wherever a log was cut: what they judged, what they keep, what they count.

A smart hook that keeps notes and one in code with a state watch an agent that does random things.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harken import (
    AgentRuntime,
    Comment,
    Hook,
    HookQuestion,
    LocalWorld,
    Ok,
    load_session,
    register_agent_class,
    tool,
)
from harken.agents.action_schemas import ACTIONS
from harken.agents.open_calls import has_open_calls
from harken.agents.runtime import ActionPolicy, AgentLibrary
from harken.agents.texts import NOTE
from harken.core.event_types.spec import AgentSpec
from harken.core.messages import Message, text_of
from harken.core.verdict import Verdict
from harken.llm.base import ModelRequest
from tests.agent_kit import (
    LogLine,
    Stage,
    call,
    call_message,
    check_log,
    fast_options,
    full_state,
    open_stage,
)
from tests.unit.agents.crash_kit import cut_after
from tests.unit.agents.smart_hooks import Cast, always, guard

Turn = list[str]
"""The tools that are called in one message."""


@tool
def send(text: str) -> str:
    """Send."""
    return f"sent {text}"


@tool(idempotent=True)
def search(text: str) -> str:
    """Search."""
    return f"found {text}"


@register_agent_class("test-counting-hook")
class Counting(Hook):
    """Counts what it was asked, and says so now and then."""

    def begin(self) -> None:
        self.asked = 0

    def judge(self, question: HookQuestion) -> Verdict:
        self.asked += 1
        return Comment(f"number {self.asked}") if self.asked % 3 == 0 else Ok()

    def dump_state(self) -> Any:
        return {"asked": self.asked}

    def load_saved_state(self, saved: Any) -> None:
        self.asked = saved["asked"]


def model(turns: list[Turn]) -> Cast:
    """Return a model whose `main` does one thing after the other, and whose hook notes all."""

    def acts(request: ModelRequest) -> Message | str:
        answers = [message for message in request.messages if message.role == "assistant"]
        tools = turns[len(answers)] if len(answers) < len(turns) else []
        tool_calls = [
            call(name, f"c{index}_{len(answers)}", text="x") for index, name in enumerate(tools)
        ]
        return call_message(*tool_calls) if tool_calls else "Done."

    def notes(request: ModelRequest) -> Any:
        about = sum(text_of(message.content).startswith(NOTE) for message in request.messages)
        return always(call_message(call("keep_note", f"n{about}", text=f"one of {about}")), "OK")(
            request
        )

    return Cast(main=acts, guard=notes)


def open_hooked_stage(folder: Path, cast: Cast) -> Stage:
    world = LocalWorld([send, search])
    runtime = AgentRuntime(
        model=cast.model(),
        world=world,
        policy=ActionPolicy(actions=ACTIONS),
        library=AgentLibrary(kinds={Counting._kind: Counting}),
    )
    stage = open_stage(folder, cast.model(), runtime=runtime)
    guard(stage, points=("input", "result"), tools=["keep_note"], spec=AgentSpec(keeps="notes"))
    Counting(stage.session, runtime=runtime).install(stage.root, "counting")
    return stage


def verdicts(stage: Stage, hook: str) -> list[LogLine]:
    """Return the verdicts of a hook, in order."""
    return stage.select_lines(event_type="hook_verdict", agent_id=stage.id_of(hook))


def check_hooks(stage: Stage) -> None:
    """Check what holds for hooks of a session that nothing is open in."""
    messages = [
        row for row in stage.select_lines(role="user", agent_id="agent_001") if "cause" not in row
    ]
    results = [
        row
        for row in stage.select_lines(role="tool", agent_id="agent_001")
        if "is_error" not in row
    ]
    due = sorted(row["message_id"] for row in [*messages, *results])
    for hook in ("guard", "counting"):
        subjects = [
            row["subject"] for row in verdicts(stage, hook) if row["point"] in ("input", "result")
        ]
        assert sorted(subjects) == due, hook
    state = stage.agent("counting").state
    assert state.saved_state == {"asked": len(verdicts(stage, "counting"))}
    guard_ = stage.agent("guard")
    notes = [
        row for row in stage.select_lines(role="tool", name="keep_note") if "is_error" not in row
    ]
    context = [text_of(m.content) for m in stage.session.context(guard_.agent_id)]
    assert len(context) == 2 + min(len(notes), 20)  # instructions, duty, notes


turns = st.lists(st.lists(st.sampled_from(["send", "search"]), max_size=3), min_size=2, max_size=5)


def check_cut(turns: list[Turn], index: int) -> None:
    """Play a session, cut its log anywhere, go on: all hooks are as if nothing had happened."""
    with tempfile.TemporaryDirectory() as folder:
        stage = open_hooked_stage(Path(folder), model(turns))
        for text in ("Go.", "On."):
            stage.ask(text)
        check_hooks(stage)
        rows = stage.select_lines()
        first = next(number for number, row in enumerate(rows) if row.get("content") == "Go.")
        line_count = first + 1 + index % (len(rows) - first)
        stage.session.close()
        later = resume_stage(cut_after(stage.log, line_count), stage)
        before = full_state(later.session)
        later = resume_stage(later.log, later)
        assert full_state(later.session) == before
        if has_open_calls(later.root):
            later.ask()
        later.ask("More.")
        check_hooks(later)
        later.session.close()
        check_log(later.log)


def resume_stage(log: Path, stage: Stage) -> Stage:
    """Return a stage that goes on with a log."""
    stage.session.close()
    root, session = load_session(log, runtime=stage.runtime, options=fast_options())
    return Stage(root, session, stage.runtime)


@pytest.mark.req("S0-20", "S4-27")
@settings(max_examples=15, deadline=None)
@given(turns, st.integers(0, 10_000))
def test_hooks_are_equal_after_a_resume(turns: list[Turn], index: int) -> None:
    check_cut(turns, index)


@pytest.mark.full
@settings(max_examples=300, deadline=None)
@given(turns, st.integers(0, 10_000))
def test_hooks_are_equal_after_many_resumes(turns: list[Turn], index: int) -> None:
    check_cut(turns, index)
