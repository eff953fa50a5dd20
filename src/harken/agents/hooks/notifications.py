"""Notifications to hooks besides the questions of `verdict`.

Hooks that implement `NotificationHandler` are told in order, when the context is compacted, the
user's approval is requested, or the agent waits for the user. They may refuse the first two. A
handler that fails refuses nothing, since it is no guard.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from harken.agents.agent import Agent
from harken.agents.hooks.error_log import log_error
from harken.core.events import Reference
from harken.core.ids import MessageId
from harken.errors import LogError
from harken.world.user import ApprovalRequest

Trigger: TypeAlias = Literal["auto", "manual"]
"""Whether the context was too full, or the user requested the compaction."""
HANDLER_TIMEOUT_S = 0.2
"""How long a question to the user waits for slow notification handlers."""


class CompactionStarting(msgspec.Struct, frozen=True, kw_only=True):
    """The context of an agent is about to be compacted."""

    trigger: Trigger
    instructions: str
    """Instructions for the summary."""


class CompactionFinished(msgspec.Struct, frozen=True, kw_only=True):
    """The context was compacted."""

    trigger: Trigger
    summary: str


class ApprovalPending(msgspec.Struct, frozen=True, kw_only=True):
    """The user is about to be asked for approval."""

    call: Reference
    request: ApprovalRequest
    is_wanted_by_hook: bool = False
    """Whether a hook requires the approval: an "ask" overrides another hook's "allow"."""


class UserInputPending(msgspec.Struct, frozen=True, kw_only=True):
    """An agent waits for the user."""

    kind: Literal["idle_prompt", "permission_prompt"]
    tool: str = ""
    """The tool that needs approval; empty if the agent waits for the next input."""


HookNotification: TypeAlias = (
    CompactionStarting | CompactionFinished | ApprovalPending | UserInputPending
)


class NotificationReply(msgspec.Struct, frozen=True, kw_only=True):
    """A hook's reply to a notification."""

    hook: str
    refusal: str | None = None
    """The reason for a refusal, or None."""
    allows: bool = False
    """Whether the hook approves in the user's place."""
    instructions: str = ""
    """Further instructions for the summary."""
    message_id: MessageId | None = None
    """The message that logs the reply."""


@runtime_checkable
class NotificationHandler(Protocol):
    """A hook that handles notifications."""

    @property
    def speaks_for_user(self) -> bool:
        """Whether it may answer in the user's place, also without any user."""
        ...

    async def heed(self, happening: HookNotification) -> NotificationReply | None:
        """Handle a notification about the watched agent. Return a reply, or None."""
        ...


def _has_heed(hook: Agent) -> bool:
    """Whether a hook has `heed`: a cheap check before the slow `isinstance` on the protocol."""
    return hasattr(type(hook), "heed")


async def notify_hooks(agent: Agent, happening: HookNotification) -> list[NotificationReply]:
    """Notify the hooks of an agent. Return their replies, up to a refusal."""
    replies: list[NotificationReply] = []
    for hook in agent.hooks:
        if not (_has_heed(hook) and isinstance(hook, NotificationHandler)):
            continue
        try:
            reply = await hook.heed(happening)
        except LogError:
            raise
        except Exception as error:  # noqa: BLE001 - the border: it is not there to guard
            log_error(hook, f"at {type(happening).__name__}", error)
            agent.runtime.notify(f"hook {hook.name} failed: {type(error).__name__}: {error}")
            continue
        if reply is not None:
            replies.append(reply)
            if reply.refusal is not None:
                break
    return replies


def has_user_substitute(agent: Agent) -> bool:
    """Whether a hook of an agent may answer in the user's place."""
    handlers = (hook for hook in agent.hooks if _has_heed(hook))
    return any(isinstance(hook, NotificationHandler) and hook.speaks_for_user for hook in handlers)


async def hook_decision_for_user(
    agent: Agent, request: ApprovalPending
) -> NotificationReply | None:
    """Return the reply that decides in the user's place, a refusal first, or None."""
    replies = await notify_hooks(agent, request)
    if replies and replies[-1].refusal is not None:
        return replies[-1]
    return next((reply for reply in replies if reply.allows), None)


async def call_user(agent: Agent, notification: UserInputPending) -> None:
    """Notify hooks that the user is waited for. Waits only briefly for slow hooks."""
    task = _start_task(notify_hooks(agent, notification))
    await asyncio.wait([task], timeout=HANDLER_TIMEOUT_S)


_tasks: set[asyncio.Task[Any]] = set()
"""References to running tasks, which asyncio itself holds only weakly."""


def _start_task(coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    task = asyncio.get_running_loop().create_task(coroutine)
    _tasks.add(task)
    task.add_done_callback(_on_done)
    return task


def _on_done(task: asyncio.Task[Any]) -> None:
    _tasks.discard(task)
    if not task.cancelled():
        task.exception()  # the next write to a failed log raises again
