"""The tool that asks the user, without a log. tests/unit/agents/test_asking tests the log."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from harken import ToolContext
from harken.core.messages import Content
from harken.world.ask_user import ask_user
from harken.world.result import InvalidArguments, ToolError
from harken.world.user import User, UserQuestion, UserUnavailable
from tests.agent_kit import run
from tests.unit.world.permissions.user_kit import ScriptedUser


def ask(user: User | None, question: str = "Tea?", options: list[str] | None = None) -> Content:
    caller = ToolContext(SimpleNamespace(name="main"), "msg_001", user)
    return run(ask_user.run({"question": question, "options": options}, caller))


def test_result_is_the_answer() -> None:
    person = ScriptedUser(["Green.", ""])
    assert ask(person, options=["green", "black"]) == "Green."
    assert ask(person) == ""
    assert person.questions == [
        UserQuestion(agent="main", question="Tea?", options=("green", "black")),
        UserQuestion(agent="main", question="Tea?"),
    ]


@pytest.mark.parametrize("user", [None, ScriptedUser([UserUnavailable("the door is locked")])])
@pytest.mark.req("S4-03")
def test_agent_is_told_to_continue_without_a_user(user: ScriptedUser | None) -> None:
    with pytest.raises(ToolError, match="no answer: .* Continue without one"):
        ask(user)


def test_question_without_text_is_rejected() -> None:
    with pytest.raises(InvalidArguments, match="no text"):
        ask(ScriptedUser(), " ")


def test_question_blocks_no_other_tool_and_is_repeatable_after_a_resume() -> None:
    assert (ask_user.reads_only, ask_user.idempotent) == (True, True)
    assert ask_user.parameters["properties"].keys() == {"question", "options"}
