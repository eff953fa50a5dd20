"""A hook that allows an agent to change a file only if it knows the current content.

Knowledge is tracked per agent, by checksum: if A reads a file, B writes it and A writes it again, A
is denied. The tools `write` and `edit` check this themselves, again at the moment of writing. This
hook is for other tools that change files without a check, if they declare the file
(`guarded(by="path", edits_files=True)`). The files that a shell command will write cannot be known
in advance.
"""

from __future__ import annotations

from typing import ClassVar

from harken.agents import texts
from harken.agents.agent_classes import register_agent_class
from harken.agents.hooks.hook import Hook
from harken.agents.hooks.options import HookOptions
from harken.agents.tree.actions import parse_arguments_or_empty
from harken.core.event_types.spec import HookPoint
from harken.core.verdict import Deny, HookQuestion, Ok, Verdict
from harken.world.files.root import display_name
from harken.world.tool import ToolContext


class ReadBeforeWriteOptions(HookOptions, frozen=True):
    """The tools to watch besides those that declare that they edit files."""

    tools: dict[str, str] = {}  # noqa: RUF012 - msgspec copies it
    """The argument with the path of the file, by tool."""


@register_agent_class("read-before-write")
class ReadBeforeWrite(Hook):
    """Denies a change of a file that the agent has not read, or that was changed since."""

    _can_unload: ClassVar[bool] = True
    points: ClassVar[frozenset[HookPoint]] = frozenset({"action"})
    Options = ReadBeforeWriteOptions
    options: ReadBeforeWriteOptions

    def should_ask(self, question: HookQuestion) -> bool:
        """Whether there is a reason to deny the action."""
        return self._refusal_reason(question) is not None

    def judge(self, question: HookQuestion) -> Verdict:
        """Deny the change of a file whose content the agent does not know."""
        reason = self._refusal_reason(question)
        return Ok() if reason is None else Deny(reason)

    def _refusal_reason(self, question: HookQuestion) -> str | None:
        watched, path = self.watched, self._changed_path(question)
        if watched is None or path is None:
            return None
        file_states = self.runtime.world.file_states
        knowledge = file_states.compare(ToolContext(watched, question.subject), path)
        if knowledge == "unknown":
            return texts.FILE_UNREAD.format(display_name(path))
        if knowledge == "changed":
            return texts.FILE_STALE.format(display_name(path))
        return None

    def _changed_path(self, question: HookQuestion) -> str | None:
        """Return the path of the file that a call changes, or None if it declares none."""
        if question.call is None:
            return None
        name = question.call.function.name
        argument = self.options.tools.get(name)
        if argument is None:
            tool = self.runtime.world.tools.get(name)
            if tool is None or not tool.edits_files or tool.subject_kind != "path":
                return None
            argument = tool.subject
        path = parse_arguments_or_empty(question.text).get(argument or "")
        return path if isinstance(path, str) else None
