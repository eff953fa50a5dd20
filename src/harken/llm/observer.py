"""`ModelObserver`: callbacks for every model call of a session.

An observer receives data that is also in the log, at the time of the event. It changes nothing: an
exception of an observer becomes a warning, and the call continues.

Source: spec [S3] "Callback Integration Point".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec

from harken.core.events import LlmResponse, TranscriptEntry
from harken.core.ids import AgentId, MessageId
from harken.llm.base import ModelRequest
from harken.session.session import Session


class ObservedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A model call before or after it is made."""

    session: Session
    agent_id: AgentId
    model: str
    request: ModelRequest
    """Holds the context as the model reads it, the tools and the parameters."""
    request_id: MessageId | None = None
    """The event of the request. None if it is not in the log yet."""


class ObservedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a model call."""

    call: ObservedCall
    response: LlmResponse
    answer: TranscriptEntry | None = None
    """The answer. None if no usable data arrived."""


class ModelObserver(Protocol):
    """Callbacks that are called in this order, once for each model call.

    They must not block for long.
    """

    def on_context_assembled(self, call: ObservedCall) -> None:
        """Receive the context of the next request, which is not in the log yet."""
        ...

    def on_llm_request(self, call: ObservedCall) -> None:
        """Receive the request that was logged and is sent now."""
        ...

    def on_llm_response(self, answer: ObservedAnswer) -> None:
        """Receive the logged end of the call, also if it failed or was cancelled."""
        ...


def notify_observers(
    observers: Iterable[ModelObserver],
    tell: Callable[[ModelObserver], None],
    warn: Callable[[str], None],
) -> None:
    """Notify all observers. An exception of an observer becomes a warning."""
    for observer in observers:
        try:
            tell(observer)
        except Exception as error:  # noqa: BLE001 - a model call does not fail with it
            text = " ".join(f"{type(error).__name__}: {error}".split())
            warn(f"an observer of model calls failed ({type(observer).__name__}): {text}")
