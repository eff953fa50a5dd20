"""Asking the user: the tool itself, without a log. What is logged: tests/unit/agents/test_asking."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from harken import ToolContext
from harken.core.messages import Content
from harken.world.ask_user import ask_user
from harken.world.result import InvalidArguments, ToolError
from harken.world.user import User, UserQuestion, UserUnavailable
from tests.agent_kit import run
from tests.unit.world.permissions.people import Person


def asked(user: User | None, question: str = "Tea?", options: list[str] | None = None) -> Content:
    caller = ToolContext(SimpleNamespace(name="main"), "msg_001", user)
    return run(ask_user.run({"question": question, "options": options}, caller))


def test_the_result_is_the_answer() -> None:
    person = Person(["Green.", ""])
    assert asked(person, options=["green", "black"]) == "Green."
    assert asked(person) == ""
    assert person.asked == [
        UserQuestion(agent="main", question="Tea?", options=("green", "black")),
        UserQuestion(agent="main", question="Tea?"),
    ]


@pytest.mark.parametrize("user", [None, Person([UserUnavailable("the door is locked")])])
@pytest.mark.req("S4-03")
def test_where_nobody_answers_the_agent_is_told_to_go_on(user: Person | None) -> None:
    with pytest.raises(ToolError, match="no answer: .* Continue without one"):
        asked(user)


def test_a_question_without_a_text_is_none() -> None:
    with pytest.raises(InvalidArguments, match="no text"):
        asked(Person(), " ")


def test_it_holds_nobody_up_and_may_be_asked_again_after_a_resume() -> None:
    assert (ask_user.reads_only, ask_user.idempotent) == (True, True)
    assert ask_user.parameters["properties"].keys() == {"question", "options"}
