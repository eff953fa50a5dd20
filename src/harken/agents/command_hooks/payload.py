"""`Situation`: a hook question as an event of Claude Code, the input of a hook command.

The JSON on stdin has the members that the real client sends, with the same types, as far as Harken
has values for them.

Source: what Claude Code 2.1.329 sends; `tests/clients/test_command_hooks.py` compares.

`HookEvent`: a notification as an event of Claude Code, without a verdict. The texts of
notifications are those of Claude Code, since scripts compare them.

Source: what Claude Code 2.1.329 sends.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from harken.agents.agent import Agent, subagent_ids
from harken.agents.command_hooks.condition import Condition
from harken.agents.hooks.notifications import (
    ApprovalPending,
    CompactionFinished,
    CompactionStarting,
    HookNotification,
    UserInputPending,
)
from harken.agents.hooks.review import rewritten_arguments
from harken.agents.templates.claude_code_tools import (
    claude_names,
    resolve_path,
    to_claude_arguments,
)
from harken.core import canonical
from harken.core.events import TranscriptEntry
from harken.core.verdict import HookQuestion

Names: TypeAlias = tuple[str, ...] | None
"""The names that matchers are compared with. None: the event takes no matcher."""
WAITING = "Claude is waiting for your input"
WANTED = "Claude needs your permission to use {}"


class HookEvent(msgspec.Struct, frozen=True):
    """An event of Claude Code."""

    event: str
    names: Names
    members: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """The members of its payload besides the common members."""


def hook_events(happening: HookNotification) -> Sequence[HookEvent]:
    """Return the events for a notification, in order."""
    match happening:
        case CompactionStarting(trigger=trigger, instructions=instructions):
            members = {"trigger": trigger, "custom_instructions": instructions or None}
            return [HookEvent("PreCompact", (trigger,), members)]
        case CompactionFinished(trigger=trigger, summary=summary):
            members = {"trigger": trigger, "compact_summary": summary}
            return [session_start_event("compact"), HookEvent("PostCompact", (trigger,), members)]
        case ApprovalPending(request=request):
            return [HookEvent("PermissionRequest", claude_names(request.tool))]
        case UserInputPending(kind=kind, tool=tool):
            message = WANTED.format(claude_names(tool)[0]) if tool else WAITING
            members = {"message": message, "notification_type": kind}
            return [HookEvent("Notification", (kind,), members)]


def session_start_event(source: str) -> HookEvent:
    """Return the event for the start of a session, or of a part of it."""
    return HookEvent("SessionStart", (source,), {"source": source})


def session_end_event(reason: str) -> HookEvent:
    """Return the event for the end of a session."""
    return HookEvent("SessionEnd", (reason,), {"reason": reason})


_MODES = {"ask": "default", "edits": "acceptEdits", "all": "bypassPermissions", "plan": "plan"}
_EXIT_CODE_PATTERN = re.compile(r"exit code (\d+)[^\n]*(?:\n|\Z)")
_LINE_NUMBER_PATTERN = re.compile(r"^ *(\d+)\t", re.MULTILINE)
_EVENTS_WITHOUT_MODE = {
    "Notification",
    "PostCompact",
    "PreCompact",
    "SessionEnd",
    "SessionStart",
    "SubagentStart",
}
"""Events without `permission_mode` in their payload."""


class Situation(msgspec.Struct, frozen=True, dict=True):
    """A question or notification with the agents that it concerns."""

    question: HookQuestion
    watched: Agent
    last_opening: int | None
    """The `opened_at` of the session when the hook last judged an input, or None if it has not."""
    hook_event: HookEvent | None = None
    """The event, if no question is asked."""

    @cached_property
    def events(self) -> Sequence[tuple[str, Names]]:
        """The events of this situation, in order, with the names for their matchers."""
        if self.hook_event is not None:
            return ((self.hook_event.event, self.hook_event.names),)
        is_primary = self.watched.state.place == "primary"
        match self.question.point:
            case "input" if is_primary:
                has_begun = self.last_opening == self.watched.session.opened_at
                start = () if has_begun else (("SessionStart", (self._source,)),)
                return (*start, ("UserPromptSubmit", None))
            case "input":
                is_first = self._source == "startup"
                return (("SubagentStart", (self.agent_type,)),) if is_first else ()
            case "action":
                return (("PreToolUse", claude_names(self.tool)),)
            case "result" if self._was_refused:
                return ()  # a refused call was not run, so it did not fail
            case "result":
                event = "PostToolUse" if self._error is None else "PostToolUseFailure"
                return ((event, claude_names(self.tool)),)
            case _ if is_primary:
                return (("Stop", None),)
            case _:
                return (("SubagentStop", (self.agent_type,)),)

    @property
    def agent_type(self) -> str:
        """The type of a subagent: the name of its template."""
        template = self.watched.state.spec.template
        return "general-purpose" if template is None else template.name

    @property
    def folder(self) -> Path:
        """The real path of the folder where the agents work."""
        return Path(os.path.realpath(self.watched.runtime.world.folder or "."))

    @cached_property
    def tool(self) -> str:
        """Harken's name of the tool, or an empty string without a call."""
        if self.question.call is not None:
            return self.question.call.function.name
        return (self._result.name or "") if self._result is not None else ""

    @cached_property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the call in Harken's terms; empty if the model wrote no object."""
        text = self.question.text
        if self.question.call is None:
            reference, text = self._call
            text = rewritten_arguments(self.watched, reference) or text
        try:
            value = canonical.from_json(text.encode("utf-8", "surrogatepass"))
        except (ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}

    def payload(self, event: str, paths: Mapping[str, str]) -> dict[str, Any]:
        """Return the payload of an event; `paths` are the transcript files."""
        members: dict[str, Any] = {
            "session_id": self.watched.session.path.stem,
            "transcript_path": paths["transcript_path"],
            "cwd": str(self.folder),
        }
        if event not in _EVENTS_WITHOUT_MODE:
            members["permission_mode"] = self._mode
        if self.watched.state.place != "primary":
            members |= {"agent_id": self.watched.agent_id, "agent_type": self.agent_type}
        return {**members, "hook_event_name": event, **self._event_members(event, paths)}

    def _event_members(self, event: str, paths: Mapping[str, str]) -> dict[str, Any]:
        match event:
            case "SessionStart":
                model, hook_event = self.watched._language_model, self.hook_event
                source = self._source if hook_event is None else hook_event.members["source"]
                return {"source": source, **({"model": model} if model else {})}
            case "PermissionRequest":
                return self._tool_members
            case _ if self.hook_event is not None:
                return dict(self.hook_event.members)
            case "UserPromptSubmit":
                return {"prompt": self.question.text}
            case "SubagentStart":
                return {}
            case "PreToolUse" | "PostToolUse" | "PostToolUseFailure":
                return self._call_members(event)
            case "SubagentStop":
                return {
                    **self._stop_members,
                    "agent_transcript_path": paths["agent_transcript_path"],
                }
            case _:
                return self._stop_members

    @property
    def _stop_members(self) -> dict[str, Any]:
        return {
            "stop_hook_active": self._is_stopped,
            "last_assistant_message": self.question.text,
        }

    @cached_property
    def _tool_members(self) -> dict[str, Any]:
        """The tool and its arguments."""
        return {
            "tool_name": claude_names(self.tool)[0],
            "tool_input": to_claude_arguments(self.tool, self.arguments, self.folder),
        }

    def matches(self, condition: str) -> bool:
        """Whether the call matches a condition; an empty condition matches any call."""
        if not condition:
            return True
        names, arguments = claude_names(self.tool), self._tool_members["tool_input"]
        return Condition.parse(condition).matches(names, arguments, self.folder)

    def _call_members(self, event: str) -> dict[str, Any]:
        members = {**self._tool_members, "tool_use_id": self._call_id}
        if event == "PostToolUseFailure":
            return {**members, "error": self._error, "is_interrupt": False}
        if event == "PostToolUse":
            return {**members, "tool_response": self._response}
        return members

    @property
    def _mode(self) -> str:
        permissions = self.watched.runtime.world.permissions
        return "bypassPermissions" if permissions is None else _MODES[permissions.mode]

    @cached_property
    def _source(self) -> str:
        """How the session began: `resume` after any earlier answer or verdict, else `startup`."""
        entries = self.watched.state.transcript or ()
        has_answered = any(entry.role == "assistant" for entry in entries)
        return "resume" if has_answered or self.last_opening is not None else "startup"

    @cached_property
    def _result(self) -> TranscriptEntry | None:
        """The tool result that the question is about, or None."""
        for entry in reversed(self.watched.state.transcript or ()):
            if entry.message_id == self.question.subject:
                return entry
        return None

    @cached_property
    def _call(self) -> tuple[str, str]:
        """The reference of the result's call, and its arguments as the model wrote them."""
        for entry in reversed(self.watched.state.transcript or ()):
            calls = entry.tool_calls or ()
            for call in calls:
                if self._result is not None and call.id == self._result.tool_call_id:
                    suffix = f".{call.id}" if len(calls) > 1 else ""
                    return f"{entry.message_id}{suffix}", call.function.arguments
        return "", ""

    @property
    def _call_id(self) -> str:
        if self.question.call is not None:
            return self.question.call.id
        return (self._result.tool_call_id or "") if self._result is not None else ""

    @cached_property
    def _error(self) -> str | None:
        """The error of an action, or None. A failed command counts as an error there."""
        text = self.question.text
        if self._result is not None and self._result.is_error:
            return text.removeprefix("Error: ")
        match = _EXIT_CODE_PATTERN.match(text) if self.tool == "bash" else None
        if match is None or match[1] == "0":
            return None
        return f"Exit code {match[1]}\n{text[match.end() :]}".rstrip()

    @property
    def _was_refused(self) -> bool:
        """Whether the call was never run: a hook, a rule, the user or its tool refused it."""
        return self._result is not None and self._result.closed in ("denied", "refused")

    @property
    def _response(self) -> Any:
        """The result in the form of Claude Code's tools."""
        text = self.question.text
        match self.tool:
            case "bash":
                match = _EXIT_CODE_PATTERN.match(text)
                out = text[match.end() :] if match else text
                out = "" if out == "(no output)" else out.rstrip("\n")
                return {"stdout": out, "stderr": "", "interrupted": False, "isImage": False}
            case "read":
                return {"type": "text", "file": self._file_response(text)}
            case "write":
                kind = "create" if text.startswith("Created") else "update"
                content = self.arguments.get("content")
                return {"type": kind, "filePath": self._file_path, "content": content}
            case "edit":
                return {
                    "filePath": self._file_path,
                    "oldString": self.arguments.get("old_string"),
                    "newString": self.arguments.get("new_string"),
                    "replaceAll": self.arguments.get("replace_all", False),
                }
            case "task":
                subagent_id = subagent_ids(self.watched).get(str(self.arguments.get("name")))
                members = {"status": "completed", "prompt": self.arguments.get("prompt")}
                content = [{"type": "text", "text": text}]
                return {
                    **members,
                    **({"agentId": subagent_id} if subagent_id else {}),
                    "content": content,
                }
            case _:
                return text

    def _file_response(self, text: str) -> dict[str, Any]:
        numbers = [int(number) for number in _LINE_NUMBER_PATTERN.findall(text)]
        return {
            "filePath": self._file_path,
            "content": _LINE_NUMBER_PATTERN.sub("", text),
            "numLines": len(numbers),
            "startLine": numbers[0] if numbers else 1,
        }

    @property
    def _file_path(self) -> str:
        return resolve_path(str(self.arguments.get("path", "")), self.folder)

    @property
    def _is_stopped(self) -> bool:
        """Whether a hook blocked an answer of the agent since its last input."""
        for message in reversed(self.watched.session.context(self.watched.agent_id)):
            purpose = message.purpose if isinstance(message, TranscriptEntry) else None
            if message.role == "user" and purpose in (None, "returned"):
                return purpose == "returned"
        return False
