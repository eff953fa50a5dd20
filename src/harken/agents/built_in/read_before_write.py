"""A hook that lets an agent change a file only where it knows what is in it now.

Per agent, by checksum: where A reads a file, B writes it and A writes it, A is denied. The tools
`write` and `edit` refuse by themselves, and once more at the moment of writing. This is for tools
of others that change files and do not look, as far as they say which file (`guarded(by="path",
edits_files=True)`); what a command of the shell will write, nobody can say before.
"""

from __future__ import annotations

from typing import ClassVar

from harken.agents.agent_classes import register_agent_class
from harken.agents.hooks.hook import Hook
from harken.agents.hooks.options import HookOptions
from harken.agents.tree.actions import parse_arguments_or_empty
from harken.core.verdict import Deny, HookPoint, HookQuestion, Ok, Verdict
from harken.world.files.root import display_name
from harken.world.tool import ToolContext


class ReadBeforeWriteOptions(HookOptions, frozen=True):
    """Which tools are watched beside those that say that they edit files."""

    tools: dict[str, str] = {}  # noqa: RUF012 - msgspec copies it
    """Name of a tool -> its argument that is the path of the file."""


@register_agent_class("read-before-write")
class ReadBeforeWrite(Hook):
    """Denies a change of a file that the agent has not read, or that was changed since."""

    can_unload: ClassVar[bool] = True
    points: ClassVar[frozenset[HookPoint]] = frozenset({"action"})
    Options = ReadBeforeWriteOptions
    options: ReadBeforeWriteOptions

    def should_ask(self, question: HookQuestion) -> bool:
        """Whether there is a reason to deny it."""
        return self._why_not(question) is not None

    def judge(self, question: HookQuestion) -> Verdict:
        """Deny what would change a file unseen."""
        reason = self._why_not(question)
        return Ok() if reason is None else Deny(reason)

    def _why_not(self, question: HookQuestion) -> str | None:
        watched, path = self.watched, self._path(question)
        if watched is None or path is None:
            return None
        known = self.runtime.world.known
        standing = known.standing(ToolContext(watched, question.subject), path)
        if standing == "unknown":
            return f"you have not read {display_name(path)}: read it first"
        if standing == "changed":
            return f"{display_name(path)} is no longer what you read: read it again first"
        return None

    def _path(self, question: HookQuestion) -> str | None:
        """Return the file that a call says it changes; None where it says none."""
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
