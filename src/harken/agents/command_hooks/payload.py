"""`Situation`: a question to a hook, as the event of Claude Code that a command is told of.

What a command reads on stdin has the members that the real client sends, with the same types, as
far as there is something to say here.

Source: what Claude Code 2.1.329 sends; `tests/clients/test_command_hooks.py` compares.

`HookEvent`: what happens to an agent, as the event of Claude Code that a command is told of.

Beside questions: nobody waits for a verdict. The words of notifications are those of Claude Code,
which scripts compare with.

Source: what Claude Code 2.1.329 sends.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from harken.agents.agent import Agent
from harken.agents.command_hooks.condition import Condition
from harken.agents.hooks.notifications import (
    ApprovalPending,
    CompactionFinished,
    CompactionStarting,
    Happening,
    UserInputPending,
)
from harken.agents.hooks.verdict_log import rewritten_arguments
from harken.agents.templates.claude_code_tools import names_of, real, to_claude_arguments
from harken.core import canonical
from harken.core.events import TranscriptEntry
from harken.core.ids import reference_number
from harken.core.messages import text_of
from harken.core.verdict import HookQuestion

Names: TypeAlias = tuple[str, ...] | None
"""What a matcher is compared with; None: the event takes no matcher."""


WAITING = "Claude is waiting for your input"


WANTED = "Claude needs your permission to use {}"


@dataclass(frozen=True, slots=True)
class HookEvent:
    """An event."""

    event: str
    names: Names
    members: Mapping[str, Any] = field(default_factory=dict)
    """What a command hears of it, beside what it always hears."""


def moments_of(happening: Happening) -> Sequence[HookEvent]:
    """Return the events that it is, in order."""
    match happening:
        case CompactionStarting(trigger=trigger, instructions=instructions):
            said = {"trigger": trigger, "custom_instructions": instructions or None}
            return [HookEvent("PreCompact", (trigger,), said)]
        case CompactionFinished(trigger=trigger, summary=summary):
            said = {"trigger": trigger, "compact_summary": summary}
            return [begun("compact"), HookEvent("PostCompact", (trigger,), said)]
        case ApprovalPending(wanted=wanted):
            return [HookEvent("PermissionRequest", names_of(wanted.tool))]
        case UserInputPending(kind=kind, tool=tool):
            message = WANTED.format(names_of(tool)[0]) if tool else WAITING
            said = {"message": message, "notification_type": kind}
            return [HookEvent("Notification", (kind,), said)]


def begun(source: str) -> HookEvent:
    """Return the beginning of a session, or of a part of it."""
    return HookEvent("SessionStart", (source,), {"source": source})


def ended(reason: str) -> HookEvent:
    """Return the end of a session."""
    return HookEvent("SessionEnd", (reason,), {"reason": reason})


_MODES = {"ask": "default", "edits": "acceptEdits", "all": "bypassPermissions", "plan": "plan"}
_EXIT = re.compile(r"exit code (\d+)[^\n]*(?:\n|\Z)")
_REFUSED = re.compile(
    r"Error: (?:Action blocked by hook '|\S+ was not (?:done|run): |\S+ may not use a tool )"
)
_NUMBERED = re.compile(r"^ *(\d+)\t", re.MULTILINE)
_WITHOUT_MODE = {
    "Notification",
    "PostCompact",
    "PreCompact",
    "SessionEnd",
    "SessionStart",
    "SubagentStart",
}
"""Events whose hooks do not hear what may be done without being asked."""


@dataclass(frozen=True)
class Situation:
    """What has happened, or is about to."""

    question: HookQuestion
    watched: Agent
    hook: Agent
    """Who is asked."""
    moment: HookEvent | None = None
    """What happens to the agent, where no question is asked."""

    @cached_property
    def events(self) -> Sequence[tuple[str, Names]]:
        """The events that it is, in order, with what their matchers are compared with."""
        if self.moment is not None:
            return ((self.moment.event, self.moment.names),)
        is_primary = self.watched.state.place == "primary"
        match self.question.point:
            case "input" if is_primary:
                has_begun = self._last_input >= self.watched.session.opened_at
                start = () if has_begun else (("SessionStart", (self._source,)),)
                return (*start, ("UserPromptSubmit", None))
            case "input":
                is_first = self._source == "startup"
                return (("SubagentStart", (self.agent_type,)),) if is_first else ()
            case "action":
                return (("PreToolUse", names_of(self.tool)),)
            case "result" if self._was_refused:
                return ()  # nothing was done, so nothing failed
            case "result":
                event = "PostToolUse" if self._error is None else "PostToolUseFailure"
                return ((event, names_of(self.tool)),)
            case _ if is_primary:
                return (("Stop", None),)
            case _:
                return (("SubagentStop", (self.agent_type,)),)

    @property
    def agent_type(self) -> str:
        """The kind of a subagent: its template."""
        template = self.watched.state.spec.get("template")
        name = template.get("name") if isinstance(template, dict) else None
        return name if isinstance(name, str) else "general-purpose"

    @property
    def folder(self) -> Path:
        """The real folder where the agents work."""
        return Path(os.path.realpath(self.watched.runtime.world.folder or "."))

    @cached_property
    def tool(self) -> str:
        """Our name of the tool; empty where no call is concerned."""
        if self.question.call is not None:
            return self.question.call.function.name
        return (self._result.name or "") if self._result is not None else ""

    @cached_property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the call, in our words; none where a model wrote no object."""
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
        """Return what a command hears; `paths` are those of transcripts."""
        said: dict[str, Any] = {
            "session_id": self.watched.session.path.stem,
            "transcript_path": paths["transcript_path"],
            "cwd": str(self.folder),
        }
        if event not in _WITHOUT_MODE:
            said["permission_mode"] = self._mode
        if self.watched.state.place != "primary":
            said |= {"agent_id": self.watched.agent_id, "agent_type": self.agent_type}
        return {**said, "hook_event_name": event, **self._own(event, paths)}

    def _own(self, event: str, paths: Mapping[str, str]) -> dict[str, Any]:
        match event:
            case "SessionStart":
                model, moment = self.watched.language_model, self.moment
                source = self._source if moment is None else moment.members["source"]
                return {"source": source, **({"model": model} if model else {})}
            case "PermissionRequest":
                return self._called
            case _ if self.moment is not None:
                return dict(self.moment.members)
            case "UserPromptSubmit":
                return {"prompt": self.question.text}
            case "SubagentStart":
                return {}
            case "PreToolUse" | "PostToolUse" | "PostToolUseFailure":
                return self._of_tool(event)
            case "SubagentStop":
                return {**self._end, "agent_transcript_path": paths["agent_transcript_path"]}
            case _:
                return self._end

    @property
    def _end(self) -> dict[str, Any]:
        return {
            "stop_hook_active": self._is_stopped,
            "last_assistant_message": self.question.text,
        }

    @cached_property
    def _called(self) -> dict[str, Any]:
        """The tool and its arguments."""
        return {
            "tool_name": names_of(self.tool)[0],
            "tool_input": to_claude_arguments(self.tool, self.arguments, self.folder),
        }

    def fits(self, condition: str) -> bool:
        """Whether the call that it is about is one that a condition means; empty: any."""
        if not condition:
            return True
        names, said = names_of(self.tool), self._called["tool_input"]
        return Condition.parse(condition).holds(names, said, self.folder)

    def _of_tool(self, event: str) -> dict[str, Any]:
        said = {**self._called, "tool_use_id": self._call_id}
        if event == "PostToolUseFailure":
            return {**said, "error": self._error, "is_interrupt": False}
        if event == "PostToolUse":
            return {**said, "tool_response": self._response}
        return said

    @property
    def _mode(self) -> str:
        permissions = self.watched.runtime.world.permissions
        return "bypassPermissions" if permissions is None else _MODES[permissions.mode]

    @cached_property
    def _source(self) -> str:
        """How the session began: anew, or going on with what was said or judged before."""
        entries = self.watched.state.transcript or ()
        has_said = any(one.role == "assistant" for one in entries)
        return "resume" if has_said or self._last_input >= 0 else "startup"

    @cached_property
    def _last_input(self) -> int:
        """The number of the last question to the hook on an input that it answered; -1: none."""
        answered: set[object] = set()
        for entry in reversed(self.hook.state.transcript or ()):
            if entry.is_utterance:
                answered.add(entry.cause)
            elif entry.message_id in answered and text_of(entry.content).startswith("[input] "):
                return reference_number(entry.message_id)
        return -1

    @cached_property
    def _result(self) -> TranscriptEntry | None:
        """The result that was got."""
        for entry in reversed(self.watched.state.transcript or ()):
            if entry.message_id == self.question.subject:
                return entry
        return None

    @cached_property
    def _call(self) -> tuple[str, str]:
        """How the call of the result is referred to, and its arguments as the model wrote them."""
        for entry in reversed(self.watched.state.transcript or ()):
            calls = entry.tool_calls or ()
            for one in calls:
                if self._result is not None and one.id == self._result.tool_call_id:
                    several = f".{one.id}" if len(calls) > 1 else ""
                    return f"{entry.message_id}{several}", one.function.arguments
        return "", ""

    @property
    def _call_id(self) -> str:
        if self.question.call is not None:
            return self.question.call.id
        return (self._result.tool_call_id or "") if self._result is not None else ""

    @cached_property
    def _error(self) -> str | None:
        """What went wrong in an action; None: nothing. A command that fails is a failure there."""
        text = self.question.text
        if self._result is not None and self._result.is_error:
            return text.removeprefix("Error: ")
        ended = _EXIT.match(text) if self.tool == "bash" else None
        if ended is None or ended[1] == "0":
            return None
        return f"Exit code {ended[1]}\n{text[ended.end() :]}".rstrip()

    @property
    def _was_refused(self) -> bool:
        """Whether the call was never run: a hook, a rule, the user or its tool did not take it."""
        is_error = self._result is not None and self._result.is_error
        return is_error and _REFUSED.match(self.question.text) is not None

    @property
    def _response(self) -> Any:
        """The result as the tools of Claude Code give theirs."""
        text = self.question.text
        match self.tool:
            case "bash":
                ended = _EXIT.match(text)
                out = text[ended.end() :] if ended else text
                out = "" if out == "(no output)" else out.rstrip("\n")
                return {"stdout": out, "stderr": "", "interrupted": False, "isImage": False}
            case "read":
                return {"type": "text", "file": self._file(text)}
            case "write":
                kind = "create" if text.startswith("Created") else "update"
                content = self.arguments.get("content")
                return {"type": kind, "filePath": self._path, "content": content}
            case "edit":
                return {
                    "filePath": self._path,
                    "oldString": self.arguments.get("old_string"),
                    "newString": self.arguments.get("new_string"),
                    "replaceAll": self.arguments.get("replace_all", False),
                }
            case "task":
                made = self.watched.subagent_ids.get(str(self.arguments.get("name")))
                said = {"status": "completed", "prompt": self.arguments.get("prompt")}
                content = [{"type": "text", "text": text}]
                return {**said, **({"agentId": made} if made else {}), "content": content}
            case _:
                return text

    def _file(self, text: str) -> dict[str, Any]:
        numbers = [int(one) for one in _NUMBERED.findall(text)]
        return {
            "filePath": self._path,
            "content": _NUMBERED.sub("", text),
            "numLines": len(numbers),
            "startLine": numbers[0] if numbers else 1,
        }

    @property
    def _path(self) -> str:
        return real(str(self.arguments.get("path", "")), self.folder)

    @property
    def _is_stopped(self) -> bool:
        """Whether a hook sent the agent back since somebody else said something to it."""
        for message in reversed(self.watched.session.context(self.watched.agent_id)):
            if message.role == "user":
                cause = getattr(message, "cause", None)
                if cause is None:
                    return False
                if "]: Your response was blocked (" in text_of(message.content)[:300]:
                    return True
        return False
