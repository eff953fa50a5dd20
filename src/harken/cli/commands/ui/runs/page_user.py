"""`PageUser`: the questions of a running session to the user, which pages of the viewer answer.

A question waits until any page answers it; the first answer counts. It also waits while no page is
open. Cancelling the action removes it.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import msgspec

from harken.core.clock import format_rfc3339, system_clock
from harken.errors import NameNotFound
from harken.service.viewer.session_runner import DecisionRequest, QuestionRow
from harken.store.remote.errors import RequestRefused
from harken.terminal.styled_text import is_diff
from harken.world.user import ApprovalDecision, ApprovalRequest, UserQuestion

_MAX_OUTCOMES = 200


class _Pending(msgspec.Struct, frozen=True):
    """A question without an answer."""

    row: QuestionRow
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Any]


class PageUser:
    """The questions of a session, oldest first. A `User`."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        """Call `on_change` when there is another question, or one less; from any thread."""
        self._on_change = on_change
        self._lock = threading.Lock()
        self._pending: dict[str, _Pending] = {}
        self._outcomes: OrderedDict[str, str] = OrderedDict()
        """The last questions that were answered or withdrawn, and how."""

    def rows(self) -> list[QuestionRow]:
        """Return the questions that wait."""
        with self._lock:
            return [pending.row for pending in self._pending.values()]

    async def ask(self, question: UserQuestion) -> str:
        """Return the answer to a question. Cancelling withdraws it."""
        row = QuestionRow(
            id=secrets.token_hex(8),
            kind="question",
            agent=question.agent,
            time=format_rfc3339(system_clock()),
            text=question.question,
            options=list(question.options),
        )
        return str(await self._wait(row))

    async def approve(self, request: ApprovalRequest) -> ApprovalDecision:
        """Return the decision on an action. Cancelling withdraws the question."""
        row = QuestionRow(
            id=secrets.token_hex(8),
            kind="approval",
            agent=request.agent,
            time=format_rfc3339(system_clock()),
            tool=request.tool,
            subject=request.subject,
            preview=request.preview,
            is_diff=is_diff(request.preview),
            rules=list(request.rules),
            is_required=request.is_required,
            note=request.note,
        )
        decision: ApprovalDecision = await self._wait(row)
        return decision

    def decide(self, question: str, request: DecisionRequest) -> None:
        """Answer a question, from any thread.

        Raises NameNotFound, ValueError for an answer that does not fit, and RequestRefused if the
        question was answered or withdrawn before.
        """
        with self._lock:
            pending = self._pending.get(question)
            if pending is None:
                outcome = self._outcomes.get(question)
                if outcome is None:
                    raise NameNotFound("question", question, [])
                raise RequestRefused("invalid", f"this question was {outcome}")
            answer = _make_answer(pending.row, request)
            self._remove(question, f"answered already: {_describe(request)}")
        pending.loop.call_soon_threadsafe(_resolve, pending.answer, answer)
        self._on_change()

    async def _wait(self, row: QuestionRow) -> Any:
        loop = asyncio.get_running_loop()
        pending = _Pending(row, loop, loop.create_future())
        with self._lock:
            self._pending[row.id] = pending
        self._on_change()
        try:
            return await pending.answer
        finally:
            with self._lock:
                is_withdrawn = row.id in self._pending
                if is_withdrawn:
                    self._remove(row.id, "withdrawn: the turn was stopped")
            if is_withdrawn:
                self._on_change()

    def _remove(self, question: str, outcome: str) -> None:
        del self._pending[question]
        self._outcomes[question] = outcome
        while len(self._outcomes) > _MAX_OUTCOMES:
            self._outcomes.popitem(last=False)


def _make_answer(row: QuestionRow, request: DecisionRequest) -> str | ApprovalDecision:
    """Return the answer to a question. Raises ValueError if it does not fit."""
    if row.kind == "question":
        if request.decision != "answer" or not request.text.strip():
            raise ValueError("this question needs an answer in words")
        return request.text
    match request.decision:
        case "allow":
            return ApprovalDecision(allowed=True)
        case "always" if request.rule in row.rules:
            return ApprovalDecision(allowed=True, rule=request.rule)
        case "always":
            raise ValueError("choose one of the rules that are offered")
        case "deny":
            return ApprovalDecision(allowed=False, reason=request.text.strip())
        case _:
            raise ValueError("this action is allowed or denied")


def _describe(request: DecisionRequest) -> str:
    words = {"allow": "allowed", "always": "always allowed", "deny": "denied"}
    return words.get(request.decision, "with a text")


def _resolve(answer: asyncio.Future[Any], value: object) -> None:
    if not answer.done():
        answer.set_result(value)
