"""What the user does with a command: logged as what the user said, and done at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harken import Deny, ModelError
from harken.agents.action_schemas import ACTIONS
from harken.agents.open_calls import has_open_calls
from harken.agents.tree.registry import RUN
from harken.agents.tree.user_command import UserAction, remove_hook, run_user_command
from harken.core.ids import USER
from harken.errors import AgentBusy
from tests.agent_kit import (
    ScriptedAnswer,
    Stage,
    call,
    call_message,
    check_log,
    open_stage,
    request_texts,
    run,
    script_model,
)
from tests.unit.agents.hook_kit import watch, words


def doing(action: str, **arguments: Any) -> UserAction:
    """Return what runs a structural action."""
    return lambda agent, command: RUN[action](agent, command, checked(action, arguments))


def checked(action: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    return ACTIONS[action].check(arguments)


def staged(folder: Path, *main: ScriptedAnswer, **parts: Any) -> Stage:
    return open_stage(folder, script_model(main=[*main], **parts))


def do(one: Stage, text: str, action: str, **arguments: Any) -> str:
    return str(run(run_user_command(one.root, text, doing(action, **arguments))).content)


@pytest.mark.req("S4-44")
def test_a_command_is_what_the_user_said_and_the_cause_of_what_comes_of_it(tmp_path: Path) -> None:
    one = staged(tmp_path, "Ann is there.", Ann=["Tea."])
    assert do(one, "/task Ann", "task", name="Ann", instructions="You are Ann.") == (
        "Created subagent: Ann"
    )
    [said] = one.select_lines(agent_id=USER, role="assistant")
    assert said["content"] == "/task Ann"
    assert "cause" not in said
    [birth] = one.select_lines(event_type="agent_created", name="Ann")
    assert birth["cause"] == [one.root.state.birth, said["message_id"]]
    [came] = one.select_lines(agent_id=USER, role="user")
    assert (came["content"], came["cause"]) == ("Created subagent: Ann", said["message_id"])
    assert list(one.root.subagents) == ["Ann"]
    assert not has_open_calls(one.root)
    check_log(one.log)


def test_the_agent_is_told_when_it_is_asked_next(tmp_path: Path) -> None:
    one = staged(tmp_path, lambda request: request_texts(request)[-2], Ann=["Tea."])
    assert do(one, "/task Ann", "task", name="Ann", prompt="Tea or coffee?") == "Tea."
    assert one.ask("Well?") == "[the user did this: /task Ann] Tea."
    [heard] = one.select_lines(agent_id=USER, role="user")
    [tea] = one.select_lines(role="assistant", content="Tea.")
    assert heard["substance"] == tea["message_id"]
    assert one.resume().session.state.describe()
    check_log(one.log)


@pytest.mark.req("S4-44")
def test_hooks_are_not_asked_about_what_the_user_does(tmp_path: Path) -> None:
    one = staged(tmp_path, Ann=["Tea."])
    hook = watch(one, action=lambda _: Deny("no"))
    do(one, "/task Ann", "task", name="Ann")
    assert "Ann" in one.root.subagents
    assert words(one, hook) == []


def test_what_goes_wrong_is_said_to_the_user_and_not_to_the_agent(tmp_path: Path) -> None:
    one = staged(tmp_path)
    assert do(one, "/terminate Bob", "terminate", name="Bob") == (
        "Error: subagent 'Bob' not found; no subagents exist"
    )
    [came] = one.select_lines(agent_id=USER, role="user")
    assert came["is_error"]
    assert one.user_messages("main") == []


def test_an_agent_in_the_middle_of_a_turn_is_left_alone(tmp_path: Path) -> None:
    async def busy(_: object) -> str:
        with pytest.raises(AgentBusy):
            await run_user_command(one.root, "/task Ann", doing("task", name="Ann"))
        return "Done."

    one = staged(tmp_path, busy)
    assert one.ask("Go.") == "Done."
    assert one.select_lines(agent_id=USER) == []


def test_an_agent_made_of_code_gets_subagents_too(tmp_path: Path) -> None:
    one = staged(tmp_path)
    hook = watch(one)
    run(run_user_command(hook, "/task Ann", doing("task", name="Ann")))
    assert list(hook.subagents) == ["Ann"]
    check_log(one.log)


def test_what_fails_in_between_is_told_and_can_go_on(tmp_path: Path) -> None:
    one = staged(tmp_path, "I see.", Ann=[ModelError("no tea")])
    with pytest.raises(ModelError):
        do(one, "/task Ann", "task", name="Ann", prompt="Tea?")
    assert one.user_messages("main") == ["[the user did this: /task Ann] It was broken off: no tea"]
    assert one.ask("Well?") == "I see."
    check_log(one.log)


def test_calls_that_were_cut_off_get_their_results_first(tmp_path: Path) -> None:
    one = staged(
        tmp_path, call_message(call("task", name="Bob", prompt="?")), Bob=[ModelError("no")]
    )
    with pytest.raises(ModelError):
        one.ask("Make Bob.")
    do(one, "/task Ann", "task", name="Ann")
    check_log(one.log)


@pytest.mark.req("S4-44")
def test_the_user_can_take_a_hook_away(tmp_path: Path) -> None:
    one = staged(tmp_path, "Hello.")
    hook = watch(one, response=lambda _: Deny("never"))

    def removing(name: str) -> UserAction:
        return lambda agent, command: remove_hook(agent, command, name)

    none = run(run_user_command(one.root, "/hooks remove nobody", removing("nobody")))
    assert none.content == "Error: main has no hook 'nobody'; existing hooks: guard"
    done = run(run_user_command(one.root, "/hooks remove guard", removing("guard")))
    assert done.content == "Removed hook: guard"
    [moved] = one.select_lines(event_type="agent_moved")
    said = one.select_lines(agent_id=USER, role="assistant")[-1]
    assert (moved["agent_id"], moved["place"]) == (hook.agent_id, "gone")
    assert moved["cause"] == said["message_id"]
    assert one.ask("Hi.") == "Hello."


def test_the_user_lets_a_subagent_take_over_and_both_know(tmp_path: Path) -> None:
    one = staged(tmp_path, "Fine.", Ann=["Ann speaking."])
    do(one, "/task Ann", "task", name="Ann", instructions="You are Ann.")
    said = do(one, "/endo Ann", "endo", subagent="Ann", prompt="Answer for me.")
    assert said == "Ann has taken your place; you watch it as its hook."
    assert one.user_messages("main")[-1] == f"[the user did this: /endo Ann] {said}"
    ann = one.agent("Ann")
    assert has_open_calls(ann)
    assert ann.state.place == "primary"
    assert [hook.name for hook in ann.hooks] == ["main"]
    again = one.resume()
    assert has_open_calls(again.agent("Ann"))
    check_log(one.log)
