"""A hook that tells an agent of files that changed since the agent read them.

It compares hashes, so changes by a person, another agent, or a command of the agent itself are all
found. Writes with the agent's own tools are known to it and not reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from harken.agents import texts
from harken.agents.agent_classes import register_agent_class
from harken.agents.hooks.hook import Hook
from harken.core.event_types.spec import HookPoint
from harken.core.verdict import Comment, HookQuestion, Ok, Verdict
from harken.world.files.root import display_name

_MAX_NAMES = 20


@register_agent_class("changed-files")
class ChangedFiles(Hook):
    """Comments, once per change, on files that the watched agent knows and that were changed."""

    _can_unload: ClassVar[bool] = True
    points: ClassVar[frozenset[HookPoint]] = frozenset({"input", "result"})

    def begin(self) -> None:
        """Start without any report."""
        self._reported: dict[str, str | None] = {}
        self._last_check: tuple[HookQuestion, dict[str, str | None]] | None = None

    def should_ask(self, question: HookQuestion) -> bool:
        """Whether there is a change to report, or a report to forget."""
        self._last_check = (question, self._changed())
        return self._last_check[1] != self._reported

    def judge(self, question: HookQuestion) -> Verdict:
        """Report the changes that were not reported yet."""
        check, self._last_check = (
            self._last_check,
            None,
        )  # used once: it is stale after another question
        changed = check[1] if check is not None and check[0] is question else self._changed()
        reported = self._reported.items()
        changes = [item for item in changed.items() if item not in reported]
        self._reported = changed
        return Comment(changed_files_text(changes)) if changes else Ok()

    def _changed(self) -> dict[str, str | None]:
        """Return the hashes of files that differ from the watched agent's knowledge, by name."""
        watched = self.watched
        return {} if watched is None else dict(self.runtime.world.file_states.find_changed(watched))

    def dump_state(self) -> Any:
        """Return the reports, so that a resume repeats none."""
        return {"reported": dict(self._reported)} if self._reported else None

    def load_saved_state(self, saved: Any) -> None:
        """Restore the reports."""
        reported = saved.get("reported") if isinstance(saved, dict) else None
        self._reported = dict(reported) if isinstance(reported, dict) else {}


def changed_files_text(changes: Sequence[tuple[str, str | None]]) -> str:
    """Format the changed files from names and hashes. The hash of a removed file is None."""
    names = [
        display_name(name) + (texts.FILE_GONE if current_hash is None else "")
        for name, current_hash in changes[:_MAX_NAMES]
    ]
    if len(changes) > _MAX_NAMES:
        names.append(texts.MORE_NAMES.format(len(changes) - _MAX_NAMES))
    return texts.FILES_CHANGED.format(", ".join(names))
