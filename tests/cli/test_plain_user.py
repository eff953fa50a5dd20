"""A user who answers in plain lines."""

from __future__ import annotations

import asyncio

import pytest

from harken.chat.plain_chat import PlainUser
from harken.world.user import ApprovalDecision, ApprovalRequest, UserQuestion, UserUnavailable

WANTED = ApprovalRequest(
    agent="Ann", tool="bash", subject="ls", preview="ls -l", rules=("bash(ls)",)
)


class Typing:
    """Somebody who types these lines."""

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)
        self.shown: list[str] = []
        self.user = PlainUser(self.read, self.shown.append)

    def read(self, prompt: str) -> str | None:
        self.shown.append(prompt)
        return self.lines.pop(0) if self.lines else None


@pytest.mark.parametrize(
    ("typed", "leave"),
    [
        ("y", ApprovalDecision(allowed=True)),
        (" Yes ", ApprovalDecision(allowed=True)),
        ("no", ApprovalDecision(allowed=False)),
        ("1", ApprovalDecision(allowed=True, rule="bash(ls)")),
        ("2", ApprovalDecision(allowed=False, reason="2")),
        ("yes, but with -l", ApprovalDecision(allowed=False, reason="yes, but with -l")),
    ],
)
def test_whatever_is_neither_a_yes_nor_a_rule_is_a_no(typed: str, leave: ApprovalDecision) -> None:
    somebody = Typing("", typed)
    assert asyncio.run(somebody.user.approve(WANTED)) == leave
    assert somebody.shown[:2] == ["Ann requests bash:\nls -l", "  1 always, for bash(ls)"]


def test_a_question_is_answered_by_a_number_or_in_words() -> None:
    asked = UserQuestion(agent="Ann", question="Which?", options=("green", "black"))
    somebody = Typing("2", "both")
    assert asyncio.run(somebody.user.ask(asked)) == "black"
    assert asyncio.run(somebody.user.ask(asked)) == "both"


def test_at_the_end_of_the_input_nobody_is_there() -> None:
    with pytest.raises(UserUnavailable):
        asyncio.run(Typing().user.approve(WANTED))
    with pytest.raises(UserUnavailable):
        asyncio.run(Typing("").user.ask(UserQuestion(agent="Ann", question="Which?")))
