"""A hook that reminds an agent of its list of things to do, where it has lost sight of it."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from msgspec import Meta

from harken.agents.agent import Agent
from harken.agents.agent_classes import register_agent_class
from harken.agents.built_in.transcript_reader import newest_first, requests_of, saved_number
from harken.agents.hooks.hook import Hook
from harken.agents.hooks.options import HookOptions
from harken.core.messages import text_of
from harken.core.verdict import Comment, HookPoint, HookQuestion, Ok, Verdict

_OPEN = ("[ ]", "[>]")
"""How the items of a list begin that are not done. Source: `world.todo`."""


class TodoReminderOptions(HookOptions, frozen=True):
    """When to remind, and of what."""

    requests: Annotated[int, Meta(ge=1)] = 10
    """So many model requests after the list was last written, or after the last reminder."""
    without_list: bool = False
    """Whether to remind an agent, too, that never wrote a list."""
    tool: str = "todo"
    """The tool whose results are the list."""


@register_agent_class("todo-reminder")
class TodoReminder(Hook):
    """Comments with the list as it stands, after so many requests without a look at it."""

    can_unload: ClassVar[bool] = True
    points: ClassVar[frozenset[HookPoint]] = frozenset({"input", "result"})
    Options = TodoReminderOptions
    options: TodoReminderOptions

    def begin(self) -> None:
        """Nothing was said yet."""
        self._said_at = 0
        self._quiet_until = 0
        """No need to look at the transcript before so many requests: derived, never saved."""

    def should_ask(self, question: HookQuestion) -> bool:
        """Whether it is time; the transcript is read only where it may be."""
        watched = self.watched
        if watched is None or requests_of(watched) < self._quiet_until:
            return False
        return self._reminder(watched) is not None

    def judge(self, question: HookQuestion) -> Verdict:
        """Return the reminder, and count anew."""
        watched = self.watched
        reminder = None if watched is None else self._reminder(watched)
        if watched is None or reminder is None:
            return Ok()
        self._said_at = requests_of(watched)
        self._quiet_until = self._said_at + self.options.requests
        return Comment(reminder)

    def _reminder(self, watched: Agent) -> str | None:
        """Return what to say now; None: nothing, and not before `_quiet_until`."""
        now, every = requests_of(watched), self.options.requests
        if 0 < self._said_at <= now < self._said_at + every:
            self._quiet_until = self._said_at + every
            return None
        since, written = last_written(watched, self.options.tool)
        if since < every:
            self._quiet_until = now + every - since
            return None
        if not self._is_wanted(written):
            self._quiet_until = now + every
            return None
        return todo_text(since, written)

    def _is_wanted(self, written: str | None) -> bool:
        """Whether there is something to remind of."""
        if written is None:
            return self.options.without_list
        return any(line.startswith(_OPEN) for line in written.splitlines())

    def dump_state(self) -> Any:
        """Return when it spoke last, so that a resume repeats nothing."""
        return {"said_at": self._said_at} if self._said_at else None

    def load_saved_state(self, saved: Any) -> None:
        """Take back when it spoke last."""
        self._said_at = saved_number(saved, "said_at")


def last_written(agent: Agent, tool: str) -> tuple[int, str | None]:
    """Return how often an agent asked its model since it wrote its list, and the list."""
    since = 0
    for entry in newest_first(agent):
        since += entry.role == "assistant"
        if entry.role == "tool" and entry.name == tool and not entry.is_error:
            return since, text_of(entry.content)
    return since, None


def todo_text(since: int, written: str | None) -> str:
    r"""Say what stands on the list, and how long it was not looked at.

    >>> print(todo_text(10, "[x] look\n[ ] leap\n1 of 2 done."))
    You have not written your todo list for 10 requests. It stands so:
    [x] look
    [ ] leap
    1 of 2 done.
    Write it again if it is no longer right.
    """
    if written is None:
        return (
            f"You have no todo list after {since} requests. If this is work of several steps, "
            f"write one; if not, go on."
        )
    return (
        f"You have not written your todo list for {since} requests. It stands so:\n{written}\n"
        f"Write it again if it is no longer right."
    )
