"""`Answer`: what a command said, in the words of Claude Code's protocol: exit code and JSON.

Exit code 0: stdout may be a JSON object that decides, or text. 2: it says no, and stderr says why.
Any other, a timeout, a program that is not there, JSON that is none: a failure, which stops nothing
unless the entry says `onFailure: "block"`; then it counts as 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from harken.agents.command_hooks.command import Ended
from harken.agents.command_hooks.entry import Entry
from harken.core import codec

MAX_CHARACTERS = 10_000
"""Of what a command has to say to an agent; more is cut."""
Decision: TypeAlias = Literal["", "allow", "ask", "deny"]
_DECISIONS: Mapping[Any, Decision] = {
    None: "",
    "approve": "allow",
    "block": "deny",
    "allow": "allow",
    "ask": "ask",
    "deny": "deny",
}
_STRENGTH: Sequence[Decision] = ("", "allow", "ask", "deny")
_HEARD_AS_TEXT = {"UserPromptSubmit", "SessionStart"}
"""Events at which what a command prints is heard by the agent, as it is."""
_STOPPING = {"Stop", "SubagentStop"}
"""Events at which `onFailure` counts for nothing: an agent could never end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
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

    def joined(self, other: Answer) -> Answer:
        """Return both as one: the strongest decision, all that is to be heard, the last change."""
        stronger, weaker = self, other
        if _STRENGTH.index(other.decision) > _STRENGTH.index(self.decision):
            stronger, weaker = other, self
        reasons = [stronger.reason]
        if stronger.decision == weaker.decision:
            reasons.append(weaker.reason)
        return Answer(
            decision=stronger.decision,
            reason="\n".join(filter(None, reasons)),
            context="\n".join(filter(None, [self.context, other.context])),
            updated=self.updated if other.updated is None else other.updated,
            ends=self.ends if other.ends is None else other.ends,
            messages=(*self.messages, *other.messages),
            problems=(*self.problems, *other.problems),
        )


class _Malformed(Exception):
    """What a command printed is not what the protocol says."""


def answer_of(entry: Entry, ended: Ended) -> Answer:
    """Return what a command that has ended said."""
    line = f"{entry.shown}: "
    left = (f"{line}left something running in the background",) if ended.left else ()
    try:
        if ended.problem:
            raise _Malformed(ended.problem)
        if ended.exit_code == 2:
            why = _cut(ended.stderr.strip()) or f"{entry.shown} says no, and not why"
            return Answer(decision="deny", reason=why, problems=left)
        if ended.exit_code != 0:
            said = " ".join(ended.stderr.split())[:300]
            raise _Malformed(f"exit code {ended.exit_code}" + (f": {said}" if said else ""))
        found = _read(entry.event, ended.stdout)
    except _Malformed as error:
        problems = (f"{line}{error}", *left)
        if entry.blocks and entry.event not in _STOPPING:
            return Answer(decision="deny", reason=f"{line}{error}", problems=problems)
        return Answer(problems=problems)
    return found.joined(Answer(problems=left))


def _read(event: str, stdout: str) -> Answer:
    text = stdout.strip()
    if not text.startswith("{"):
        return Answer(context=_cut(text)) if event in _HEARD_AS_TEXT else Answer()
    try:
        said = codec.decode(text.encode())
    except (ValueError, RecursionError):
        if event in _HEARD_AS_TEXT:
            return Answer(context=_cut(text))
        raise _Malformed("what it printed begins as JSON and is none") from None
    if not isinstance(said, dict):
        raise _Malformed("what it printed is no JSON object")
    own = said.get("hookSpecificOutput")
    if own is None:
        own = {}
    if not isinstance(own, dict):
        raise _Malformed("hookSpecificOutput is no object")
    if own and own.get("hookEventName", event) != event:
        raise _Malformed(f"hookEventName is {str(own['hookEventName'])[:40]!r}, not {event!r}")
    decision, reason = _decision(said, own)
    ends = None
    if _flag(said, "continue") is False:
        ends = _text(said, "stopReason") or reason or "a hook ended the turn"
    message = _text(said, "systemMessage")
    return Answer(
        decision=decision,
        reason=_cut(reason),
        context=_cut(_text(own, "additionalContext")),
        updated=_updated(own, decision),
        ends=ends,
        messages=(message,) if message else (),
    )


def _decision(said: Mapping[str, Any], own: Mapping[str, Any]) -> tuple[Decision, str]:
    """Return what was decided and why; a permission says more than a plain decision."""
    for value, reason in (
        (own.get("permissionDecision"), _text(own, "permissionDecisionReason")),
        (said.get("decision"), _text(said, "reason")),
    ):
        if value is not None:
            if not isinstance(value, str) or value not in _DECISIONS:
                raise _Malformed(f"there is no decision {str(value)[:40]!r}")
            decision = _DECISIONS[value]
            return decision, reason or ("a hook said no" if decision == "deny" else "")
    return "", ""


def _updated(own: Mapping[str, Any], decision: Decision) -> Mapping[str, Any] | None:
    updated = own.get("updatedInput")
    if updated is not None and not isinstance(updated, dict):
        raise _Malformed("updatedInput is no object")
    return None if decision == "deny" else updated


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
