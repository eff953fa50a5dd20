"""The duty of a hook is in its context exactly as long as it is a hook that is asked."""

from pathlib import Path

import pytest

from harken import Agent, AgentRuntime, Conversation, FunctionModel, LocalWorld
from harken.agents.action_schemas import ACTIONS
from harken.agents.hooks.duty import format_duty
from harken.agents.runtime import ActionPolicy
from harken.agents.smart_agent import SmartAgent
from harken.agents.tree.hook_action import new_hook
from harken.agents.tree.moves import talk_with
from harken.llm.base import ModelRequest
from tests.agent_kit import (
    call,
    call_message,
    check_log,
    full_state,
    open_stage,
    request_texts,
    run,
)
from tests.unit.agents.smart_hooks import Cast, always, guard, guarded, sends, texts

RELIEF = "Nobody asks you for verdicts now; you answer the user."


def is_duty(text: str) -> bool:
    return text.startswith("You are a hook: ")


def context(agent: Agent) -> list[str]:
    return [str(message.get("content") or "") for message in agent.transcript]


@pytest.mark.req("S4-25")
def test_duty_is_an_entry_after_the_instructions(tmp_path: Path) -> None:
    cast = Cast(main=sends, guard=always("OK"))
    one = guarded(tmp_path, cast)
    hook = guard(one)
    one.ask("Send.")
    prompt, duty = one.select_lines(agent_id=hook.agent_id, role="system")
    assert prompt["content"] == "You watch."
    assert "purpose" not in prompt
    assert duty["purpose"] == "duty"
    assert duty["content"] == format_duty(["action"])
    assert one.select_lines(reason="duty changed") == []
    check_log(one.log)


@pytest.mark.req("S4-38", "S4-46")
def test_hook_that_takes_the_place_reads_no_duty_and_keeps_its_instructions(tmp_path: Path) -> None:
    seen: list[ModelRequest] = []

    def takes(request: ModelRequest) -> object:
        seen.append(request)
        return "Hello." if request.messages[-1].role == "tool" else call_message(call("meta", "m"))

    one = guarded(tmp_path, Cast(main=sends, guard=takes))
    guard(one, points=["input"])
    assert run(Conversation(one.root).say("Go.")) == "Hello."
    asked, answers = (request_texts(request) for request in seen)
    assert is_duty(asked[1])
    assert [text for text in answers if is_duty(text)] == []
    assert answers[0] == "You watch."
    assert answers[-1].endswith(RELIEF)
    check_log(one.log)


@pytest.mark.req("S4-39")
def test_agent_that_becomes_a_hook_by_endo_reads_a_duty_until_meta_takes_it_back(
    tmp_path: Path,
) -> None:
    make = call_message(call("task", "t", name="pupil", instructions="You ask."))
    give = call_message(call("endo", "e", subagent="pupil", prompt="Begin.", points=["input"]))
    back = call_message(call("meta", "m"))

    def main(request: ModelRequest) -> object:
        last = texts(request)[-1]
        if last.startswith("[input]"):
            return back if "Enough." in last else "OK"
        return {"Go.": make, "Created subagent: pupil": give}.get(last, "Here I am again.")

    cast = Cast(main=main, pupil=lambda _: "Why?")
    one = guarded(tmp_path, cast)
    talk = Conversation(one.root)
    assert run(talk.say("Go.")) == "Why?"
    assert run(talk.say("Well?")) == "Why?"
    duty = format_duty(["input"], "all")
    assert cast.read_by("main")[-1][:2] == ["You are main.", duty]
    assert context(one.root)[1] == duty
    assert run(talk.say("Enough.")) == "Here I am again."
    assert not any(map(is_duty, cast.read_by("main")[-1]))
    assert not any(map(is_duty, context(one.agent("pupil"))))
    assert cast.read_by("main")[-1][-1].endswith(RELIEF)
    before = full_state(one.session)
    assert full_state(one.resume().session) == before
    check_log(one.log)


@pytest.mark.req("S4-46")
def test_hook_that_the_user_talks_with_hears_that_it_is_none_now(tmp_path: Path) -> None:
    cast = Cast(main=sends, guard=lambda _: "Yes?")
    one = guarded(tmp_path, cast)
    hook = guard(one)
    talk_with(one.root, "guard", None)
    assert context(hook) == ["You watch.", RELIEF]
    assert run(Conversation(one.root).say("You?")) == "Yes?"
    assert cast.read_by("guard")[-1] == ["You watch.", RELIEF, "You?"]
    talk_with(hook, "main", None)
    assert context(hook)[1] == format_duty(["action"])
    assert not any(map(is_duty, context(one.root)))
    check_log(one.log)


def test_agent_that_only_waits_for_its_place_has_no_duty(tmp_path: Path) -> None:
    one = guarded(tmp_path, Cast(main=sends, kim=lambda _: "Hi."))
    run(one.root.task("kim", "You are Kim."))
    talk_with(one.root, "kim", None)
    assert one.root.state.place == "hook"
    assert context(one.root)[:1] == ["You are main."]
    assert not any(map(is_duty, context(one.root)))


def test_copy_of_a_hook_gets_a_duty_of_its_own(tmp_path: Path) -> None:
    one = guarded(tmp_path, Cast(main=sends, guard=always("OK")))
    hook = guard(one)
    child = run(one.root.task("kim", "You are Kim."))
    [copy] = child.hooks
    assert context(copy) == context(hook) == ["You watch.", format_duty(["action"])]


@pytest.mark.req("S4-48")
def test_restored_agent_has_each_of_its_guards_once_and_with_one_duty(tmp_path: Path) -> None:
    cast = Cast(main=sends, guard=always("OK"))
    world = LocalWorld(folder=tmp_path)
    runtime = AgentRuntime(model=cast.model(), world=world, policy=ActionPolicy(actions=ACTIONS))
    one = open_stage(tmp_path, cast.model(), runtime=runtime)
    root = one.root
    assert isinstance(root, SmartAgent)
    kim = run(root.task("kim", "You are Kim."))
    new_hook(root, "Be brief.", points=["response"]).install(kim, "brief")
    guard(one)
    assert [hook.name for hook in kim.hooks] == ["brief", "guard"]
    run(root.dump("kim.json", "kim"))
    restored = run(root.restore("kim.json", "eve"))
    assert sorted(hook.name for hook in restored.hooks) == ["brief", "guard"]
    for hook in restored.hooks:
        assert sum(map(is_duty, context(hook))) == 1
    check_log(one.log)


def test_model_that_is_no_hook_reads_no_duty(tmp_path: Path) -> None:
    one = guarded(tmp_path, Cast(main=sends))
    assert not any(map(is_duty, context(one.root)))
    assert isinstance(one.runtime.model, FunctionModel)
