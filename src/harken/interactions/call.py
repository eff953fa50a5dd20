"""`LoggedCall`: a model call made by a client of the caller, logged from request to response.

Also converts the message formats of programs (dicts, strings, message objects) to `Message`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar

import msgspec

from harken.core.clock import Clock
from harken.core.events import Usage
from harken.core.messages import ChatMessage, Message, Role, parse_message
from harken.core.stream import Finish

MessageLike: TypeAlias = ChatMessage | Mapping[str, Any] | str
"""A dict has `role` and `content`, and may have `tool_calls`, `tool_call_id`, `name`."""
_ROLE_ALIASES: dict[str, Role] = {"developer": "system", "function": "tool", "model": "assistant"}


def to_message(raw: MessageLike, role: Role = "user") -> Message:
    """Convert a dict, a string or a message object to a message. Raises ValueError.

    >>> to_message({"role": "developer", "content": "Be brief."}).role
    'system'
    """
    if isinstance(raw, str):
        return Message(role, str(raw))
    if isinstance(raw, Mapping):
        raw_role = raw.get("role", role)
        normalized = (
            _ROLE_ALIASES.get(raw_role, raw_role) if isinstance(raw_role, str) else raw_role
        )
        return parse_message({**raw, "role": normalized})
    content = raw.content
    return Message(
        role=raw.role,
        # The list is copied because the message is stored.
        content=list(content) if isinstance(content, list) else content,
        tool_calls=raw.tool_calls or None,
        tool_call_id=raw.tool_call_id,
        name=raw.name,
        is_error=raw.is_error,
    )


def to_messages(said: Sequence[MessageLike] | MessageLike, role: Role = "user") -> list[Message]:
    """Convert one message or a sequence of messages. Raises ValueError."""
    if isinstance(said, str | Mapping) or not isinstance(said, Sequence):
        return [to_message(said, role)]
    return [to_message(message, role) for message in said]


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
        """Record the response (a text, a message, a dict, or several) and return it unchanged.

        `usage` has `input_tokens`, `output_tokens`, `cache_read_tokens`, `cache_write_tokens`.
        Raises ValueError if the response is not a message, or if the call already has a response.
        """
        if self._is_answered:
            raise ValueError(
                "this call has an answer already: use a new `with` block for each call"
            )
        raw: Any = reply
        self.answers = to_messages(raw, "assistant")
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
