"""`ModelObserver`: who is told of every model call, without the agents knowing.

One idea: an observer sees what is in the log anyway, at the moment at which it happens. It changes
nothing: what it raises is told to a person, and the call goes on.

Source: spec [S3] "Callback Integration Point".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from harken.core.events import LlmResponse, TranscriptEntry
from harken.core.ids import AgentId, MessageId
from harken.llm.base import ModelRequest
from harken.session.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedCall:
    """A model call that an agent is about to make, or has made."""

    session: Session
    agent_id: AgentId
    model: str
    request: ModelRequest
    """With the context as the model reads it, its tools and parameters."""
    request_id: MessageId | None = None
    """The event of the request; None: it is not in the log yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedAnswer:
    """How a model call ended."""

    call: ObservedCall
    response: LlmResponse
    answer: TranscriptEntry | None = None
    """What was answered; None: nothing usable arrived."""


class ModelObserver(Protocol):
    """Told in this order, once each, of every model call. It must not block for long."""

    def on_context_assembled(self, call: ObservedCall) -> None:
        """Hear what will be asked; the log does not have the request yet."""
        ...

    def on_llm_request(self, call: ObservedCall) -> None:
        """Hear that the request is in the log, and the model is asked now."""
        ...

    def on_llm_response(self, answer: ObservedAnswer) -> None:
        """Hear how the call ended, also where it failed or was cancelled; the log has it."""
        ...


def tell_all(
    observers: Iterable[ModelObserver],
    tell: Callable[[ModelObserver], None],
    warn: Callable[[str], None],
) -> None:
    """Tell each of the observers something; what one raises is a warning."""
    for observer in observers:
        try:
            tell(observer)
        except Exception as error:  # noqa: BLE001 - the border: a call does not fail with it
            what = " ".join(f"{type(error).__name__}: {error}".split())
            warn(f"an observer of model calls failed ({type(observer).__name__}): {what}")
