"""The hook that lets an agent have one subagent at a time."""

from pathlib import Path

import pytest

from harken import Hook, HookQuestion, Ok
from harken.agents.agent_classes import register_agent_class
from harken.core.verdict import Verdict
from tests.agent_kit import ScriptedAnswer, call, call_message, check_log, run
from tests.unit.agents.built_in.built_in import denials, hooked, resumed

NAME = "single-minded"


def task(name: str, id_: str = "c1", **more: str) -> ScriptedAnswer:
    return call_message(call("task", id_, name=name, **more))


@pytest.mark.req("S4-34")
def test_a_second_subagent_is_denied_until_the_first_is_ended(tmp_path: Path) -> None:
    ends = call_message(call("terminate", "e", name="Ann"))
    lines = [task("Ann"), task("Bob", "c2"), ends, task("Bob", "c3"), "Done."]
    one = hooked(tmp_path, NAME, {"main": lines})
    one.ask("Go.")
    assert denials(one, NAME) == [
        "one subagent at a time: there is 'Ann'; discuss with it, or terminate it"
    ]
    assert one.result("c2")["is_error"]
    assert [*one.root.subagents] == ["Bob"]
    check_log(one.log)


@register_agent_class("test-slow")
class Slow(Hook):
    """Lets others run while it judges."""

    async def judge(self, question: HookQuestion) -> Verdict:
        import asyncio

        for _ in range(5):
            await asyncio.sleep(0)
        return Ok()


@pytest.mark.req("S4-34")
def test_two_calls_of_one_message_are_one_subagent(tmp_path: Path) -> None:
    both = call_message(*(call("task", f"c{n}", name=n, prompt="Go.") for n in ("Ann", "Bob")))
    one = hooked(tmp_path, NAME, {"main": [both, "Done."], "Ann": ["Hi."], "Bob": ["Ho."]})
    Slow(one.session, runtime=one.runtime).install(one.root)
    run(one.root.response("Go."))
    assert len(one.root.subagents) == 1
    assert denials(one, NAME) == ["one subagent at a time: one is being made by another call"]


def test_a_call_that_failed_holds_nobody_up(tmp_path: Path) -> None:
    lines = [task(" "), task("Ann", "c2"), "Done."]
    one = hooked(tmp_path, NAME, {"main": lines})
    one.ask("Go.")
    assert denials(one, NAME) == []
    assert [*one.root.subagents] == ["Ann"]


@pytest.mark.req("S4-27", "S4-29")
def test_it_holds_after_a_resume_and_for_each_subagent_apart(tmp_path: Path) -> None:
    parts: dict[str, list[ScriptedAnswer]] = {
        "main": [task("Ann", prompt="Go."), "Done.", task("Cid", "c2"), "Done."],
        "Ann": [task("Eve"), task("Fay", "c2"), "Done."],
    }
    one = hooked(tmp_path, NAME, parts)
    one.ask("Go.")
    assert [*one.root.subagents["Ann"].subagents] == ["Eve"]
    assert "'Eve'" in denials(one, NAME, "Ann")[0]
    one = resumed(one)
    one.ask("Go on.")
    assert "'Ann'" in denials(one, NAME)[0]
