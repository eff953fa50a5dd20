"""Questions to the user: one is on the screen at a time, the others wait for their turn.

It is the `User` of the world: an agent's action waits until its question is answered here, and
cancelling the action takes the question back. Which keys mean what is here; what they look like
is in `ask_lines`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from harken.terminal.styled_text import PROMPT, Line, clean, diff_lines, is_diff, wrap
from harken.views.message_text import count
from harken.world.user import ApprovalDecision, ApprovalRequest, UserQuestion

Step: TypeAlias = Literal["choose", "rule", "reason", "words"]
"""What is expected: a key of the choices, the number of a rule, a reason, an answer in words."""


@dataclass(slots=True)
class ScreenPrompt:
    """A question that waits for its answer."""

    asked: UserQuestion | ApprovalRequest
    answer: asyncio.Future[Any]
    step: Step
    chosen: str = ""
    """The rule whose number was pressed: Enter allows it from now on."""
    was_printed: bool = False
    """Whether all that would be done stands above."""

    @property
    def wants_text(self) -> bool:
        """Whether the answer is typed as a line, rather than one key."""
        return self.step in ("reason", "words")

    def press(self, key: str) -> bool:
        """Take a key; return whether it is a choice here. What is none changes nothing."""
        if not isinstance(self.asked, ApprovalRequest) or self.wants_text:
            return False
        if self.step == "rule":
            return self._press_in_rules(key, self.asked)
        if key == "y":
            self.settle(ApprovalDecision(allowed=True))
        elif key == "n":
            self.settle(ApprovalDecision(allowed=False))
        elif key == "e":
            self.step = "reason"
        elif key == "a" and self.asked.rules:
            self.step = "rule"
        else:
            return False
        return True

    def _press_in_rules(self, key: str, wanted: ApprovalRequest) -> bool:
        is_number = key.isascii() and key.isdigit() and 0 < int(key) <= len(wanted.rules)
        if is_number:
            self.chosen = wanted.rules[int(key) - 1]
        return is_number

    def confirm(self) -> bool:
        """Allow the chosen rule from now on; return whether one was chosen."""
        is_chosen = self.step == "rule" and bool(self.chosen)
        if is_chosen:
            self.settle(ApprovalDecision(allowed=True, rule=self.chosen))
        return is_chosen

    def back(self) -> bool:
        """Go back to the choices; return whether there was a way back."""
        was_deeper = self.step in ("rule", "reason")
        if was_deeper:
            self.step, self.chosen = "choose", ""
        return was_deeper

    def enter(self, text: str) -> bool:
        """Take a typed line; return whether it is an answer."""
        text = text.strip()
        if not text:
            return False
        if isinstance(self.asked, ApprovalRequest):
            self.settle(ApprovalDecision(allowed=False, reason=text))
        else:
            options = self.asked.options
            chosen = text.isascii() and text.isdigit() and 0 < int(text) <= len(options)
            self.settle(options[int(text) - 1] if chosen else text)
        return True

    def settle(self, answer: str | ApprovalDecision) -> None:
        """Give the answer to whoever waits for it."""
        if not self.answer.done():
            self.answer.set_result(answer)


class ScreenPrompts:
    """All questions that wait, oldest first. A `User`."""

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        """Call `changed` whenever another question, or none, is to be shown."""
        self.waiting: list[ScreenPrompt] = []
        self.changed = changed

    @property
    def current(self) -> ScreenPrompt | None:
        """The question to show, None where nobody asks."""
        return self.waiting[0] if self.waiting else None

    async def ask(self, asked: UserQuestion) -> str:
        """Return the answer to a question. Cancelling takes it back."""
        return str(await self._put(asked, "words"))

    async def approve(self, wanted: ApprovalRequest) -> ApprovalDecision:
        """Allow an action or not. Cancelling takes the question back."""
        leave: ApprovalDecision = await self._put(wanted, "choose")
        return leave

    async def _put(self, asked: UserQuestion | ApprovalRequest, step: Step) -> Any:
        question = ScreenPrompt(asked, asyncio.get_running_loop().create_future(), step)
        self.waiting.append(question)
        self.changed()
        try:
            return await question.answer
        finally:
            self.waiting.remove(question)
            self.changed()


def ask_lines(question: ScreenPrompt, width: int, height: int, *, others: int = 0) -> list[Line]:
    """Return a question as it is shown, in about `height` rows."""
    asked = question.asked
    rows = heading(question, width, others=others)
    if isinstance(asked, UserQuestion):
        for line in asked.question.splitlines() or [""]:
            rows += wrap([("", clean(line))], width)
        for number, option in enumerate(asked.options, 1):
            rows += wrap([("cyan", f"  {number} "), ("", clean(option))], width, "    ")
        return rows
    notes: list[Line] = []
    for line in asked.note.splitlines():
        notes += wrap([("dim", f"  {clean(line)}")], width, "  ")
    room = height - len(rows) - len(notes) - 3
    shown, left = _beginning(preview_lines(asked), width, max(room, 2))
    rows += shown
    if left:
        rows.append([("yellow", f"  … {count(left, 'more line')}, v shows all")])
    return rows + notes


def heading(question: ScreenPrompt, width: int, *, others: int = 0) -> list[Line]:
    """Return who asks, as it stands above what is asked."""
    asked = question.asked
    wish = "asks" if isinstance(asked, UserQuestion) else f"wants to use {clean(asked.tool)}"
    more = f"  ({others} more after this)" if others else ""
    return wrap([("bold yellow", f"{clean(asked.agent)} {wish}"), ("dim", more)], width)


def _beginning(preview: list[Line], width: int, room: int) -> tuple[list[Line], int]:
    """Return the first rows of a preview, and how many of its lines are not whole in them."""
    most = room * width
    rows: list[Line] = []
    for at, line in enumerate(preview):
        begun = [(style, text[:most]) for style, text in line]
        rows += wrap([("", "  "), *begun], width, "    ")
        if len(rows) > room or begun != line:
            return rows[:room], len(preview) - at
    return rows, 0


def preview_lines(wanted: ApprovalRequest) -> list[Line]:
    """Return all that a wanted action would do, a line each."""
    lines = wanted.preview.splitlines() or [wanted.subject]
    return diff_lines(lines) if is_diff(wanted.preview) else [[("", clean(one))] for one in lines]


def choices(question: ScreenPrompt) -> list[Line]:
    """Return what can be pressed or typed now."""
    asked = question.asked
    if isinstance(asked, UserQuestion):
        how = "a number, or your own words" if asked.options else "your answer"
        return [[("dim", f"{how}, then Enter · Esc stops the turn")]]
    if question.step == "reason":
        return [[("dim", "why not, or what instead? Enter sends it · Esc goes back")]]
    if question.step == "rule":
        return _rule_choices(question, asked)
    keys = [("y", "yes"), ("a", "always…"), ("n", "no"), ("e", "no, and say why")]
    row: Line = []
    for key, meaning in keys:
        if key != "a" or asked.rules:
            row += [("bold cyan", key), ("", f" {meaning}   ")]
    return [row]


def _rule_choices(question: ScreenPrompt, wanted: ApprovalRequest) -> list[Line]:
    rows: list[Line] = [[("dim", "allow from now on, without asking:")]]
    for number, rule in enumerate(wanted.rules, 1):
        style, mark = ("bold", PROMPT) if rule == question.chosen else ("", " " * len(PROMPT))
        rows.append([("cyan", f"{mark}{number} "), (style, clean(rule))])
    how = "Enter allows it" if question.chosen else "a number, then Enter"
    return [*rows, [("dim", f"{how} · Esc goes back")]]
