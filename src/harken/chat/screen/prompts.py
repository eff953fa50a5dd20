"""Questions to the user: one is on the screen at a time, the others are queued.

`ScreenPrompts` is the `User` of the world: an agent's action waits until its question is answered,
and cancelling the action removes the question. The keys are processed here; `ask_lines` formats a
question.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import msgspec

from harken.terminal.styled_text import PROMPT, Line, clean_text, diff_lines, is_diff, wrap
from harken.views.message_text import format_count
from harken.world.user import ApprovalDecision, ApprovalRequest, UserQuestion

Step: TypeAlias = Literal["choose", "rule", "reason", "words"]
"""The expected input: a key of the choices, the number of a rule, a reason, an answer in words."""


class ScreenPrompt(msgspec.Struct):
    """A question without an answer."""

    request: UserQuestion | ApprovalRequest
    answer: asyncio.Future[Any]
    step: Step
    chosen_rule: str = ""
    """The rule whose number was pressed: Enter allows it from now on."""
    was_printed: bool = False
    """Whether the full preview was printed above."""

    @property
    def wants_text(self) -> bool:
        """Whether the answer is a line instead of a key."""
        return self.step in ("reason", "words")

    def press(self, key: str) -> bool:
        """Process a key; return whether it is a choice. Other keys change nothing."""
        if not isinstance(self.request, ApprovalRequest) or self.wants_text:
            return False
        if self.step == "rule":
            return self._press_in_rules(key, self.request)
        if key == "y":
            self.resolve(ApprovalDecision(allowed=True))
        elif key == "n":
            self.resolve(ApprovalDecision(allowed=False))
        elif key == "e":
            self.step = "reason"
        elif key == "a" and self.request.rules:
            self.step = "rule"
        else:
            return False
        return True

    def _press_in_rules(self, key: str, request: ApprovalRequest) -> bool:
        is_number = key.isascii() and key.isdigit() and 0 < int(key) <= len(request.rules)
        if is_number:
            self.chosen_rule = request.rules[int(key) - 1]
        return is_number

    def confirm(self) -> bool:
        """Allow the chosen rule from now on; return whether one was chosen."""
        is_chosen = self.step == "rule" and bool(self.chosen_rule)
        if is_chosen:
            self.resolve(ApprovalDecision(allowed=True, rule=self.chosen_rule))
        return is_chosen

    def back(self) -> bool:
        """Go back to the choices; return whether that was possible."""
        was_deeper = self.step in ("rule", "reason")
        if was_deeper:
            self.step, self.chosen_rule = "choose", ""
        return was_deeper

    def enter(self, text: str) -> bool:
        """Process a typed line; return whether it is an answer."""
        text = text.strip()
        if not text:
            return False
        if isinstance(self.request, ApprovalRequest):
            self.resolve(ApprovalDecision(allowed=False, reason=text))
        else:
            options = self.request.options
            is_option = text.isascii() and text.isdigit() and 0 < int(text) <= len(options)
            self.resolve(options[int(text) - 1] if is_option else text)
        return True

    def resolve(self, answer: str | ApprovalDecision) -> None:
        """Deliver the answer to the waiting caller."""
        if not self.answer.done():
            self.answer.set_result(answer)


class ScreenPrompts:
    """The queue of questions, oldest first. A `User`."""

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        """Call `changed` whenever another question, or none, is to be shown."""
        self.waiting: list[ScreenPrompt] = []
        self.changed = changed

    @property
    def current(self) -> ScreenPrompt | None:
        """The question to show, or None."""
        return self.waiting[0] if self.waiting else None

    async def ask(self, question: UserQuestion) -> str:
        """Return the answer to a question. Cancelling removes it."""
        return str(await self._enqueue(question, "words"))

    async def approve(self, request: ApprovalRequest) -> ApprovalDecision:
        """Return the user's decision on an action. Cancelling removes the question."""
        leave: ApprovalDecision = await self._enqueue(request, "choose")
        return leave

    async def _enqueue(self, asked_question: UserQuestion | ApprovalRequest, step: Step) -> Any:
        question = ScreenPrompt(asked_question, asyncio.get_running_loop().create_future(), step)
        self.waiting.append(question)
        self.changed()
        try:
            return await question.answer
        finally:
            self.waiting.remove(question)
            self.changed()


def ask_lines(question: ScreenPrompt, width: int, height: int, *, others: int = 0) -> list[Line]:
    """Return the lines of a question, about `height` rows."""
    request = question.request
    rows = heading(question, width, others=others)
    if isinstance(request, UserQuestion):
        for line in request.question.splitlines() or [""]:
            rows += wrap([("", clean_text(line))], width)
        for number, option in enumerate(request.options, 1):
            rows += wrap([("cyan", f"  {number} "), ("", clean_text(option))], width, "    ")
        return rows
    notes: list[Line] = []
    for line in request.note.splitlines():
        notes += wrap([("dim", f"  {clean_text(line)}")], width, "  ")
    room = height - len(rows) - len(notes) - 3
    visible, hidden_count = _truncate_preview(preview_lines(request), width, max(room, 2))
    rows += visible
    if hidden_count:
        rows.append([("yellow", f"  … {format_count(hidden_count, 'more line')}, v shows all")])
    return rows + notes


def heading(question: ScreenPrompt, width: int, *, others: int = 0) -> list[Line]:
    """Return the asking agent, as the line above its question."""
    request = question.request
    wish = "asks" if isinstance(request, UserQuestion) else f"requests {clean_text(request.tool)}"
    suffix = f"  ({others} more after this)" if others else ""
    return wrap([("bold yellow", f"{clean_text(request.agent)} {wish}"), ("dim", suffix)], width)


def _truncate_preview(preview: list[Line], width: int, room: int) -> tuple[list[Line], int]:
    """Return the first rows of a preview, and the number of its lines that are not complete."""
    limit = room * width
    rows: list[Line] = []
    for index, line in enumerate(preview):
        visible = [(style, text[:limit]) for style, text in line]
        rows += wrap([("", "  "), *visible], width, "    ")
        if len(rows) > room or visible != line:
            return rows[:room], len(preview) - index
    return rows, 0


def preview_lines(request: ApprovalRequest) -> list[Line]:
    """Return the preview of a requested action as lines."""
    lines = request.preview.splitlines() or [request.subject]
    return (
        diff_lines(lines)
        if is_diff(request.preview)
        else [[("", clean_text(line))] for line in lines]
    )


def choices(question: ScreenPrompt) -> list[Line]:
    """Return the keys and replies that are possible now."""
    request = question.request
    if isinstance(request, UserQuestion):
        how = "a number, or your own text" if request.options else "your answer"
        return [[("dim", f"{how}, then Enter · Esc stops the turn")]]
    if question.step == "reason":
        return [[("dim", "reason or instruction: Enter sends it · Esc goes back")]]
    if question.step == "rule":
        return _rule_choices(question, request)
    keys = [("y", "yes"), ("a", "always…"), ("n", "no"), ("e", "no, with a reason")]
    row: Line = []
    for key, meaning in keys:
        if key != "a" or request.rules:
            row += [("bold cyan", key), ("", f" {meaning}   ")]
    return [row]


def _rule_choices(question: ScreenPrompt, request: ApprovalRequest) -> list[Line]:
    rows: list[Line] = [[("dim", "allow from now on, without asking:")]]
    for number, rule in enumerate(request.rules, 1):
        style, mark = ("bold", PROMPT) if rule == question.chosen_rule else ("", " " * len(PROMPT))
        rows.append([("cyan", f"{mark}{number} "), (style, clean_text(rule))])
    how = "Enter allows it" if question.chosen_rule else "a number, then Enter"
    return [*rows, [("dim", f"{how} · Esc goes back")]]
