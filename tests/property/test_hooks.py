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
from harken.agents.hooks.smart_hook import NOTE
from harken.agents.runtime import ActionPolicy, AgentLibrary
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
from tests.unit.agents.cutting import cut_after
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
        said = [one for one in request.messages if one.role == "assistant"]
        tools = turns[len(said)] if len(said) < len(turns) else []
        made = [call(name, f"c{at}_{len(said)}", text="x") for at, name in enumerate(tools)]
        return call_message(*made) if made else "Done."

    def notes(request: ModelRequest) -> Any:
        about = sum(text_of(one.content).startswith(NOTE) for one in request.messages)
        return always(call_message(call("keep_note", f"n{about}", text=f"one of {about}")), "OK")(
            request
        )

    return Cast(main=acts, guard=notes)


def begun(folder: Path, cast: Cast) -> Stage:
    world = LocalWorld([send, search])
    runtime = AgentRuntime(
        model=cast.model(),
        world=world,
        policy=ActionPolicy(actions=ACTIONS),
        library=AgentLibrary(kinds={Counting.kind: Counting}),
    )
    one = open_stage(folder, cast.model(), runtime=runtime)
    guard(one, points=("input", "result"), tools=["keep_note"], keeps="notes")
    Counting(one.session, runtime=runtime).install(one.root, "counting")
    return one


def judged(one: Stage, hook: str) -> list[LogLine]:
    """Return the questions that a hook has answered, in order."""
    own = one.select_lines(agent_id=one.id_of(hook), event_type="transcript_entry")
    found: list[LogLine] = []
    asked: LogLine | None = None
    for row in own:
        if row["role"] == "user" and row.get("content", "").startswith(("[in", "[ac", "[re")):
            asked = row
        elif row["role"] == "assistant" and not row.get("tool_calls") and asked is not None:
            found.append(asked)
            asked = None
    return found


def check_hooks(one: Stage) -> None:
    """Check what holds for hooks of a session that nothing is open in."""
    heard = [
        row for row in one.select_lines(role="user", agent_id="agent_001") if "cause" not in row
    ]
    results = [
        row for row in one.select_lines(role="tool", agent_id="agent_001") if "is_error" not in row
    ]
    due = sorted(row["message_id"] for row in [*heard, *results])
    for hook in ("guard", "counting"):
        subjects = [
            row["cause"]
            for row in judged(one, hook)
            if row["content"].startswith(("[input]", "[result]"))
        ]
        assert sorted(subjects) == due, hook
    state = one.agent("counting").state
    assert state.saved_state == {"asked": len(judged(one, "counting"))}
    guard_ = one.agent("guard")
    kept = [row for row in one.select_lines(role="tool", name="keep_note") if "is_error" not in row]
    context = [text_of(m.content) for m in one.session.context(guard_.agent_id)]
    assert len(context) == 1 + min(len(kept), 20)


turns = st.lists(st.lists(st.sampled_from(["send", "search"]), max_size=3), min_size=2, max_size=5)


def check_cut(chosen: list[Turn], at: int) -> None:
    """Play a session, cut its log anywhere, go on: all hooks are as if nothing had happened."""
    with tempfile.TemporaryDirectory() as folder:
        one = begun(Path(folder), model(chosen))
        for text in ("Go.", "On."):
            one.ask(text)
        check_hooks(one)
        rows = one.select_lines()
        first = next(number for number, row in enumerate(rows) if row.get("content") == "Go.")
        kept = first + 1 + at % (len(rows) - first)
        one.session.close()
        later = again(cut_after(one.log, kept), one)
        before = full_state(later.session)
        later = again(later.log, later)
        assert full_state(later.session) == before
        if later.root.has_open_calls:
            later.ask()
        later.ask("More.")
        check_hooks(later)
        later.session.close()
        check_log(later.log)


def again(log: Path, one: Stage) -> Stage:
    """Return a stage that goes on with a log."""
    one.session.close()
    root, session = load_session(log, runtime=one.runtime, options=fast_options())
    return Stage(root, session, one.runtime)


@pytest.mark.req("S0-20", "S4-27")
@settings(max_examples=15, deadline=None)
@given(turns, st.integers(0, 10_000))
def test_hooks_are_the_same_after_a_resume(chosen: list[Turn], at: int) -> None:
    check_cut(chosen, at)


@pytest.mark.full
@settings(max_examples=300, deadline=None)
@given(turns, st.integers(0, 10_000))
def test_hooks_are_the_same_after_many_resumes(chosen: list[Turn], at: int) -> None:
    check_cut(chosen, at)
