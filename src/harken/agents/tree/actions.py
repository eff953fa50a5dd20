"""The structural actions `task` and `terminate`, and functions that all actions share.

Communication goes only up and down the tree; siblings hear each other only in a `discuss`. Mistakes
of a model become tool results, as with any other tool.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from harken.agents import texts
from harken.agents.action_schemas import ACTIONS
from harken.agents.agent import (
    Agent,
    get_agent,
    is_born,
    is_to_be_self_made,
    log_birth,
    unload_agent,
)
from harken.agents.budget import check_birth
from harken.agents.call_result import answer_call
from harken.agents.checkpoints import checkpoint_if_due
from harken.agents.names import check_agent_name, free_name
from harken.agents.rights import allowed_tools, check_model, usable_tools
from harken.agents.structure import AgentReply
from harken.agents.template_setup import create_template_hooks, servers_for
from harken.agents.templates.template import Template
from harken.agents.tree.action_result import ActionResult
from harken.agents.tree.child import create_child
from harken.agents.tree.discussions.order import leader_names
from harken.agents.tree.discussions.rounds import RoundRunner, find_round, open_round
from harken.core import canonical
from harken.core.arguments import format_existing
from harken.core.event_types.spec import AgentSpec, Limits
from harken.core.events import AgentMoved, Cause, InterlocutorsSet, Reference
from harken.core.ids import AgentId, reference_message_id
from harken.core.logged_string import LoggedString
from harken.errors import HarkenError
from harken.session.session import Session
from harken.session.state import Round
from harken.world.result import InvalidArguments, ToolError
from harken.world.tool import ToolContext


async def run_task(
    agent: Agent, call: Reference, arguments: Mapping[str, Any]
) -> ActionResult[AgentReply[Agent]]:
    """Create a subagent and, with a prompt, ask it. Raises InvalidArguments, BudgetExceeded.

    `agent` in the arguments is a new agent, or a class, in place of a plain smart agent.
    """
    opened = find_round(agent, call) or await _open_task(agent, call, arguments)
    if isinstance(opened, ActionResult):
        return opened
    ((answerer, answer, _),) = await RoundRunner(agent, call, opened).run()
    reply = AgentReply(answerer or get_agent(agent, opened.opening.speakers[0]), answer)
    return ActionResult(str(answer), substance=answer.message_id, value=reply)


async def _open_task(
    agent: Agent, call: Reference, arguments: Mapping[str, Any]
) -> Round | ActionResult[AgentReply[Agent]]:
    """Create the subagent. Open a round in which it speaks, or without a prompt answer the call."""
    name = arguments["name"]
    instructions = arguments["instructions"] or arguments["system_prompt"]
    template = find_template(agent, instructions)
    if template is not None:
        instructions = template.instructions
    else:
        instructions = await read_instructions(agent, call, instructions)
    prompt = select_prompt(arguments["prompt"], arguments["user_prompt"])
    check_name(agent, name)
    allowed = allowed_for(agent, arguments["tools"], template)
    model = check_model(agent, arguments["model"], call)
    check_birth(agent.session.state, agent.agent_id)
    servers = servers_for(agent, arguments["tools"], template)
    child = create_child(
        agent,
        arguments.get("agent"),
        instructions,
        allowed,
        template=template,
        spec=AgentSpec(limits=Limits(mcp=servers)),
        model=model,
    )
    hooks = create_hook_copies(child, agent)
    guards = {name for name, hook in hooks if not is_to_be_self_made(hook)}
    hooks += create_template_hooks(template, child, guards)
    checkpoint_if_due(agent, "spawn")  # the child's history goes on into that of its parent
    with agent.session.group():
        log_birth(child, birth_cause(agent, call), name, "subagent")
        install_hooks(hooks, child)
        set_interlocutors(agent, call, [child.agent_id], [])
        if prompt is None:
            reply = AgentReply(child, LoggedString(""))
            text = texts.TASK_RESULT.format(name)
            return answer_call(agent, call, ActionResult(text, value=reply))
        message = log_text_piece(agent, call, prompt)
        opened = open_round(agent, call, [child.agent_id], [], message.message_id)
        agent.inform(child, message)
    return opened


def create_hook_copies(
    child: Agent,
    watched: Agent,
    *,
    own: bool = True,
    below: bool = True,
    there: Collection[AgentId] = (),
) -> list[tuple[str, Agent]]:
    """Return named, unborn copies of the hooks of `watched` for another agent.

    Hooks that watch `child` already, themselves or by another copy, are left out, whatever their
    names.
    own: also copy self-made hooks; below: whether `child` is a subagent, see
    `Agent._logged_copy_for`; there: originals of which `child` gets copies otherwise.
    """
    watching = {*there, *(hook._original_id for hook in (child.hooks if is_born(child) else ()))}
    hooks = [get_agent(watched, id_) for id_ in watched.state.hooks]
    guards = [hook for hook in hooks if not hook.state.spec.standing.is_made]
    self_made = [hook for hook in hooks if hook.state.spec.standing.is_made] if own else []
    copied = [hook for hook in (*guards, *self_made) if hook._original_id not in watching]
    copies = [(hook.name, hook._logged_copy_for(child, below=below)) for hook in copied]
    return [(name, copy) for name, copy in copies if copy is not None]


def install_hooks(
    copies: Sequence[tuple[str, Agent]], child: Agent, but: Collection[str] = ()
) -> None:
    """Install hooks on an agent whose birth is logged, under free names.

    but: further names that are taken.
    """
    used_names = {*but, *(hook.name for hook in child.hooks)}
    for name, copy in copies:
        free = free_name(name, used_names)
        used_names.add(free)
        copy.install(child, free)


async def run_terminate(
    agent: Agent, call: Reference, arguments: Mapping[str, Any]
) -> ActionResult[None]:
    """End a subagent and all agents below it. The log keeps them. Raises InvalidArguments."""
    (child,) = get_subagents(agent, [arguments["name"]])
    checkpoint_if_due(child, "session_end")
    result: ActionResult[None] = ActionResult(texts.TERMINATE_RESULT.format(arguments["name"]))
    with agent.session.group():
        agent.session.append(AgentMoved(agent_id=child.agent_id, place="gone", cause=call))
        answer_call(agent, call, result)
    unload_subtree(agent.session, child.agent_id)
    return result


def birth_cause(agent: Agent, call: Reference) -> Cause:
    """Return the cause of a subagent's birth: the call of the agent above it.

    For a user's command, the birth of that agent comes first.
    """
    is_own = reference_message_id(call) in agent.session.state.cause_owners
    return call if is_own else [agent.state.birth, call]


def end_subtree(session: Session, agent_id: AgentId, cause: Reference) -> None:
    """Remove an agent from the tree, and all agents below it from memory."""
    session.append(AgentMoved(agent_id=agent_id, place="gone", cause=cause))
    unload_subtree(session, agent_id)


def unload_subtree(session: Session, agent_id: AgentId) -> None:
    """Remove an agent and all agents below it from memory."""
    pending = [agent_id]
    for id_ in pending:  # the loop extends it
        state = session.agents[id_]
        pending += [*state.subagents, *state.hooks]
        unload_agent(session, id_)


def affected_subtrees(agent: Agent, action: str, arguments: Mapping[str, Any]) -> set[str] | None:
    """Return the names of the subtrees that a structural call touches, or None for any."""
    if action == "discuss":
        speakers = filter_strings(arguments.get("speakers"))
        listeners = filter_strings(arguments.get("listeners"))
        # Without speakers, those of the last discussion speak.
        return {*speakers, *listeners, *leader_names(arguments)} if speakers else None
    name = arguments.get("name")
    return {name} if isinstance(name, str) and action in ("task", "terminate") else None


def parse_arguments_or_empty(arguments: str) -> Mapping[str, Any]:
    """Return the unchecked arguments that a model wrote, or an empty mapping if unparsable."""
    try:
        value = canonical.from_json(arguments.encode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def filter_strings(value: Any) -> list[str]:
    """Return the strings in a model's unchecked list of names."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


async def read_instructions(agent: Agent, call: Reference, instructions: str | None) -> str | None:
    """Return instructions, read from the file or MCP resource if they name one."""
    if instructions is None or not instructions.startswith(("file:", "mcp:")):
        return instructions
    try:
        return await agent.runtime.world.instructions(instructions, ToolContext(agent, call))
    except ToolError as error:
        raise InvalidArguments(f"instructions {instructions} cannot be read: {error}") from None


def find_template(agent: Agent, instructions: str | None) -> Template | None:
    """Return the template that instructions name, read now, or None if they name none."""
    if instructions is None or not instructions.startswith("template:"):
        return None
    try:
        template = agent.runtime.library.templates.find(
            instructions.removeprefix("template:").strip()
        )
        if template.model is not None:
            agent.runtime.get_model(template.model)  # better now than when it shall answer
    except HarkenError as error:
        raise InvalidArguments(f"instructions {instructions} cannot be used: {error}") from None
    tool_names = {*ACTIONS, *agent.runtime.world.tools}
    template = template.expanded(tool_names)
    for name in template.tools or ():
        if name not in tool_names:
            raise InvalidArguments(
                f"{instructions}: tool {name!r} not found"
                + format_existing(sorted(tool_names), "tools")
            )
    shown_notes = agent.runtime.world.variables.setdefault("notes of templates", set())
    for note in template.notes:
        if note not in shown_notes:
            shown_notes.add(note)
            agent.runtime.notify(note)
    return template


def check_name(agent: Agent, name: str) -> None:
    """Raise InvalidArguments for a name that is taken or could be confused with another party."""
    check_agent_name(name)
    if name in agent.subagents:
        raise InvalidArguments(f"subagent {name!r} exists; choose another name")


def select_prompt(*prompts: str | None) -> str | None:
    """Return the first non-blank prompt, or None if none is set.

    Raises InvalidArguments if all are blank.
    """
    prompt_texts = [text for text in prompts if text is not None]
    prompt = next((text for text in prompt_texts if text.strip()), None)
    if prompt_texts and prompt is None:
        raise InvalidArguments("the prompt is blank: write a text, or omit it")
    return prompt


def allowed_for(
    agent: Agent, wanted: Sequence[str] | None, template: Template | None
) -> list[str] | None:
    """Return the tools that a subagent may use, at most those of its parent and its template."""
    is_limited = wanted is not None or template is not None
    own = usable_tools(agent) if is_limited else {}
    for name in wanted or ():
        if name not in own:
            existing = format_existing(own, "tools", adjective="your")
            raise InvalidArguments(f"you have no tool {name!r} to pass on{existing}")
    limit = template.tools if template is not None else None
    denied = template.denied if template is not None else ()
    if wanted is None and limit is None:
        inherited = allowed_tools(agent)
        if not denied:
            return inherited
        return [tool for tool in (own if inherited is None else inherited) if tool not in denied]
    requested = limit if wanted is None else wanted
    usable = [tool for tool in requested or () if tool in own and tool not in denied]
    return [tool for tool in usable if limit is None or tool in limit]


def get_subagents(agent: Agent, names: Sequence[str]) -> list[Agent]:
    """Return subagents by name. Raises InvalidArguments with the existing names."""
    subagents = agent.subagents
    for name in names:
        if name not in subagents:
            existing = format_existing(subagents, "subagents")
            raise InvalidArguments(f"subagent {name!r} not found{existing}")
    return [subagents[name] for name in dict.fromkeys(names)]


def set_interlocutors(
    agent: Agent, call: Reference, speakers: list[AgentId], listeners: list[AgentId]
) -> None:
    """Log the agents that the next `discuss` addresses, if they change."""
    state = agent.state
    if (state.speakers, state.listeners) == (speakers, listeners):
        return
    agent.session.append(
        InterlocutorsSet(
            agent_id=agent.agent_id, speakers=speakers, listeners=listeners, cause=call
        )
    )


def log_text_piece(agent: Agent, call: Reference, text: str) -> LoggedString:
    """Log a text addressed to other agents once, for all recipients."""
    return LoggedString(text, agent.session.log_piece_of_text(agent.agent_id, text, call))
