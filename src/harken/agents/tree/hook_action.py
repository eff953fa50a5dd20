"""`hook` and `quit`: hooks that are created at run time, and that leave by their own choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harken.agents import texts
from harken.agents.agent import Agent, birth_spec, get_agent
from harken.agents.budget import check_birth
from harken.agents.call_result import answer_call
from harken.agents.dumb_agent import DumbAgent
from harken.agents.hooks.smart_hook import is_judging
from harken.agents.names import check_agent_name, free_name
from harken.agents.rights import (
    allowed_tools,
    check_model,
    create_subagent,
    usable_tools,
)
from harken.agents.template_setup import servers_for
from harken.agents.templates.template import Template
from harken.agents.tool_agent import ToolAgent
from harken.agents.tree.action_result import ActionResult
from harken.agents.tree.actions import (
    allowed_for,
    create_hook_copies,
    find_template,
    install_hooks,
    read_instructions,
)
from harken.agents.tree.child import create_child
from harken.core.event_types.spec import AgentSpec, HookPoint, Limits, Standing
from harken.core.events import AgentMoved, HookLeaving, Reference
from harken.core.ids import reference_message_id
from harken.core.verdict import HOOK_POINTS
from harken.errors import HarkenError
from harken.world.result import InvalidArguments

MAX_HOOKS = 16
"""Maximum hooks above an agent that agents, not the user, installed."""


async def run_hook(
    agent: Agent, call: Reference, arguments: Mapping[str, Any]
) -> ActionResult[Agent]:
    """Install a hook on the caller, or on the agent that a calling hook watches.

    Raises InvalidArguments, BudgetExceeded.
    """
    watched = get_watched(agent) if agent.state.place == "hook" else agent
    name, instructions = arguments["name"], arguments["instructions"]
    # Hooks that its own hooks create are its own, too.
    is_mine = watched is agent or not agent.state.spec.standing.is_guard
    owners = agent.session.state.cause_owners
    is_own = is_mine and reference_message_id(call) in owners
    name = hook_name(
        watched, name, is_own=is_own, is_users=reference_message_id(call) not in owners
    )
    if is_own:
        check_birth(agent.session.state, watched.agent_id, lower=-1)
    own = arguments.get("agent")
    if own is not None:
        is_smart_class = isinstance(own, type) and issubclass(own, ToolAgent)
        # As with instructions, a hook has no more tools than its creator passes on.
        hook = create_child(agent, own, None, [] if is_smart_class else allowed_tools(agent))
    elif instructions is not None and instructions.startswith("hook:"):
        hook = _create_named_hook(agent, watched, instructions, arguments)
    else:
        hook = await _create_smart_hook(agent, call, arguments)
    guards: list[tuple[str, Agent]] = []
    if is_own:
        mark = AgentSpec(standing=Standing(made="agent"))
        hook._birth_spec = hook._birth_spec.merge(mark)
        if birth_spec(hook).may_act:
            guards = create_hook_copies(hook, watched, own=False)
    with agent.session.group():
        hook.install(watched, name, cause=[watched.state.birth, call])
        install_hooks(guards, hook)
        text = texts.HOOK_RESULT.format(name, watched.name)
        return answer_call(agent, call, ActionResult(text, value=hook))


async def run_quit(
    agent: Agent, call: Reference, arguments: Mapping[str, Any]
) -> ActionResult[None]:
    """Let the calling hook leave after its verdict.

    A hook that is not judging a question, because a trigger woke it or it just gave its place to
    another agent, leaves at once.
    """
    get_watched(agent)
    if is_judging(agent):
        result: ActionResult[None] = ActionResult(texts.QUIT_AFTER_VERDICT)
        with agent.session.group():
            if isinstance(agent, DumbAgent):
                agent._leave_after_verdict()
            elif agent.state.leaving is None:
                agent.session.append(HookLeaving(agent_id=agent.agent_id, cause=call))
            return answer_call(agent, call, result)
    result = ActionResult(texts.QUIT_AT_TURN_END)
    with agent.session.group():
        agent.session.append(AgentMoved(agent_id=agent.agent_id, place="gone", cause=call))
        answer_call(agent, call, result)
    return result


def new_hook(
    maker: Agent,
    instructions: str,
    *,
    points: Sequence[HookPoint] | None = None,
    tools: Sequence[str] | None = (),
    template: Template | None = None,
    spec: AgentSpec | None = None,
    model: str | None = None,
) -> Agent:
    """Return an unborn smart hook with the world of `maker`, and its model unless one is given.

    `install(watched, name)` installs it. points: the points at which it is asked (None: all).
    tools: its tools besides those of every hook. spec: further members of its birth, such as
    `keeps` and `copies`.
    """
    point_list = sorted(HOOK_POINTS) if points is None else [*points]
    role = AgentSpec(keeps="notes", standing=Standing(points=point_list))
    full_spec = role if spec is None else role.merge(spec)
    return create_subagent(maker, instructions.strip(), tools, template, full_spec, model=model)


async def _create_smart_hook(agent: Agent, call: Reference, arguments: Mapping[str, Any]) -> Agent:
    """Create a smart hook from the instructions in the arguments. Raises InvalidArguments."""
    instructions, tool_names = arguments["instructions"], arguments["tools"]
    template = find_template(agent, instructions)
    text = template.instructions if template else await read_instructions(agent, call, instructions)
    if text is None or not text.strip():
        raise InvalidArguments("a hook needs instructions: write them")
    tools = allowed_for(agent, tool_names if template else tool_names or [], template)
    servers = servers_for(agent, tool_names if template else tool_names or [], template)
    return new_hook(
        agent,
        text,
        points=arguments["points"],
        tools=tools,
        template=template,
        spec=AgentSpec(limits=Limits(mcp=servers)),
        model=check_model(agent, arguments["model"], call),
    )


def _create_named_hook(
    agent: Agent, watched: Agent, reference: str, arguments: Mapping[str, Any]
) -> Agent:
    """Create the named hook that the instructions refer to. Raises InvalidArguments."""
    finder, name = agent.runtime.library.hooks, reference.removeprefix("hook:").strip()
    if any(arguments[name] is not None for name in ("points", "tools", "model")):
        raise InvalidArguments(f"points, tools and model are defined by {reference}: omit them")
    if finder is None:
        raise InvalidArguments(f"{reference} not found: this runtime has no hook library")
    try:
        hook: Agent = finder.create(name, watched)
    except HarkenError as error:
        raise InvalidArguments(f"{reference} cannot be used: {error}") from None
    if hook._language_model is not None:
        allowed = hook._spec().limits.tools
        tools = [tool for tool in usable_tools(agent) if allowed is None or tool in allowed]
        hook._birth_spec = hook._birth_spec.merge(AgentSpec(limits=Limits(tools=tools)))
    return hook


def get_watched(hook: Agent) -> Agent:
    """Return the agent that a hook watches. Raises InvalidArguments if it is no hook."""
    state = hook.state
    if state.place != "hook" or state.parent is None:
        raise InvalidArguments(f"{hook.name} is not a hook")
    return get_agent(hook, state.parent)


def hook_name(watched: Agent, name: str, *, is_own: bool = False, is_users: bool = False) -> str:
    """Return a free name for a new hook.

    Raises InvalidArguments for a name that another hook has, and for too many hooks. A self-made
    hook takes neither room nor a name from guards or from the user's hooks.
    """
    check_agent_name(name)
    hooks = watched.hooks
    rivals = [hook for hook in hooks if is_own or not hook.state.spec.standing.is_made]
    if name in [hook.name for hook in rivals]:
        raise InvalidArguments(f"hook {name!r} exists; choose another name")
    if not is_users and len(rivals) >= MAX_HOOKS:
        raise InvalidArguments(f"{watched.name} has {len(rivals)} hooks: no more than {MAX_HOOKS}")
    return free_name(name, [hook.name for hook in hooks])
