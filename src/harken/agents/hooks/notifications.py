"""What happens to an agent beside what its hooks are asked: those that want to hear of it do.

A hook is asked at four points, by the protocol of `verdict`. What is here are moments that few care
about: the context is summed up, the user's leave is asked, somebody waits for the user. A hook that
has `heed` is told, in the order of the hooks. It may refuse the first two; one that fails refuses
nothing: it is not there to guard.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from harken.agents.agent import Agent
from harken.core.events import Reference
from harken.core.ids import MessageId
from harken.errors import LogError
from harken.world.user import ApprovalRequest

Trigger: TypeAlias = Literal["auto", "manual"]
"""Whether a context was too full, or the user wants it summed up."""
PATIENCE_S = 0.2
"""So long a question to the user waits for those who are told that it is put."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionStarting:
    """The context of an agent is about to be summed up."""

    trigger: Trigger
    instructions: str
    """What the summary shall keep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionFinished:
    """It was."""

    trigger: Trigger
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalPending:
    """The user is about to be asked for their leave."""

    call: Reference
    wanted: ApprovalRequest
    is_wanted_by_hook: bool = False
    """Whether it is a hook that wants it: an "ask" is stronger than another's "allow"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserInputPending:
    """Somebody waits for the user."""

    kind: Literal["idle_prompt", "permission_prompt"]
    tool: str = ""
    """For what they are asked; empty: what they say next is waited for."""


Happening: TypeAlias = CompactionStarting | CompactionFinished | ApprovalPending | UserInputPending


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationReply:
    """What a hook says to it."""

    hook: str
    refusal: str | None = None
    """Why it must not be; None: it may."""
    allows: bool = False
    """Whether it speaks for the user: they need not be asked."""
    more: str = ""
    """What else a summary shall keep."""
    said: MessageId | None = None
    """The message that says so."""


@runtime_checkable
class NotificationHandler(Protocol):
    """A hook that wants to hear of it."""

    @property
    def speaks_for_user(self) -> bool:
        """Whether it may answer in the user's place, where nobody else is there, too."""
        ...

    async def heed(self, happening: Happening) -> NotificationReply | None:
        """Return what it says to what happens to the agent that it watches; None: nothing."""
        ...


def _may_heed(hook: Agent) -> bool:
    """Whether a hook may be attentive: to ask the protocol takes longer than to ask a hook."""
    return hasattr(type(hook), "heed")


async def notify_hooks(agent: Agent, happening: Happening) -> list[NotificationReply]:
    """Tell the hooks of an agent what happens to it; return what they say, up to a refusal."""
    words: list[NotificationReply] = []
    for hook in agent.hooks:
        if not (_may_heed(hook) and isinstance(hook, NotificationHandler)):
            continue
        try:
            word = await hook.heed(happening)
        except LogError:
            raise
        except Exception as error:  # noqa: BLE001 - the border: it is not there to guard
            agent.runtime.notify(f"hook {hook.name} failed: {type(error).__name__}: {error}")
            continue
        if word is not None:
            words.append(word)
            if word.refusal is not None:
                break
    return words


def is_spoken_for(agent: Agent) -> bool:
    """Whether a hook of an agent may answer in the user's place."""
    heeding = (one for one in agent.hooks if _may_heed(one))
    return any(isinstance(one, NotificationHandler) and one.speaks_for_user for one in heeding)


async def hook_decision_for_user(agent: Agent, asked: ApprovalPending) -> NotificationReply | None:
    """Return the word of a hook that answers in the user's place, a no before a yes; None: none."""
    words = await notify_hooks(agent, asked)
    if words and words[-1].refusal is not None:
        return words[-1]
    return next((one for one in words if one.allows), None)


async def call_user(agent: Agent, wanted: UserInputPending) -> None:
    """Let hooks know that the user is waited for; it waits for slow ones only a moment."""
    telling = _kept(notify_hooks(agent, wanted))
    await asyncio.wait([telling], timeout=PATIENCE_S)


_telling: set[asyncio.Task[Any]] = set()
"""Nobody else refers to a task that nobody waits for."""


def _kept(telling: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    task = asyncio.get_running_loop().create_task(telling)
    _telling.add(task)
    task.add_done_callback(_done)
    return task


def _done(task: asyncio.Task[Any]) -> None:
    _telling.discard(task)
    if not task.cancelled():
        task.exception()  # a log that fails says so again to whoever writes next
