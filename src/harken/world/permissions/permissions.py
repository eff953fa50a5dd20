"""Permissions: which actions need the approval of the user, and which are denied.

A mode sets the default; rules apply to certain tools and agents. A refusal is a result that the
agent reads. Structural actions (`task`, `discuss`, ...) are not checked here.

Source: docs/explanation/permissions.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec

from harken.core import canonical
from harken.core.arguments import check_arguments
from harken.world.loop_lock import LoopLock
from harken.world.permissions.mode import Mode, narrower
from harken.world.permissions.pattern import literal_path
from harken.world.permissions.rules import PermissionRule, PermissionRules
from harken.world.permissions.subjects import PathSubject, Subject, subjects_of
from harken.world.result import ToolError
from harken.world.tool import Tool, ToolContext
from harken.world.user import ApprovalRequest, UserUnavailable


class Decision(msgspec.Struct, frozen=True):
    """The decision on a call: free, ask or denied."""

    kind: Literal["free", "ask", "denied"]
    reason: str = ""
    """Why it is denied."""


FREE, ASK = Decision("free"), Decision("ask")


@dataclass(frozen=True, slots=True)
class PermissionRequest:
    """A call that an agent requests, with the agents and mode that restrict it."""

    tool: Tool
    arguments: Mapping[str, Any]
    """The validated arguments, as the tool takes them."""
    agents: Sequence[str]
    """The name of the agent, then of its ancestors: restrictions of an ancestor apply to it."""
    folder: Path | None = None
    """The folder of the world."""
    mode: Mode | None = None
    """The most restrictive mode in the specs of these agents. None if they set no mode."""
    subjects: Sequence[Subject] = field(init=False)

    def __post_init__(self) -> None:
        """Compute the subjects of the call."""
        subjects = subjects_of(self.tool, self.arguments, self.folder)
        object.__setattr__(self, "subjects", subjects)

    @classmethod
    def of(
        cls, tool: Tool, arguments: Mapping[str, Any], caller: ToolContext, folder: Path | None
    ) -> PermissionRequest:
        """Return the request of a calling agent."""
        agent = caller.agent
        names, agents = [agent.name], agent.session.agents
        state = agents.get(agent.agent_id)
        mode = _narrow_mode(None, state)
        while state is not None and len(names) <= len(agents):
            state = None if state.parent is None else agents.get(state.parent)
            names += [] if state is None else [state.name or state.id]
            mode = _narrow_mode(mode, state)
        return cls(tool, arguments, names, folder, mode)

    def is_allowed_by(self, rules: Sequence[PermissionRule]) -> bool:
        """Whether these rules certainly allow it."""
        own_rules = [rule for rule in rules if rule.concerns(self.tool.name, self.agents[:1])]
        if any(rule.pattern is None for rule in own_rules):
            return True
        patterns = [rule.pattern for rule in own_rules if rule.pattern is not None]
        return bool(self.subjects) and all(subject.is_within(patterns) for subject in self.subjects)

    def match_rule(self, rule: PermissionRule) -> Literal["yes", "no", "unknown"]:
        """Whether a rule that denies or asks applies; without a subject, any pattern does."""
        if not any(rule.concerns(name, self.agents) for name in self.tool.lock_key):
            return "no"
        if rule.pattern is None or not self.subjects:
            return "yes"
        matches = {subject.match_pattern(rule.pattern) for subject in self.subjects}
        return "yes" if "yes" in matches else "unknown" if "unknown" in matches else "no"

    def excludes_path(self, rules: Sequence[PermissionRule], path: str) -> bool:
        """Whether one of these rules denies or asks, or may, for this path."""
        subject = PathSubject(path, self.folder)
        return any(subject.match_pattern(rule.pattern or "**") != "no" for rule in rules)

    @property
    def only_edits(self) -> bool:
        """Whether it changes only files below the world's folder."""
        are_inside = (
            isinstance(subject, PathSubject) and subject.is_inside for subject in self.subjects
        )
        return self.tool.edits_files and self.folder is not None and all(are_inside)

    def sensitivity(self, places: Sequence[Path]) -> str:
        """Return why an edit decides which programs run later, empty if it does not.

        places: sensitive files and folders besides the listed ones.
        """
        subjects = self.subjects if self.tool.edits_files else ()
        reasons = (
            subject.sensitivity(places) for subject in subjects if isinstance(subject, PathSubject)
        )
        return next(filter(None, reasons), "")

    def is_explicitly_allowed_by(
        self, rules: Sequence[PermissionRule], places: Sequence[Path]
    ) -> bool:
        """Whether rules allow an edit of sensitive paths and name such paths explicitly.

        `edit`, `edit(**)` and `edit(.*)` name none: they are written with ordinary files in mind.
        """
        own_rules = [rule for rule in rules if rule.concerns(self.tool.name, self.agents[:1])]
        patterns = [rule.pattern for rule in own_rules if rule.pattern is not None]
        explicit_patterns = [
            pattern
            for pattern in patterns
            if PathSubject(literal_path(pattern), self.folder).sensitivity(places)
        ]
        return all(
            subject.is_within(explicit_patterns)
            if isinstance(subject, PathSubject) and subject.sensitivity(places)
            else len(patterns) < len(own_rules) or subject.is_within(patterns)
            for subject in self.subjects
        )


@check_arguments
@dataclass(slots=True)
class Permissions:
    """The permission mode and rules shared by all agents of a run."""

    mode: Mode = "ask"
    rules: PermissionRules = field(default_factory=PermissionRules)
    sensitive_paths: Sequence[Path] = ()
    """Sensitive files and folders of this user besides those listed in `sensitive_paths`.

    Edits of them are asked in all modes.
    """
    on_rule: Callable[[PermissionRule], None] | None = None
    """Called with each rule that the user accepts for later calls, to store it."""
    unavailable_count: int = field(default=0, init=False)
    """The number of calls that were refused because no user was available."""
    _question_lock: LoopLock = field(default_factory=LoopLock, init=False)

    async def check(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        caller: ToolContext,
        folder: Path | None = None,
    ) -> None:
        """Return if a call may run, after asking the user if needed.

        Raises ToolError with the reason if not.

        `arguments` are as the tool takes them; relative paths start at `folder`. Questions are
        asked one at a time. Raises what the preview of the tool raises: an impossible call is not
        asked.
        """
        request = PermissionRequest.of(tool, arguments, caller, folder)
        if self._check_free(request):
            return
        async with self._question_lock.current():
            if not self._check_free(
                request
            ):  # The answer to an earlier question may have added a rule.
                await self._ask(request, caller)

    def decide(self, request: PermissionRequest) -> Decision:
        """Decide on a call: deny beats ask, ask beats allow, and all rules beat the mode."""
        is_uncertain = False
        for rule in self.rules.deny:
            match = request.match_rule(rule)
            if match == "yes":
                return Decision("denied", f"denied by the rule {rule}")
            is_uncertain = is_uncertain or match == "unknown"
        mode = self.mode if request.mode is None else narrower(self.mode, request.mode)
        if mode == "plan" and not (request.tool.reads_only or request.tool.reports):
            return Decision("denied", "plan mode allows no changes: describe your plan")
        if is_uncertain or any(request.match_rule(rule) != "no" for rule in self.rules.ask):
            return ASK
        if request.tool.reports or (request.tool.reads_only and not request.tool.sends_data):
            return FREE
        if request.is_allowed_by(self.rules.allow):
            is_sensitive = bool(request.sensitivity(self.sensitive_paths))
            allowed = not is_sensitive or request.is_explicitly_allowed_by(
                self.rules.allow, self.sensitive_paths
            )
            return FREE if allowed else ASK
        if request.sensitivity(self.sensitive_paths):
            return ASK
        return FREE if mode == "all" or (mode == "edits" and request.only_edits) else ASK

    def find_path_filter(self, request: PermissionRequest) -> Callable[[str], bool] | None:
        """Return a predicate for the paths that rules exclude from an allowed call.

        Return None if there are none.

        A rule that applies to the call as such is not considered again: it was already asked and
        answered.
        """
        if request.tool.subject_kind != "path":
            return None
        names, agents = request.tool.lock_key, request.agents
        rules = [
            rule
            for rule in (*self.rules.deny, *self.rules.ask)
            if any(rule.concerns(name, agents) for name in names)
            and request.match_rule(rule) == "no"
        ]
        return partial(request.excludes_path, rules) if rules else None

    def suggest_patterns(self, request: PermissionRequest) -> list[PermissionRule]:
        """Return rules that would make a call free from now on, the narrowest first."""
        patterns: list[str | None] = [None]
        if request.subjects:
            patterns = (
                list(request.subjects[0].suggest_patterns()) if len(request.subjects) == 1 else []
            )
        candidates = [PermissionRule.of(request.tool.name, pattern) for pattern in patterns]
        return [rule for rule in candidates if self._with_rule(rule).decide(request) == FREE]

    def _with_rule(self, rule: PermissionRule) -> Permissions:
        rules = replace(self.rules, allow=[*self.rules.allow, rule])
        return Permissions(self.mode, rules, self.sensitive_paths)

    def _check_free(self, request: PermissionRequest) -> bool:
        """Whether a call is free. Raises ToolError if it is denied."""
        decision = self.decide(request)
        if decision.kind == "denied":
            text = f"{request.tool.name} was not run: {decision.reason}"
            raise ToolError(text, closed="refused")
        return decision == FREE

    async def _ask(self, request: PermissionRequest, caller: ToolContext) -> None:
        preview = await _format_preview(request, caller)
        rules = self.suggest_patterns(request)
        approval_request = ApprovalRequest(
            agent=request.agents[0],
            tool=request.tool.name,
            subject="\n".join(subject.text for subject in request.subjects),
            preview=preview,
            rules=[str(rule) for rule in rules],
            is_required=self._is_required(request),
            note=_format_note(request, self.sensitive_paths),
        )
        if caller.user is None:
            self.unavailable_count += 1
            raise ToolError(_format_unavailable(request, rules), closed="refused")
        try:
            decision = await caller.user.approve(approval_request)
        except UserUnavailable as error:
            self.unavailable_count += 1
            text = f"{_format_unavailable(request, rules)} ({error})"
            raise ToolError(text, closed="refused") from None
        if not decision.allowed:
            reason = f": {decision.reason}" if decision.reason else "; no reason was given"
            raise ToolError(
                f"{request.tool.name} was not run: the user denied it{reason}",
                cause=decision.decision_id,
                closed="refused",
            )
        for rule in rules:
            if str(rule) == decision.rule:
                self._accept(rule)

    def _is_required(self, request: PermissionRequest) -> bool:
        """Whether a rule or a sensitive path requires the question, not only the mode."""
        rules = (*self.rules.deny, *self.rules.ask)
        return bool(request.sensitivity(self.sensitive_paths)) or any(
            request.match_rule(rule) != "no" for rule in rules
        )

    def _accept(self, rule: PermissionRule) -> None:
        self.rules.allow.append(rule)
        if self.on_rule is not None:
            self.on_rule(rule)


def _narrow_mode(mode: Mode | None, state: Any) -> Mode | None:
    """Return a mode, or that in the spec of an agent if it is more restrictive."""
    spec_mode: Mode | None = None if state is None else state.spec.limits.permission
    if spec_mode is None or mode is None:
        return spec_mode or mode
    return narrower(mode, spec_mode)


async def _format_preview(request: PermissionRequest, caller: ToolContext) -> str:
    """Describe the effect of a call with the preview of its tool, else with its arguments."""
    if request.tool.preview is not None:
        by_name = {} if request.tool.caller is None else {request.tool.caller: caller}
        return await request.tool.preview(**request.arguments, **by_name)
    return msgspec.json.format(canonical.to_json_line(request.arguments), indent=2).decode()


def _format_note(request: PermissionRequest, places: Sequence[Path]) -> str:
    """Return a note for the user on an edit of a sensitive path, and on how the tool runs."""
    reason = request.sensitivity(places)
    note = f"This controls which programs run later ({reason})." if reason else ""
    return "\n".join(filter(None, (note, request.tool.note)))


def _format_unavailable(request: PermissionRequest, rules: Sequence[PermissionRule]) -> str:
    """Return the error for a call that no user can approve, with the ways to allow it."""
    rule = f"a rule that allows it, such as {rules[0]}" if rules else "a rule that allows it"
    return (
        f"{request.tool.name} was not run: it needs the approval of the user, "
        "and no user is available. The user can allow it at the start of the "
        f"session with {rule}, or with another --permission mode. Continue "
        "without it, or report what is missing."
    )
