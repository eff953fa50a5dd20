"""Hooks at their edges: states that fail, judges that are cancelled, comments after a cut."""

import asyncio
from pathlib import Path
from typing import Any, ClassVar

import pytest

from harken import (
    Budget,
    Comment,
    Deny,
    Hook,
    HookQuestion,
    Ok,
    Rewrite,
    Tool,
    register_agent_class,
    tool,
)
from harken.agents.open_calls import has_open_calls
from harken.core.event_types.spec import HookPoint
from harken.core.verdict import Verdict
from tests.agent_kit import call, call_message, check_log, open_stage, run, script_model
from tests.unit.agents.crash_kit import cut_after, resume
from tests.unit.agents.hook_kit import SENT, Judging, send, sending, verdicts, watch, words


@register_agent_class("test-once")
class Once(Hook):
    """Allows one action, after some thought."""

    points: ClassVar[frozenset[HookPoint]] = frozenset({"action"})

    def begin(self) -> None:
        self.seen = 0
        self.bad: Any = None

    async def judge(self, question: HookQuestion) -> Verdict:
        if self.seen:
            return Deny("only one")
        await asyncio.sleep(0.001)
        self.seen += 1
        return Ok()

    def dump_state(self) -> Any:
        if isinstance(self.bad, Exception):
            raise self.bad
        return self.bad


@tool(reads_only=True)
def look(text: str) -> str:
    """Look."""
    SENT.append(text)
    return "seen"


def test_calls_at_once_are_judged_one_after_the_other(tmp_path: Path) -> None:
    many = call_message(*(call("look", f"c{n}", text=str(n)) for n in range(4)))
    one = open_stage(tmp_path, script_model(main=[many, "Done."]), tools=[look])
    hook = Once(one.session, runtime=one.runtime).install(one.root, "once")
    assert one.ask("Look.") == "Done."
    assert SENT == ["0"]
    assert [(row["point"], row["verdict"]) for row in verdicts(one, hook)] == [
        ("action", "ok"),
        *[("action", "deny")] * 3,
    ]
    subjects = [row["subject"].rpartition(".")[2] for row in verdicts(one, hook)]
    assert subjects == ["c0", "c1", "c2", "c3"]


@pytest.mark.parametrize("bad", [RuntimeError("boom"), {"a": (1, 2)}, {1, 2}])
def test_a_state_that_cannot_be_saved_is_the_hooks_failure(tmp_path: Path, bad: Any) -> None:
    one = sending(tmp_path)
    hook = Once(one.session, runtime=one.runtime).install(one.root, "once")
    hook.bad = bad
    assert one.ask("Send.") == "Done."
    assert SENT == []
    assert [role for role, _ in words(one, hook)] == ["user", "system"]
    check_log(one.log)


def test_a_judge_that_is_cancelled_from_inside_has_failed(tmp_path: Path) -> None:
    async def cancelled(_: HookQuestion) -> Verdict:
        raise asyncio.CancelledError

    one = sending(tmp_path)
    watch(one, action=cancelled)
    assert one.ask("Send.") == "Done."
    assert SENT == []
    assert "CancelledError" in one.result()["content"]


@pytest.mark.parametrize("how", ["live", "resumed"])
def test_a_comment_is_heard_after_a_cut(tmp_path: Path, how: str) -> None:
    begun = asyncio.Event()

    async def cut() -> None:
        turn = asyncio.create_task(one.root.response("Wait."))
        await begun.wait()
        turn.cancel()
        await asyncio.gather(turn, return_exceptions=True)

    @tool
    async def wait() -> str:
        """Wait."""
        begun.set()
        await asyncio.sleep(30)
        return "never"

    one = open_stage(
        tmp_path, script_model(main=[call_message(call("wait")), "Done."]), tools=[wait]
    )
    watch(one, action=lambda _: Comment("careful"))
    run(cut())
    one = one.resume() if how == "resumed" else one
    assert one.ask() == "Done."
    assert one.user_messages("main") == ["Wait.", "[hook guard]: careful"]
    check_log(one.log)


def test_nobody_is_asked_twice_about_one_input(tmp_path: Path) -> None:
    one = open_stage(
        tmp_path, script_model(main=["Hi."]), tools=[send], budget=Budget(model_calls=0)
    )
    watch(one, input=lambda _: Comment("note"))
    for text in ("hello", None, None):
        assert one.ask(text).startswith("[stopped]")
    assert one.user_messages("main") == ["hello", "[hook guard]: note"]


@tool(idempotent=True)
def search(text: str) -> str:
    """Search: it may be run again."""
    return f"found {text}"


@pytest.mark.parametrize("used", [send, search])
def test_hooks_judge_each_result_once_wherever_a_crash_cuts(tmp_path: Path, used: Tool) -> None:
    """But not what stands in the place of one where a call was cut off: no tool said that."""
    act = call_message(call(used.name, "c1", text="a"), call(used.name, "c2", text="b"))
    one = open_stage(tmp_path, script_model(main=[act, "Done."]), tools=[used])
    watch(one)
    watch(one, "second")
    one.ask("Go.")
    one.session.close()
    [acted, *_] = [at for at, row in enumerate(one.select_lines()) if "tool_calls" in row]
    for kept in range(acted + 1, len(one.select_lines()) + 1):
        later = resume(cut_after(one.log, kept), one.runtime.model, used)
        if has_open_calls(later.root):
            later.ask()
        came = [
            row["message_id"] for row in later.select_lines(role="tool") if "is_error" not in row
        ]
        for name in ("guard", "second"):
            judged = [row for row in verdicts(later, later.agent(name)) if row["point"] == "result"]
            assert [row["subject"] for row in judged] == came
        later.session.close()
        check_log(later.log)


@pytest.mark.req("S0-20", "S4-24")
def test_nothing_is_judged_twice_wherever_a_crash_cuts(tmp_path: Path) -> None:
    """Also what is done again, as it does no harm, and an answer that is asked for again."""
    act = call_message(call("search", "c1", text="a"), call("search", "c2", text="never"))
    one = open_stage(tmp_path, script_model(main=[act, "Secret.", "Done."]), tools=[search])
    judges: Any = {
        "action": lambda q: Deny("no") if "never" in q.text else Rewrite(q.text.replace("a", "b")),
        "response": lambda q: Deny("no") if "Secret" in q.text else Rewrite("Fine."),
        "input": lambda _: Comment("Mind."),
    }
    for name in ("guard", "second"):
        watch(one, name, **judges)
    begun = len(one.select_lines())
    assert one.ask("Go.") == "Fine."
    one.session.close()
    for kept in range(begun + 1, len(one.select_lines()) + 1):
        later = resume(cut_after(one.log, kept), one.runtime.model, search)
        for name in ("guard", "second"):
            hook = later.agent(name)
            assert isinstance(hook, Judging)
            hook.judges |= judges
        for _ in range(2):
            assert later.ask() == "Fine.", kept
        for name in ("guard", "second"):
            judged = [row["subject"] for row in verdicts(later, later.agent(name))]
            assert judged, kept
            assert len(judged) == len(set(judged)), kept
        assert len(later.user_messages("main")) == 4  # what it was told, two comments, one denial
        later.session.close()
        check_log(later.log)
