"""`LoggedCall`: a model call that somebody's own client makes, in the log from beginning to end.

What programs say messages with, as messages: dicts of the usual shape, plain texts, messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar

import msgspec

from harken.core.clock import Clock
from harken.core.events import Usage
from harken.core.messages import ChatMessage, Message, Role, message_from
from harken.core.stream import Finish

Spoken: TypeAlias = ChatMessage | Mapping[str, Any] | str
"""A dict has `role` and `content`, and may have `tool_calls`, `tool_call_id`, `name`."""


_SAME: dict[str, Role] = {"developer": "system", "function": "tool", "model": "assistant"}


def message_in(said: Spoken, role: Role = "user") -> Message:
    """Return a message. role: of a plain text. Raises ValueError for what is none.

    >>> message_in({"role": "developer", "content": "Be brief."}).role
    'system'
    """
    if isinstance(said, str):
        return Message(role, str(said))
    if isinstance(said, Mapping):
        known = said.get("role", role)
        same = _SAME.get(known, known) if isinstance(known, str) else known
        return message_from({**said, "role": same})
    content = said.content
    return Message(
        role=said.role,
        content=list(content) if isinstance(content, list) else content,  # it is kept
        tool_calls=said.tool_calls or None,
        tool_call_id=said.tool_call_id,
        name=said.name,
        is_error=said.is_error,
    )


def messages_in(said: Sequence[Spoken] | Spoken, role: Role = "user") -> list[Message]:
    """Return messages; a single one may stand for itself. As `message_in`."""
    if isinstance(said, str | Mapping) or not isinstance(said, Sequence):
        return [message_in(said, role)]
    return [message_in(one, role) for one in said]


Reply = TypeVar("Reply")
Write = Callable[["LoggedCall"], None]


@dataclass(slots=True, kw_only=True, eq=False)
class LoggedCall:
    """The body of a `with`: the request is logged before it, what came of it after it.

        with log.call(thread, messages, model="m") as call:
            reply = call.answer(client(messages))

    An exception is logged as the failure of the call, and goes on.
    """

    clock: Clock
    begin: Callable[[], None] = field(repr=False)
    finish: Write = field(repr=False)
    answers: Sequence[Message] = ()
    model: str | None = None
    """The one that really answered, where that was said."""
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
        """Take what the model answered (a text, a message or a dict, or several); return it.

        usage: `input_tokens`, `output_tokens`, `cache_read_tokens`, `cache_write_tokens`. Raises
        ValueError for what is no message, and for a second answer: a call has one.
        """
        if self._is_answered:
            raise ValueError("this call was answered before: each has a `with` of its own")
        said: Any = reply
        self.answers = messages_in(said, "assistant")
        self.model, self.stop_reason = model, stop_reason
        self.usage = usage if isinstance(usage, Usage | None) else msgspec.convert(usage, Usage)
        self.cost_usd = cost_usd
        self._is_answered = True
        self.latency_s = self._elapsed_s()
        return reply

    def fail(self, error: str, *, stop_reason: str = "error") -> None:
        """Say why there is no answer, where nothing is raised."""
        self.error, self.stop_reason = error, stop_reason

    @property
    def ended(self) -> Finish:
        """How it ended."""
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
