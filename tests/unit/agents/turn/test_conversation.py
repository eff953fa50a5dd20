"""What the user talks with: whoever is primary, also where that changes in the middle of a turn."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken import ModelError, Tool, ToolContext, tool
from harken.agents.open_calls import has_open_calls
from harken.agents.tree.moves import endo
from harken.agents.turn.conversation import Conversation
from tests.agent_kit import (
    ScriptedAnswer,
    Stage,
    call,
    call_message,
    check_log,
    open_stage,
    run,
    script_model,
)


@tool
async def hand_over(caller: ToolContext, name: str, *, tell: bool = True) -> str:
    """Let a subagent take the place of the caller, which stays as a silent hook."""
    agent = caller.agent
    other = agent.subagents[name]
    if tell:
        other.harken("Go on.")
    endo(agent, other, caller.call, points=())
    return f"{name} answers from now on"


def staged(folder: Path, *deputy: ScriptedAnswer, tools: tuple[Tool, ...] = (hand_over,)) -> Stage:
    main: list[ScriptedAnswer] = [
        call_message(call("task", name="Deputy")),
        call_message(call("hand_over", "c2", name="Deputy")),
        "I have handed over.",
    ]
    return open_stage(folder, script_model(main=main, Deputy=deputy), tools=tools)


def test_the_user_gets_the_answer_of_the_agent_that_took_over(tmp_path: Path) -> None:
    one = staged(tmp_path, "Deputy speaking.", "Still me.")
    talk = Conversation(one.root)
    assert run(talk.say("Let your deputy answer.")) == "Deputy speaking."
    assert (talk.speaker.name, talk.primary.name) == ("Deputy", "Deputy")
    assert run(talk.say("Who is there?")) == "Still me."
    check_log(one.log)


def test_who_took_over_and_owes_nothing_says_nothing(tmp_path: Path) -> None:
    main: list[ScriptedAnswer] = [
        call_message(call("task", name="Deputy")),
        call_message(call("hand_over", "c2", name="Deputy", tell=False)),
    ]
    one = open_stage(tmp_path, script_model(main=main, Deputy=[]), tools=[hand_over])
    talk = Conversation(one.root)
    assert run(talk.say("Let your deputy answer.")) == "[moved] Deputy answers now"
    assert (talk.speaker.name, talk.primary.name) == ("main", "Deputy")


def test_what_is_owed_is_still_owed_after_a_failure_and_a_resume(tmp_path: Path) -> None:
    one = staged(tmp_path, ModelError("overloaded"))
    with pytest.raises(ModelError):
        run(Conversation(one.root).say("Let your deputy answer."))
    again = one.resume(script_model(main=[], Deputy=["Deputy speaking."]))
    talk = Conversation(again.root)
    assert has_open_calls(talk.primary)
    assert run(talk.say()) == "Deputy speaking."
    check_log(again.log)
