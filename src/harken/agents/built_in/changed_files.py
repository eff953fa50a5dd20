"""A hook that tells an agent of files that are no longer what it knows of them.

It compares hashes, so whoever changed a file does not matter: a person, another agent, or a
command of the agent itself. What the agent writes with its tools it knows, and is not told.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from harken.agents.agent_classes import register_agent_class
from harken.agents.hooks.hook import Hook
from harken.core.verdict import Comment, HookPoint, HookQuestion, Ok, Verdict
from harken.world.files.root import display_name

_NAMED = 20


@register_agent_class("changed-files")
class ChangedFiles(Hook):
    """Comments, once per change, on files that the watched agent knows and that were changed."""

    can_unload: ClassVar[bool] = True
    points: ClassVar[frozenset[HookPoint]] = frozenset({"input", "result"})

    def begin(self) -> None:
        """Nothing was reported yet."""
        self._reported: dict[str, str | None] = {}
        self._looked: tuple[HookQuestion, dict[str, str | None]] | None = None

    def should_ask(self, question: HookQuestion) -> bool:
        """Whether there is anything new to say, or to forget."""
        self._looked = (question, self._changed())
        return self._looked[1] != self._reported

    def judge(self, question: HookQuestion) -> Verdict:
        """Return what the agent should hear of its files now."""
        looked, self._looked = self._looked, None  # once: a question in between makes it old
        changed = looked[1] if looked is not None and looked[0] is question else self._changed()
        reported = self._reported.items()
        news = [item for item in changed.items() if item not in reported]
        self._reported = changed
        return Comment(changed_files_text(news)) if news else Ok()

    def _changed(self) -> dict[str, str | None]:
        """Return the files that are no longer what the watched agent knows, and their hash now."""
        watched = self.watched
        return {} if watched is None else dict(self.runtime.world.known.changed(watched))

    def dump_state(self) -> Any:
        """Return what was reported, so that nothing is said again after a resume."""
        return {"reported": dict(self._reported)} if self._reported else None

    def load_saved_state(self, saved: Any) -> None:
        """Take back what was reported."""
        reported = saved.get("reported") if isinstance(saved, dict) else None
        self._reported = dict(reported) if isinstance(reported, dict) else {}


def changed_files_text(news: Sequence[tuple[str, str | None]]) -> str:
    """Say which files changed: name, and hash now (None: it is gone).

    >>> changed_files_text([("a.py", "ea8f"), ("b.py", None)])
    'No longer what you last saw: a.py, b.py (gone). Read again what you still need.'
    """
    named = [display_name(name) + (" (gone)" if now is None else "") for name, now in news[:_NAMED]]
    if len(news) > _NAMED:
        named.append(f"and {len(news) - _NAMED} more")
    return f"No longer what you last saw: {', '.join(named)}. Read again what you still need."
