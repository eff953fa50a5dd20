"""Questions: what keys and typed lines answer, one question after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from harken.chat.screen.key_actions import KeyGuard
from harken.chat.screen.prompts import ScreenPrompts, ask_lines, choices
from harken.terminal.styled_text import Line
from harken.world.user import ApprovalDecision, ApprovalRequest, UserQuestion

T = TypeVar("T")
RULES = ("bash(ls)", "bash(*)")


def wanted(**changed: Any) -> ApprovalRequest:
    given = {"agent": "Ann", "tool": "bash", "subject": "ls", "preview": "ls", "rules": RULES}
    return ApprovalRequest(**{**given, **changed})


async def asking(
    questions: ScreenPrompts, *coroutines: Coroutine[Any, Any, T]
) -> list[asyncio.Task[T]]:
    tasks = [asyncio.create_task(one) for one in coroutines]
    await asyncio.sleep(0)
    return tasks


def leave_after(
    *keys: str, text: str = "", wanted_: ApprovalRequest | None = None
) -> ApprovalDecision | None:
    """Return what came of pressing keys, and then of typing a line."""

    async def play() -> ApprovalDecision | None:
        questions = ScreenPrompts()
        [task] = await asking(questions, questions.approve(wanted_ or wanted()))
        question = questions.current
        assert question is not None
        for key in keys:
            if key == "back":
                question.back()
            elif key == "\r":
                question.confirm()
            else:
                question.press(key)
        if text:
            question.enter(text)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if task.done():
            assert questions.current is None
            return task.result()
        task.cancel()
        return None

    return asyncio.run(play())


@pytest.mark.parametrize(
    ("keys", "text", "leave"),
    [
        ("y", "", ApprovalDecision(allowed=True)),
        ("n", "", ApprovalDecision(allowed=False)),
        ("a1\r", "", ApprovalDecision(allowed=True, rule="bash(ls)")),
        ("a12\r", "", ApprovalDecision(allowed=True, rule="bash(*)")),
        ("e", "use ls -l", ApprovalDecision(allowed=False, reason="use ls -l")),
    ],
)
def test_each_choice_has_its_key(keys: str, text: str, leave: ApprovalDecision) -> None:
    assert leave_after(*keys, text=text) == leave


@pytest.mark.parametrize(
    "keys", ["", "q", "Y", " ", "\r", "a0\r", "a3\r", "ax\r", "²", "1", "a\r", "a1"]
)
def test_a_key_that_is_no_choice_allows_nothing(keys: str) -> None:
    assert leave_after(*keys) is None


def test_there_is_a_way_back_from_a_choice() -> None:
    assert leave_after("a", "back", "n") == ApprovalDecision(allowed=False)
    assert leave_after("e", "back", "y") == ApprovalDecision(allowed=True)
    assert leave_after("a", "1", "back", "a", "\r") is None  # the number is forgotten, too


def test_where_no_rule_is_offered_there_is_no_always() -> None:
    assert leave_after("a", "1", "\r", wanted_=wanted(rules=())) is None


def test_an_empty_reason_is_none() -> None:
    assert leave_after("e", text="  ") is None


@pytest.mark.parametrize(
    ("typed", "answer"), [("2", "black"), ("0", "0"), ("3", "3"), ("²", "²"), ("2 cups", "2 cups")]
)
def test_an_option_is_chosen_by_its_number_and_all_else_is_an_answer(
    typed: str, answer: str
) -> None:
    async def play() -> str:
        questions = ScreenPrompts()
        asked = UserQuestion(agent="main", question="Which?", options=("green", "black"))
        [task] = await asking(questions, questions.ask(asked))
        assert questions.current is not None
        assert questions.current.wants_text
        assert not questions.current.enter("")
        assert questions.current.enter(typed)
        return await task

    assert asyncio.run(play()) == answer


def test_questions_wait_for_each_other_and_cancelling_takes_one_back() -> None:
    async def play() -> None:
        shown: list[str | None] = []
        questions = ScreenPrompts()
        questions.changed = lambda: shown.append(
            questions.current.request.agent if questions.current else None
        )
        names = ("Ann", "Bob", "Cleo")
        tasks = await asking(questions, *(questions.approve(wanted(agent=name)) for name in names))
        tasks[1].cancel()
        await asyncio.sleep(0)
        assert questions.current is not None
        questions.current.press("y")
        assert (await tasks[0]).allowed
        assert questions.current.request.agent == "Cleo"
        questions.current.press("n")
        assert not (await tasks[2]).allowed
        assert shown == ["Ann", "Ann", "Ann", "Ann", "Cleo", None]

    asyncio.run(play())


def text_of(lines: list[Line]) -> str:
    return "\n".join("".join(text for _, text in line) for line in lines)


def shown(asked: UserQuestion | ApprovalRequest, height: int = 12, width: int = 60) -> str:
    async def play() -> str:
        questions = ScreenPrompts()
        ask = questions.ask(asked) if isinstance(asked, UserQuestion) else questions.approve(asked)
        [task] = await asking(questions, ask)
        assert questions.current is not None
        lines = ask_lines(questions.current, width, height, others=2)
        task.cancel()
        return text_of([*lines, *choices(questions.current)])

    return asyncio.run(play())


def test_a_long_preview_is_cut_and_says_how_much_is_left() -> None:
    preview = "\n".join(f"line {number}" for number in range(100))
    text = shown(wanted(preview=preview))
    assert "Ann requests bash  (2 more after this)" in text
    assert "  line 7\n  … 92 more lines, v shows all" in text
    assert len(text.splitlines()) <= 12


def test_what_is_asked_is_safe_to_show() -> None:
    for asked in (
        wanted(agent="\x1b[2J", tool="\x9b", preview="a\x1b]0;x\x07\rb", rules=("\x1b",)),
        UserQuestion(agent="\x1b[2J", question="a\x1b\rb", options=("\x07",)),
    ):
        assert all(line.isprintable() for line in shown(asked).split("\n"))


def test_keys_answer_when_the_user_has_paused_and_the_input_is_empty() -> None:
    async def play() -> None:
        changes: list[float] = []
        texts: list[str] = []
        loop = asyncio.get_running_loop()
        arming = KeyGuard(lambda: changes.append(loop.time()), lambda: bool(texts), quiet_s=0.2)
        arming.touch()  # no question yet
        arming.drawn()
        arming.begin()
        await asyncio.sleep(0.3)
        undrawn = arming.armed
        arming.drawn()
        arming.touch()
        touched = loop.time()
        while not changes:
            await asyncio.sleep(0.01)
        assert changes[0] - touched >= 0.19
        arming.touch()  # a key of the question itself
        states = [undrawn, arming.armed]
        texts.append("a draft")
        states.append(arming.armed)
        arming.touch()
        texts.clear()
        states.append(arming.armed)  # the text was deleted just now
        while len(changes) < 2:
            await asyncio.sleep(0.01)
        states.append(arming.armed)
        arming.end()
        assert [*states, arming.armed] == [False, True, False, False, True, False]

    asyncio.run(play())


@pytest.mark.parametrize("preview", ["safe " * 1000 + "; rm", "one\ntwo\n" + "x" * 10_000])
def test_a_long_line_says_that_it_is_not_all_there(preview: str) -> None:
    text = shown(wanted(preview=preview))
    assert "… 1 more line, v shows all\n" in text
    assert len(text.splitlines()) <= 12
