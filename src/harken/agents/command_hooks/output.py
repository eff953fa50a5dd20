"""`HookOutput`: the parsed output of a hook command, by Claude Code's protocol.

Exit code 2 denies, with the reason in the JSON or on stderr. Otherwise stdout may be a JSON object
that decides, with any exit code, or, with exit code 0, text. All other cases are failures: a
timeout, a missing program, invalid JSON. A failure stops nothing unless the entry says `onFailure:
"block"`; then it counts as exit code 2.

Source: what Claude Code 2.1.329 makes of each; `tests/clients/test_command_answers.py` compares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from harken.agents import texts
from harken.agents.command_hooks.config import CommandHookConfig
from harken.agents.command_hooks.run import CommandResult
from harken.core import canonical

MAX_CHARACTERS = 10_000
"""The maximum length of a command's texts for an agent; longer texts are truncated."""
Decision: TypeAlias = Literal["", "allow", "ask", "deny"]
_DECISIONS: Mapping[str, Decision] = {"approve": "allow", "block": "deny"}
_PERMISSIONS: Mapping[str, Decision] = {
    "allow": "allow",
    "ask": "ask",
    "defer": "deny",  # and the turn ends
    "deny": "deny",
}
_BEHAVIORS: Mapping[str, Decision] = {"allow": "allow", "deny": "deny"}
_STRENGTH: Sequence[Decision] = ("", "allow", "ask", "deny")
_TEXT_EVENTS = {"UserPromptSubmit", "SessionStart", "PreCompact"}
"""Events at which plain output counts as context."""
_JSON_ONLY_EVENTS = {"PermissionRequest"}
"""Events at which exit code 2 does not deny."""
_UNSUPPORTED = (
    "classifierContext",
    "initialUserMessage",
    "reloadSkills",
    "retry",
    "sessionTitle",
    "terminalSequence",
    "updatedMCPToolOutput",
    "updatedToolOutput",
    "updatedPermissions",
    "watchPaths",
)
"""Members that Harken does not support."""
_STOP_EVENTS = {"Stop", "SubagentStop"}
"""Events at which `onFailure` is ignored: otherwise an agent could never end."""


class HookOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The combined output of the commands for an event."""

    decision: Decision = ""
    reason: str = ""
    context: str = ""
    """The text for the agent."""
    updated: Mapping[str, Any] | None = None
    """Replacement arguments for a tool call."""
    end_reason: str | None = None
    """The reason to end the turn (`continue: false`), or None to continue."""
    messages: tuple[str, ...] = ()
    """Messages for the user."""
    problems: tuple[str, ...] = ()
    """Errors, a line each."""
    unsupported: tuple[str, ...] = ()
    """Unsupported members."""

    def merge(self, other: HookOutput) -> HookOutput:
        """Merge two outputs: the strongest decision, all texts, the last replacement."""
        stronger, weaker = self, other
        if _STRENGTH.index(other.decision) > _STRENGTH.index(self.decision):
            stronger, weaker = other, self
        reasons = [stronger.reason]
        if stronger.decision == weaker.decision:
            reasons.append(weaker.reason)
        return HookOutput(
            decision=stronger.decision,
            reason="\n".join(filter(None, reasons)),
            context="\n".join(filter(None, [self.context, other.context])),
            updated=self.updated if other.updated is None else other.updated,
            end_reason=self.end_reason if other.end_reason is None else other.end_reason,
            messages=(*self.messages, *other.messages),
            problems=(*self.problems, *other.problems),
            unsupported=(*self.unsupported, *other.unsupported),
        )


class _Malformed(Exception):
    """The output of a command violates the protocol."""


def parse_output(entry: CommandHookConfig, result: CommandResult) -> HookOutput:
    """Parse the output of a command that has ended."""
    line = f"{entry.display_line}: "
    background_notes = (
        (f"{line}left something running in the background",)
        if result.has_background_processes
        else ()
    )
    try:
        output = _parse_result(entry, result)
    except _Malformed as error:
        problems = (f"{line}{error}", *background_notes)
        if entry.blocks and entry.event not in _STOP_EVENTS:
            return HookOutput(decision="deny", reason=f"{line}{error}", problems=problems)
        return HookOutput(problems=problems)
    return output.merge(HookOutput(problems=background_notes))


def _parse_result(entry: CommandHookConfig, result: CommandResult) -> HookOutput:
    if result.problem:
        raise _Malformed(result.problem)
    text = result.stdout.removeprefix("\ufeff").strip()  # some programs write a BOM
    is_json = text.startswith("{") and text.endswith("}")
    if result.exit_code == 2 and entry.event not in _JSON_ONLY_EVENTS:
        return _parse_denial(entry, text if is_json else "", result.stderr.strip())
    if is_json:
        return _parse_json(entry.event, text)
    if result.exit_code != 0:
        stderr = " ".join(result.stderr.split())[:300]
        raise _Malformed(f"exit code {result.exit_code}" + (f": {stderr}" if stderr else ""))
    if entry.event in _TEXT_EVENTS:
        return HookOutput(context=_truncate(text))
    if text.startswith("{"):
        raise _Malformed("its output starts like JSON, but is not valid JSON")
    return HookOutput()


def _parse_denial(entry: CommandHookConfig, text: str, stderr: str) -> HookOutput:
    """Return the denial of exit code 2, with the reason in the JSON if that denies, too."""
    try:
        output = _parse_json(entry.event, text) if text else HookOutput()
    except _Malformed:
        output = HookOutput()
    if output.decision == "deny":
        return output
    reason = _truncate(stderr) or texts.COMMAND_DENIED.format(entry.display_line)
    return HookOutput(decision="deny", reason=reason, messages=output.messages)


def _parse_json(event: str, text: str) -> HookOutput:
    try:
        body = canonical.from_json(text.encode())
    except (ValueError, RecursionError):
        raise _Malformed("its output starts like JSON, but is not valid JSON") from None
    assert isinstance(body, dict)  # it is in braces
    specific = body.get("hookSpecificOutput")
    if specific is None:
        specific = {"hookEventName": event}
    if not isinstance(specific, dict):
        raise _Malformed("hookSpecificOutput is not an object")
    if specific.get("hookEventName") != event:
        event_name = str(specific.get("hookEventName"))[:40]
        raise _Malformed(f"hookEventName is {event_name!r}, not {event!r}")
    decision, reason = _parse_decision(body, specific)
    message, updated = _get_text(body, "systemMessage"), _parse_updated_input(specific)
    return HookOutput(
        decision=decision,
        reason=_truncate(reason),
        context=_truncate(_get_text(specific, "additionalContext")),
        updated=None if decision == "deny" else updated,
        end_reason=_end_reason(body, specific, reason),
        messages=(message,) if message else (),
        unsupported=tuple(
            member for member in _UNSUPPORTED if member in specific or member in body
        ),
    )


def _parse_decision(body: Mapping[str, Any], specific: Mapping[str, Any]) -> tuple[Decision, str]:
    """Return the strongest decision and its reason; a permission takes precedence."""
    permission = _get_object(specific, "decision")
    candidates: list[tuple[Decision, str]] = [("", "")]
    for value, decisions, reason in (
        (
            specific.get("permissionDecision"),
            _PERMISSIONS,
            _get_text(specific, "permissionDecisionReason"),
        ),
        (permission.get("behavior"), _BEHAVIORS, _get_text(permission, "message")),
        (body.get("decision"), _DECISIONS, _get_text(body, "reason")),
    ):
        if value is not None:
            if not isinstance(value, str) or value not in decisions:
                raise _Malformed(f"unknown decision {str(value)[:40]!r}")
            decision = decisions[value]
            candidates.append(
                (decision, reason or (texts.COMMAND_REFUSED if decision == "deny" else ""))
            )
    return max(candidates, key=lambda candidate: _STRENGTH.index(candidate[0]))


def _end_reason(body: Mapping[str, Any], specific: Mapping[str, Any], reason: str) -> str | None:
    """Return the reason to end the turn, or None to continue."""
    if _get_flag(body, "continue") is False:
        return _get_text(body, "stopReason") or reason or texts.COMMAND_ENDED_TURN
    if specific.get("permissionDecision") == "defer":
        return _get_text(specific, "permissionDecisionReason") or texts.COMMAND_DEFERRED
    if _get_flag(_get_object(specific, "decision"), "interrupt"):
        return reason or texts.COMMAND_ENDED_TURN
    return None


def _parse_updated_input(specific: Mapping[str, Any]) -> Mapping[str, Any] | None:
    permission = _get_object(specific, "decision")
    updated = specific.get("updatedInput", permission.get("updatedInput"))
    if updated is not None and not isinstance(updated, dict):
        raise _Malformed("updatedInput is not an object")
    return updated


def _get_object(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = body.get(name)
    if value is not None and not isinstance(value, dict):
        raise _Malformed(f"{name} is not an object")
    return value or {}


def _get_flag(body: Mapping[str, Any], name: str) -> bool | None:
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise _Malformed(f"{name} is neither true nor false")
    return value


def _get_text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise _Malformed(f"{name} is not a string")
    return value or ""


def _truncate(text: str) -> str:
    if len(text) <= MAX_CHARACTERS:
        return text
    return text[:MAX_CHARACTERS] + texts.COMMAND_TEXT_TRUNCATED.format(len(text))
