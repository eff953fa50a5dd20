"""A hook that reminds an agent of its todo list after a while without an update."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from msgspec import Meta

from harken.agents import texts
from harken.agents.agent import Agent
from harken.agents.agent_classes import register_agent_class
from harken.agents.built_in.transcript_reader import newest_first, requests_of, saved_number
from harken.agents.hooks.hook import Hook
from harken.agents.hooks.options import HookOptions
from harken.core.event_types.spec import HookPoint
from harken.core.messages import text_of
from harken.core.verdict import Comment, HookQuestion, Ok, Verdict

_OPEN_PREFIXES = ("[ ]", "[>]")
"""The prefixes of open items. Source: `world.todo`."""


class TodoReminderOptions(HookOptions, frozen=True):
    """The conditions of a reminder."""

    requests: Annotated[int, Meta(ge=1)] = 10
    """The number of model requests since the last write of the list, or the last reminder."""
    without_list: bool = False
    """Whether to remind an agent that never wrote a list, too."""
    tool: str = "todo"
    """The tool whose results are the list."""


@register_agent_class("todo-reminder")
class TodoReminder(Hook):
    """Comments with the list as it stands, after so many requests without a look at it."""

    _can_unload: ClassVar[bool] = True
    points: ClassVar[frozenset[HookPoint]] = frozenset({"input", "result"})
    Options = TodoReminderOptions
    options: TodoReminderOptions

    def begin(self) -> None:
        """Start without any reminder."""
        self._reminded_at = 0
        self._next_check = 0
        """The number of requests before which the transcript need not be read. Derived, never
        saved."""

    def should_ask(self, question: HookQuestion) -> bool:
        """Whether a reminder is due; the transcript is read only if it may be."""
        watched = self.watched
        if watched is None or requests_of(watched) < self._next_check:
            return False
        return self._find_reminder(watched) is not None

    def judge(self, question: HookQuestion) -> Verdict:
        """Return the reminder, and restart the count."""
        watched = self.watched
        reminder = None if watched is None else self._find_reminder(watched)
        if watched is None or reminder is None:
            return Ok()
        self._reminded_at = requests_of(watched)
        self._next_check = self._reminded_at + self.options.requests
        return Comment(reminder)

    def _find_reminder(self, watched: Agent) -> str | None:
        """Return the due reminder, or None until `_next_check`."""
        now, every = requests_of(watched), self.options.requests
        if 0 < self._reminded_at <= now < self._reminded_at + every:
            self._next_check = self._reminded_at + every
            return None
        since, list_text = last_written(watched, self.options.tool)
        if since < every:
            self._next_check = now + every - since
            return None
        if not self._needs_reminder(list_text):
            self._next_check = now + every
            return None
        return todo_text(since, list_text)

    def _needs_reminder(self, list_text: str | None) -> bool:
        """Whether the list requires a reminder."""
        if list_text is None:
            return self.options.without_list
        return any(line.startswith(_OPEN_PREFIXES) for line in list_text.splitlines())

    def dump_state(self) -> Any:
        """Return the time of the last reminder, so that a resume repeats none."""
        return {"said_at": self._reminded_at} if self._reminded_at else None

    def load_saved_state(self, saved: Any) -> None:
        """Restore the time of the last reminder."""
        self._reminded_at = saved_number(saved, "said_at")


def last_written(agent: Agent, tool: str) -> tuple[int, str | None]:
    """Return the number of model requests since an agent wrote its list, and the list."""
    since = 0
    for entry in newest_first(agent):
        since += entry.role == "assistant"
        if entry.role == "tool" and entry.name == tool and not entry.is_error:
            return since, text_of(entry.content)
    return since, None


def todo_text(since: int, list_text: str | None) -> str:
    r"""Format the reminder with the list and the number of requests since.

    >>> print(todo_text(10, "[x] look\n[ ] leap\n1 of 2 done."))
    You have not written your todo list for 10 requests. It stands so:
    [x] look
    [ ] leap
    1 of 2 done.
    Write it again if it is no longer right.
    """
    if list_text is None:
        return texts.TODO_MISSING.format(since)
    return texts.TODO_STALE.format(since, list_text)
