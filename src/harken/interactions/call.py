"""`LoggedCall`: a model call made by a client of the caller, logged from request to response."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar

import msgspec

from harken.core.clock import Clock
from harken.core.events import Usage
from harken.core.messages import Message
from harken.core.stream import Finish
from harken.formats.client_messages import messages_in

MessageLike: TypeAlias = Any
"""Anything that `messages_in` reads: a text, a message of any client as a dict or as its object."""
Reply = TypeVar("Reply")
Write = Callable[["LoggedCall"], None]


@dataclass(slots=True, kw_only=True, eq=False)
class LoggedCall:
    """A context manager that logs the request on entry, and the outcome on exit.

        with log.call(thread, messages, model="m") as call:
            reply = call.answer(client(messages))

    An exception is logged as the failure of the call, and propagates.
    """

    clock: Clock
    begin: Callable[[], None] = field(repr=False)
    finish: Write = field(repr=False)
    answers: Sequence[Message] = ()
    model: str | None = None
    """The model that answered, if the response names it."""
    usage: Usage | None = None
    cost_usd: float | None = None
    stop_reason: str = ""
    error: str = ""
    latency_s: float = 0.0
    _began_us: int = field(default=0, init=False)
    _is_answered: bool = field(default=False, init=False)

    def answer(
        self,
        reply: Reply,
        *,
        model: str | None = None,
        usage: Usage | Mapping[str, Any] | None = None,
        stop_reason: str = "end_turn",
        cost_usd: float | None = None,
    ) -> Reply:
        """Record the response (a text, a message of any client, or several); return it unchanged.

        `usage` has `input_tokens`, `output_tokens`, `cache_read_tokens`, `cache_write_tokens`.
        A response of an unknown shape is kept as it is. Raises ValueError if the call already has
        a response.
        """
        if self._is_answered:
            raise ValueError(
                "this call has an answer already: use a new `with` block for each call"
            )
        raw: Any = reply
        self.answers = messages_in(raw, role="assistant")
        self.model, self.stop_reason = model, stop_reason
        self.usage = usage if isinstance(usage, Usage | None) else msgspec.convert(usage, Usage)
        self.cost_usd = cost_usd
        self._is_answered = True
        self.latency_s = self._elapsed_s()
        return reply

    def fail(self, error: str, *, stop_reason: str = "error") -> None:
        """Record why the call has no response, without raising an exception."""
        self.error, self.stop_reason = error, stop_reason

    @property
    def outcome(self) -> Finish:
        """Stop reason, model, usage and cost of the call."""
        return Finish(
            stop_reason=self.stop_reason,
            model=self.model,
            usage=self.usage,
            cost_usd=self.cost_usd,
        )

    def __enter__(self) -> Self:
        self._began_us = self.clock()
        self.begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._is_answered:
            self.latency_s = self._elapsed_s()
            if error is not None:
                self.fail(f"{type(error).__name__}: {error}".rstrip(": "))
            if not isinstance(error, Exception | None) or not self.stop_reason:
                self.stop_reason = "interrupted"
        self.finish(self)

    def _elapsed_s(self) -> float:
        return max(self.clock() - self._began_us, 0) / 1e6
