"""`HookOutput`: what a command said, in the words of Claude Code's protocol: exit code and JSON.

Exit code 2: it says no, and its JSON or stderr says why. Else stdout may be a JSON object that
decides, with whatever exit code, or, with 0, text. All else, a timeout, a program that is not
there, JSON that is none: a failure, which stops nothing unless the entry says `onFailure: "block"`;
then it counts as 2.

Source: what Claude Code 2.1.329 makes of each; `tests/clients/test_command_answers.py` compares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from harken.agents.command_hooks.config import CommandHookConfig
from harken.agents.command_hooks.run import CommandResult
from harken.core import canonical

MAX_CHARACTERS = 10_000
"""Of what a command has to say to an agent; more is cut."""
Decision: TypeAlias = Literal["", "allow", "ask", "deny"]
_DECISIONS: Mapping[str, Decision] = {"approve": "allow", "block": "deny"}
_PERMISSIONS: Mapping[str, Decision] = {
    "allow": "allow",
    "ask": "ask",
    "defer": "deny",  # and the turn ends
    "deny": "deny",
}
_BEHAVIORS: Mapping[str, Decision] = {"allow": "allow", "deny": "deny"}
_DEFERRED = "a hook put the action off"
_STRENGTH: Sequence[Decision] = ("", "allow", "ask", "deny")
_AS_TEXT = {"UserPromptSubmit", "SessionStart", "PreCompact"}
"""Events at which what a command prints counts as it is."""
_IN_JSON_ONLY = {"PermissionRequest"}
"""Events at which exit code 2 is no answer."""
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
"""Members that mean something there and nothing here."""
_STOPPING = {"Stop", "SubagentStop"}
"""Events at which `onFailure` counts for nothing: an agent could never end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookOutput:
    """What commands said to one event."""

    decision: Decision = ""
    reason: str = ""
    context: str = ""
    """What the agent shall hear."""
    updated: Mapping[str, Any] | None = None
    """The arguments with which a tool shall be run instead."""
    ends: str | None = None
    """Why the turn shall end (`continue: false`); None: it goes on."""
    messages: tuple[str, ...] = ()
    """For the user."""
    problems: tuple[str, ...] = ()
    """What went wrong, a line each."""
    unsupported: tuple[str, ...] = ()
    """Members that count for nothing here."""

    def joined(self, other: HookOutput) -> HookOutput:
        """Return both as one: the strongest decision, all that is to be heard, the last change."""
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
            ends=self.ends if other.ends is None else other.ends,
            messages=(*self.messages, *other.messages),
            problems=(*self.problems, *other.problems),
            unsupported=(*self.unsupported, *other.unsupported),
        )


class _Malformed(Exception):
    """What a command printed is not what the protocol says."""


def answer_of(entry: CommandHookConfig, ended: CommandResult) -> HookOutput:
    """Return what a command that has ended said."""
    line = f"{entry.shown}: "
    left = (f"{line}left something running in the background",) if ended.left else ()
    try:
        found = _said(entry, ended)
    except _Malformed as error:
        problems = (f"{line}{error}", *left)
        if entry.blocks and entry.event not in _STOPPING:
            return HookOutput(decision="deny", reason=f"{line}{error}", problems=problems)
        return HookOutput(problems=problems)
    return found.joined(HookOutput(problems=left))


def _said(entry: CommandHookConfig, ended: CommandResult) -> HookOutput:
    if ended.problem:
        raise _Malformed(ended.problem)
    text = ended.stdout.removeprefix("\ufeff").strip()  # some programs begin all output so
    is_json = text.startswith("{") and text.endswith("}")
    if ended.exit_code == 2 and entry.event not in _IN_JSON_ONLY:
        return _no(entry, text if is_json else "", ended.stderr.strip())
    if is_json:
        return _read(entry.event, text)
    if ended.exit_code != 0:
        said = " ".join(ended.stderr.split())[:300]
        raise _Malformed(f"exit code {ended.exit_code}" + (f": {said}" if said else ""))
    if entry.event in _AS_TEXT:
        return HookOutput(context=_cut(text))
    if text.startswith("{"):
        raise _Malformed("what it printed begins as JSON and is none")
    return HookOutput()


def _no(entry: CommandHookConfig, text: str, stderr: str) -> HookOutput:
    """Return what exit code 2 says: no, with the reason in the JSON, where that says no, too."""
    try:
        found = _read(entry.event, text) if text else HookOutput()
    except _Malformed:
        found = HookOutput()
    if found.decision == "deny":
        return found
    why = _cut(stderr) or f"{entry.shown} says no, and not why"
    return HookOutput(decision="deny", reason=why, messages=found.messages)


def _read(event: str, text: str) -> HookOutput:
    try:
        said = canonical.from_json(text.encode())
    except (ValueError, RecursionError):
        raise _Malformed("what it printed begins as JSON and is none") from None
    assert isinstance(said, dict)  # it is in braces
    own = said.get("hookSpecificOutput")
    if own is None:
        own = {"hookEventName": event}
    if not isinstance(own, dict):
        raise _Malformed("hookSpecificOutput is no object")
    if own.get("hookEventName") != event:
        named = str(own.get("hookEventName"))[:40]
        raise _Malformed(f"hookEventName is {named!r}, not {event!r}")
    decision, reason = _decision(said, own)
    message, updated = _text(said, "systemMessage"), _updated(own)
    return HookOutput(
        decision=decision,
        reason=_cut(reason),
        context=_cut(_text(own, "additionalContext")),
        updated=None if decision == "deny" else updated,
        ends=_end(said, own, reason),
        messages=(message,) if message else (),
        unsupported=tuple(one for one in _UNSUPPORTED if one in own or one in said),
    )


def _decision(said: Mapping[str, Any], own: Mapping[str, Any]) -> tuple[Decision, str]:
    """Return the strongest decision and why; a permission says more than a plain decision."""
    asked = _object(own, "decision")
    found: list[tuple[Decision, str]] = [("", "")]
    for value, words, reason in (
        (own.get("permissionDecision"), _PERMISSIONS, _text(own, "permissionDecisionReason")),
        (asked.get("behavior"), _BEHAVIORS, _text(asked, "message")),
        (said.get("decision"), _DECISIONS, _text(said, "reason")),
    ):
        if value is not None:
            if not isinstance(value, str) or value not in words:
                raise _Malformed(f"there is no decision {str(value)[:40]!r}")
            decision = words[value]
            found.append((decision, reason or ("a hook said no" if decision == "deny" else "")))
    return max(found, key=lambda one: _STRENGTH.index(one[0]))


def _end(said: Mapping[str, Any], own: Mapping[str, Any], reason: str) -> str | None:
    """Return why the turn shall end; None: it goes on."""
    if _flag(said, "continue") is False:
        return _text(said, "stopReason") or reason or "a hook ended the turn"
    if own.get("permissionDecision") == "defer":
        return _text(own, "permissionDecisionReason") or _DEFERRED
    if _flag(_object(own, "decision"), "interrupt"):
        return reason or "a hook ended the turn"
    return None


def _updated(own: Mapping[str, Any]) -> Mapping[str, Any] | None:
    asked = _object(own, "decision")
    updated = own.get("updatedInput", asked.get("updatedInput"))
    if updated is not None and not isinstance(updated, dict):
        raise _Malformed("updatedInput is no object")
    return updated


def _object(own: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = own.get(name)
    if value is not None and not isinstance(value, dict):
        raise _Malformed(f"{name} is no object")
    return value or {}


def _flag(said: Mapping[str, Any], name: str) -> bool | None:
    value = said.get(name)
    if value is not None and not isinstance(value, bool):
        raise _Malformed(f"{name} is neither true nor false")
    return value


def _text(said: Mapping[str, Any], name: str) -> str:
    value = said.get(name)
    if value is not None and not isinstance(value, str):
        raise _Malformed(f"{name} is no text")
    return value or ""


def _cut(text: str) -> str:
    if len(text) <= MAX_CHARACTERS:
        return text
    return f"{text[:MAX_CHARACTERS]}\n[cut: {len(text):,} characters]"
