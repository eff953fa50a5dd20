"""Permissions: which actions need the user's leave, and which are not done at all.

A mode says what holds in general, rules say what holds for some tools and agents. A refusal is
a result that the agent reads. Structural actions (`task`, `discuss`, ...) do not pass here.

Source: docs/explanation/permissions.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from harken.core import canonical
from harken.core.arguments import check_arguments
from harken.world.loop_lock import LoopLock
from harken.world.permissions.pattern import literal_path
from harken.world.permissions.rules import PermissionRule, PermissionRules
from harken.world.permissions.subjects import PathSubject, Subject, subjects_of
from harken.world.result import ToolError
from harken.world.tool import Tool, ToolContext
from harken.world.user import ApprovalRequest, UserUnavailable

Mode: TypeAlias = Literal["ask", "edits", "all", "plan"]
"""`ask`: reading is free, all else is asked; `edits`: editing files below the folder is free,
too; `all`: nothing is asked; `plan`: nothing but reading is done. An edit of a sensitive path,
which decides which programs run later (`.git`, `.bashrc`, ...), is asked in all modes."""


_FROM_NARROW: Sequence[Mode] = ("plan", "ask", "edits", "all")


def narrower(one: Mode, other: Mode) -> Mode:
    """Return the mode in which less may be done.

    >>> narrower("all", "ask")
    'ask'
    """
    return min(one, other, key=_FROM_NARROW.index)


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of a call."""

    kind: Literal["free", "ask", "denied"]
    reason: str = ""
    """Why it is denied."""


FREE, ASK = Decision("free"), Decision("ask")


@dataclass(frozen=True, slots=True)
class PermissionRequest:
    """A call that an agent wants to make."""

    tool: Tool
    arguments: Mapping[str, Any]
    """As the tool takes them."""
    agents: Sequence[str]
    """The name of the agent, then of those above it: what they may not, it may not."""
    folder: Path | None = None
    """The world's."""
    mode: Mode | None = None
    """The narrowest that the births of these agents give them; None: they give none."""
    subjects: Sequence[Subject] = field(init=False)

    def __post_init__(self) -> None:
        """Work out what it is about."""
        subjects = subjects_of(self.tool, self.arguments, self.folder)
        object.__setattr__(self, "subjects", subjects)

    @classmethod
    def of(
        cls, tool: Tool, arguments: Mapping[str, Any], caller: ToolContext, folder: Path | None
    ) -> PermissionRequest:
        """Return the wish of a calling agent."""
        agent = caller.agent
        names, agents = [agent.name], agent.session.agents
        state = agents.get(agent.agent_id)
        mode = _narrowed(None, state)
        while state is not None and len(names) <= len(agents):
            state = None if state.parent is None else agents.get(state.parent)
            names += [] if state is None else [state.name or state.id]
            mode = _narrowed(mode, state)
        return cls(tool, arguments, names, folder, mode)

    def is_allowed_by(self, rules: Sequence[PermissionRule]) -> bool:
        """Whether it surely is what these rules allow."""
        mine = [rule for rule in rules if rule.concerns(self.tool.name, self.agents[:1])]
        if any(rule.pattern is None for rule in mine):
            return True
        patterns = [rule.pattern for rule in mine if rule.pattern is not None]
        return bool(self.subjects) and all(one.is_within(patterns) for one in self.subjects)

    def holds(self, rule: PermissionRule) -> Literal["yes", "no", "unknown"]:
        """Whether it is what a rule denies or asks; where the tool does not say, it is."""
        if not any(rule.concerns(name, self.agents) for name in self.tool.lock_key):
            return "no"
        if rule.pattern is None or not self.subjects:
            return "yes"
        held = {one.is_held(rule.pattern) for one in self.subjects}
        return "yes" if "yes" in held else "unknown" if "unknown" in held else "no"

    def is_kept(self, rules: Sequence[PermissionRule], path: str) -> bool:
        """Whether one of these rules denies or asks what it would do with this path, or may."""
        subject = PathSubject(path, self.folder)
        return any(subject.is_held(rule.pattern or "**") != "no" for rule in rules)

    @property
    def only_edits(self) -> bool:
        """Whether files below the world's folder are all it changes."""
        plain = (isinstance(one, PathSubject) and one.is_inside for one in self.subjects)
        return self.tool.edits_files and self.folder is not None and all(plain)

    def sensitivity(self, places: Sequence[Path]) -> str:
        """Return why an edit decides which programs run later, empty if it does not.

        places: sensitive files and folders beside the listed ones.
        """
        subjects = self.subjects if self.tool.edits_files else ()
        reasons = (one.sensitivity(places) for one in subjects if isinstance(one, PathSubject))
        return next(filter(None, reasons), "")

    def is_named_by(self, rules: Sequence[PermissionRule], places: Sequence[Path]) -> bool:
        """Whether rules allow an edit of sensitive paths and name such paths themselves.

        `edit`, `edit(**)` and `edit(.*)` name none: who writes them thinks of ordinary files.
        """
        mine = [rule for rule in rules if rule.concerns(self.tool.name, self.agents[:1])]
        patterns = [rule.pattern for rule in mine if rule.pattern is not None]
        naming = [
            pattern
            for pattern in patterns
            if PathSubject(literal_path(pattern), self.folder).sensitivity(places)
        ]
        return all(
            subject.is_within(naming)
            if isinstance(subject, PathSubject) and subject.sensitivity(places)
            else len(patterns) < len(mine) or subject.is_within(patterns)
            for subject in self.subjects
        )


@check_arguments
@dataclass(slots=True)
class Permissions:
    """What agents may do without being asked; shared by all agents of a run."""

    mode: Mode = "ask"
    rules: PermissionRules = field(default_factory=PermissionRules)
    steering: Sequence[Path] = ()
    """Sensitive files and folders of this user beside those listed in `sensitive_paths`: edits of
    them are asked in all modes."""
    on_rule: Callable[[PermissionRule], None] | None = None
    """Told of each rule that the user accepted from now on, to keep it for later runs."""
    unasked: int = field(default=0, init=False)
    """How many calls were refused because nobody could be asked."""
    _asking: LoopLock = field(default_factory=LoopLock, init=False)

    async def check(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        caller: ToolContext,
        folder: Path | None = None,
    ) -> None:
        """Let a call pass that may run. Raises ToolError, with the reason, where it may not.

        `arguments` are as the tool takes them; relative paths start at `folder`. Questions are
        put one at a time. Raises what the tool's preview raises: what cannot be done is not asked.
        """
        wish = PermissionRequest.of(tool, arguments, caller, folder)
        if self._passes(wish):
            return
        async with self._asking.here():
            if not self._passes(wish):  # the answer to an earlier question may have settled it
                await self._ask(wish, caller)

    def decide(self, wish: PermissionRequest) -> Decision:
        """Say what becomes of a call: deny beats ask, ask beats allow, and all beat the mode."""
        doubtful = False
        for rule in self.rules.deny:
            held = wish.holds(rule)
            if held == "yes":
                return Decision("denied", f"the rule {rule} forbids it")
            doubtful = doubtful or held == "unknown"
        mode = self.mode if wish.mode is None else narrower(self.mode, wish.mode)
        if mode == "plan" and not wish.tool.reads_only:
            return Decision("denied", "in plan mode nothing is changed: say what you plan")
        if doubtful or any(wish.holds(rule) != "no" for rule in self.rules.ask):
            return ASK
        if wish.tool.reads_only and not wish.tool.sends_data:
            return FREE
        if wish.is_allowed_by(self.rules.allow):
            is_sensitive = bool(wish.sensitivity(self.steering))
            allowed = not is_sensitive or wish.is_named_by(self.rules.allow, self.steering)
            return FREE if allowed else ASK
        if wish.sensitivity(self.steering):
            return ASK
        return FREE if mode == "all" or (mode == "edits" and wish.only_edits) else ASK

    def keeps(self, wish: PermissionRequest) -> Callable[[str], bool] | None:
        """Return what says which paths rules keep from a call that may run; None: none does.

        A rule that holds for the call as such has had its say: it was asked, and answered.
        """
        if wish.tool.subject_kind != "path":
            return None
        names, agents = wish.tool.lock_key, wish.agents
        rules = [
            rule
            for rule in (*self.rules.deny, *self.rules.ask)
            if any(rule.concerns(name, agents) for name in names) and wish.holds(rule) == "no"
        ]
        return partial(wish.is_kept, rules) if rules else None

    def offers(self, wish: PermissionRequest) -> list[PermissionRule]:
        """Return rules that would make a call free from now on, the narrowest first."""
        patterns: list[str | None] = [None]
        if wish.subjects:
            patterns = list(wish.subjects[0].offers()) if len(wish.subjects) == 1 else []
        found = [PermissionRule.of(wish.tool.name, pattern) for pattern in patterns]
        return [rule for rule in found if self._with(rule).decide(wish) == FREE]

    def _with(self, rule: PermissionRule) -> Permissions:
        rules = replace(self.rules, allow=[*self.rules.allow, rule])
        return Permissions(self.mode, rules, self.steering)

    def _passes(self, wish: PermissionRequest) -> bool:
        """Return whether a call is free. Raises ToolError where it is denied."""
        decision = self.decide(wish)
        if decision.kind == "denied":
            raise ToolError(f"{wish.tool.name} was not done: {decision.reason}")
        return decision == FREE

    async def _ask(self, wish: PermissionRequest, caller: ToolContext) -> None:
        preview = await _preview(wish, caller)
        rules = self.offers(wish)
        wanted = ApprovalRequest(
            agent=wish.agents[0],
            tool=wish.tool.name,
            subject="\n".join(subject.text for subject in wish.subjects),
            preview=preview,
            rules=[str(rule) for rule in rules],
            is_required=self._is_required(wish),
            note=_note(wish, self.steering),
        )
        if caller.user is None:
            self.unasked += 1
            raise ToolError(_nobody(wish, rules))
        try:
            leave = await caller.user.approve(wanted)
        except UserUnavailable as error:
            self.unasked += 1
            raise ToolError(f"{_nobody(wish, rules)} ({error})") from None
        if not leave.allowed:
            reason = f": {leave.reason}" if leave.reason else "; no reason was given"
            raise ToolError(
                f"{wish.tool.name} was not done: the user did not allow it{reason}",
                cause=leave.said,
            )
        for rule in rules:
            if str(rule) == leave.rule:
                self._accept(rule)

    def _is_required(self, wish: PermissionRequest) -> bool:
        """Whether it is asked for another reason than that nothing allows it."""
        rules = (*self.rules.deny, *self.rules.ask)
        return bool(wish.sensitivity(self.steering)) or any(
            wish.holds(rule) != "no" for rule in rules
        )

    def _accept(self, rule: PermissionRule) -> None:
        self.rules.allow.append(rule)
        if self.on_rule is not None:
            self.on_rule(rule)


def _narrowed(mode: Mode | None, state: Any) -> Mode | None:
    """Return a mode, or what the birth of an agent says where that is narrower."""
    given = None if state is None else state.spec.get("permission")
    own: Mode | None = next((one for one in _FROM_NARROW if one == given), None)
    if own is None or mode is None:
        return own or mode
    return narrower(mode, own)


async def _preview(wish: PermissionRequest, caller: ToolContext) -> str:
    """Say what would happen: as the tool says it, else the arguments."""
    if wish.tool.preview is not None:
        by_name = {} if wish.tool.caller is None else {wish.tool.caller: caller}
        return await wish.tool.preview(**wish.arguments, **by_name)
    return msgspec.json.format(canonical.to_json_line(wish.arguments), indent=2).decode()


def _note(wish: PermissionRequest, places: Sequence[Path]) -> str:
    """Return a line for the user about an edit of a sensitive path, or of how the tool runs."""
    reason = wish.sensitivity(places)
    note = f"This decides which programs run later ({reason})." if reason else ""
    return "\n".join(filter(None, (note, wish.tool.note)))


def _nobody(wish: PermissionRequest, rules: Sequence[PermissionRule]) -> str:
    """Say to an agent, and to whoever reads along, how the call could be allowed."""
    rule = f"a rule that allows it, such as {rules[0]}" if rules else "a rule that allows it"
    return (
        f"{wish.tool.name} was not done: it needs the user's leave, and nobody is there to give "
        f"it. Whoever starts the session may allow it: by {rule}, or by another --permission "
        f"mode. Go on without it, or say what is missing."
    )
