"""`AgentSpec`: the description of an agent, as the log records it.

It has three parts, by what may change them. The identity is set at the birth and stays: only the
parameters may change with the model, and another program may name its agent later. The limits and
the standing belong to the place in the tree: an `agent_moved` may change both, an
`agent_configured` only the limits. A member of None is not set; in a change it stays as it was.

Source: docs/formats/session-log.md, "The spec".
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, TypeVar, cast, get_args

import msgspec

from harken.core import structs
from harken.core.arguments import check_fields
from harken.core.ids import AgentId

HookPoint: TypeAlias = Literal["input", "action", "result", "response"]
"""Where a hook is asked: about what the agent received, is about to do, got, is about to answer."""
PermissionMode: TypeAlias = Literal["ask", "edits", "all", "plan"]
MadeBy: TypeAlias = Literal["guard", "agent", "file", "moved"]
"""Why a hook watches its agent: it is independent of that agent; that agent installed it; a file
that the agent restored did; a move put it there, and it was above that agent before."""
SMART = "smart"
"""The kind of smart agents."""


class Budget(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Limits for an agent together with its subtree. A field of None sets no limit."""

    model_calls: int | None = None
    tokens: int | None = None
    """Input and output together."""
    cost_usd: float | None = None
    depth: int | None = None
    """The maximum number of levels of subagents below the agent."""
    live_subagents: int | None = None
    """The maximum number of live agents below the agent. Hooks that it installed above itself, or
    put there by a move, count with all agents below them: a swap of places gives no extra room."""

    def __post_init__(self) -> None:
        """Raise TypeError for a limit that is no number, ValueError for a negative limit."""
        check_fields(self)
        for name in self.__struct_fields__:
            limit = getattr(self, name)
            if limit is not None and limit < 0:
                raise ValueError(f"Budget: {name} must be 0 or more, not {limit}")


class TemplateOrigin(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The template, or the hook file, from which an agent was created."""

    name: str
    hash: str | None = None
    """BLAKE3 of the file."""


class Copies(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The copies of a hook for the subagents of the agent that it watches."""

    subagents: bool = True
    """Whether they get a copy."""
    instructions: str | None = None
    """Additional instructions for a copy."""


class ForeignAgent(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """An agent of another program."""

    program: str = ""
    """The name of the program, as far as it is known."""
    agent: str | None = None
    """The program's name of the agent."""
    session: str | None = None
    """For the first agent: the program's name of the session."""


class MadeFor(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The call for which a tool created an agent."""

    call: str
    reader: str | None = None
    """The model of the agents that it creates in turn."""


class Identity(
    msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True
):
    """The members that are set at the birth of an agent and never change."""

    kind: str | None = None
    """`smart`, or the name under which the class of a dumb agent is registered."""
    options: dict[str, Any] | None = None
    """For a dumb hook: the options that differ from their defaults."""
    template: TemplateOrigin | None = None
    parameters: dict[str, Any] | None = None
    """Further members of its model requests; another model may need others."""
    keeps: Literal["notes", "all"] | None = None
    """For a smart agent that was born as a hook: the part of its context that it keeps after a
    verdict."""
    copies: Copies | None = None
    original: AgentId | None = None
    """For a copy of a hook: the hook that was copied first."""
    foreign: ForeignAgent | None = None
    """For an agent that another program runs."""
    made_for: MadeFor | None = None
    folder: str | None = None
    """The working folder of the first agent of a chat, an absolute path."""
    task: str | None = None
    """For a subagent that was restored from commits: the task that it got."""
    rerun: dict[str, Any] | None = None
    """For an agent of a rerun: where it continues, and the differences."""

    @property
    def is_recorded(self) -> bool:
        """Whether another program runs the agent."""
        return self.foreign is not None

    @property
    def is_for_subagents(self) -> bool:
        """For a hook: whether subagents of the watched agent get a copy of it."""
        return self.copies is None or self.copies.subagents

    @property
    def is_born_as_hook(self) -> bool:
        """Whether this is a smart agent that was created as a hook.

        If such a hook takes the watched agent's place and gives it back, it is a guard, or not, as
        before.
        """
        return self.keeps is not None


class Limits(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The tools and the budget of an agent."""

    tools: list[str] | None = None
    """The tools that it may use, or None for all."""
    mcp: list[str] | None = None
    """MCP servers by name, which it may use regardless of `tools`."""
    skills: list[str] | None = None
    """The skills that it may use, or None for all."""
    permission: PermissionMode | None = None
    """The widest permission mode for it and all agents below it."""
    budget: Budget | None = None
    """The limits of the agent and all agents below it."""


class Standing(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The role of an agent as a hook."""

    points: list[HookPoint] | None = None
    """The points at which it is asked. Every hook has them, from its birth or its move."""
    made: MadeBy | None = None
    """Why it watches its agent; None is `guard`."""

    @property
    def is_made(self) -> bool:
        """Whether the watched agent, or a file that it restored, created this hook."""
        return self.made in ("agent", "file")

    @property
    def is_guard(self) -> bool:
        """Whether the hook is independent of the watched agent. It is asked last."""
        return self.made in (None, "guard")


NO_LIMITS, NO_STANDING = Limits(), Standing()


class SpecChange(
    msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True
):
    """The limits and the standing that change; members of None stay as they were."""

    limits: Limits = NO_LIMITS
    standing: Standing = NO_STANDING

    def __post_init__(self) -> None:
        """Leave out empty parts: a line contains only members that are set."""
        _share_empty_parts(self)


class AgentSpec(
    Identity, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True
):
    """The description of an agent: its identity, with its limits and its standing."""

    limits: Limits = NO_LIMITS
    standing: Standing = NO_STANDING

    def __post_init__(self) -> None:
        """Leave out empty parts: a line contains only members that are set."""
        _share_empty_parts(self)

    def merge(self, addition: AgentSpec) -> AgentSpec:
        """Return this spec with the members that the addition sets."""
        merged = self.apply(SpecChange(limits=addition.limits, standing=addition.standing))
        members = _set_members(addition)
        return structs.replace(
            merged,
            **{
                name: value for name, value in members.items() if name not in ("limits", "standing")
            },
        )

    def apply(self, change: SpecChange | None) -> AgentSpec:
        """Return this spec after a change of its limits and standing."""
        if change is None:
            return self
        return structs.replace(
            self,
            limits=_replace_members(self.limits, change.limits),
            standing=_replace_members(self.standing, change.standing),
        )

    def change(self, limits: Limits, standing: Standing) -> SpecChange | None:
        """Return the given members that differ from this spec, or None if none differ."""
        change = SpecChange(
            limits=_keep_differences(self.limits, limits),
            standing=_keep_differences(self.standing, standing),
        )
        return None if change == SpecChange() else change

    def with_points(self) -> AgentSpec:
        """Return the spec of a hook. A hook without points of its own is asked at all of them."""
        if self.standing.points is not None:
            return self
        points: list[HookPoint] = sorted(get_args(HookPoint))
        return self.merge(AgentSpec(standing=Standing(points=points)))

    def inherited_by_copy(self, original: AgentId) -> AgentSpec:
        """Return the members that a copy of this hook for another agent has, too."""
        return AgentSpec(
            copies=None if self.is_for_subagents else Copies(subagents=False),
            original=original,
            standing=Standing(
                points=self.standing.points,
                made=self.standing.made if self.standing.is_made else None,
            ),
        )

    def without_role(self) -> AgentSpec:
        """Return the spec of an agent that is no hook, without the members of a hook."""
        return structs.replace(self, keeps=None, copies=None, standing=NO_STANDING)

    def portable(self) -> AgentSpec:
        """Return the spec for another session, without references to this one."""
        return structs.replace(self, original=None, foreign=None, rerun=None)

    @property
    def may_act(self) -> bool:
        """Whether a hook with this spec may use more tools than every hook has."""
        return self.kind == SMART and (self.limits.tools != [] or bool(self.limits.mcp))


_Part = TypeVar("_Part", bound=msgspec.Struct)


def _share_empty_parts(spec: SpecChange | AgentSpec) -> None:
    """Use the same object for all empty parts: only a default object is left out of a line."""
    if spec.limits is not NO_LIMITS and spec.limits == NO_LIMITS:
        msgspec.structs.force_setattr(spec, "limits", NO_LIMITS)
    if spec.standing is not NO_STANDING and spec.standing == NO_STANDING:
        msgspec.structs.force_setattr(spec, "standing", NO_STANDING)


def _set_members(part: msgspec.Struct) -> dict[str, Any]:
    members = {name: getattr(part, name) for name in part.__struct_fields__}
    return {name: value for name, value in members.items() if value is not None}


def _replace_members(part: _Part, change: _Part) -> _Part:
    members = _set_members(change)
    return msgspec.structs.replace(part, **members) if members else part


def _keep_differences(part: _Part, change: _Part) -> _Part:
    members = _set_members(change)
    return type(part)(
        **{name: value for name, value in members.items() if getattr(part, name) != value}
    )


def drop_unknown_from_spec(value: Any, kind: type[msgspec.Struct] = AgentSpec) -> Any:
    """Return the value of a spec without members that this version does not know."""
    if not isinstance(value, dict):
        return value
    members = {name: value[name] for name in kind.__struct_encode_fields__ if name in value}
    return {
        name: drop_unknown_from_spec(inner, _PARTS[name]) if name in _PARTS else inner
        for name, inner in members.items()
    }


_PARTS = cast(
    "dict[str, type[msgspec.Struct]]",
    {
        "limits": Limits,
        "standing": Standing,
        "budget": Budget,
        "template": TemplateOrigin,
        "copies": Copies,
        "foreign": ForeignAgent,
        "made_for": MadeFor,
    },
)

NO_SPEC = AgentSpec()
