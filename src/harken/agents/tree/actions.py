"""The structural actions at work: `task`, `discuss`, `terminate`.

Communication goes only up and down the tree; siblings hear each other in a `discuss` alone.
What a model does wrong here becomes a result, as with any other tool.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from harken.agents.action_schemas import ACTIONS
from harken.agents.agent import Agent, unload_agent
from harken.agents.budget import check_birth
from harken.agents.guards import is_made
from harken.agents.names import check_plain, free_name
from harken.agents.template_setup import hooks_of, servers_for
from harken.agents.templates.template import Template
from harken.agents.tool_agent import ToolAgent
from harken.core import canonical
from harken.core.events import AgentMoved, Cause, InterlocutorsSet, Reference
from harken.core.ids import AgentId, reference_message_id
from harken.core.logged_string import LoggedString
from harken.errors import HarkenError
from harken.session.session import Session
from harken.world.result import InvalidArguments, ToolError, ToolResult
from harken.world.tool import ToolContext

INTRODUCED = (
    "You are {}, and take part in a discussion that {} leads. Who else speaks: {}. "
    "Who only listens: {}."
)
"""What each participant is told of the others."""


def handed_through(said: LoggedString) -> ToolResult:
    """Return what one agent said, as a result that represents it."""
    return ToolResult(str(said), substance=said.message_id)


async def run_task(agent: ToolAgent, call: Reference, arguments: Mapping[str, Any]) -> ToolResult:
    """Create a subagent; with a prompt, ask it. Raises InvalidArguments, BudgetExceeded."""
    name = arguments["name"]
    instructions = arguments["instructions"] or arguments["system_prompt"]
    template = template_in(agent, instructions)
    if template is not None:
        instructions = template.instructions
    else:
        instructions = await instructions_in(agent, call, instructions)
    prompt = prompt_in(arguments["prompt"], arguments["user_prompt"])
    check_name(agent, name)
    allowed = allowed_for(agent, arguments["tools"], template)
    check_birth(agent.session.state, agent.agent_id)
    servers = servers_for(agent, arguments["tools"], template)
    child = agent.make_subagent(instructions, allowed, template, servers)
    hooks = copies_for(child, agent)
    guards = {name for name, hook in hooks if not is_made(hook.born_with)}
    hooks += hooks_of(template, child, guards)
    agent.checkpoint_if_due("spawn")  # the child's history goes on into that of its parent
    child.log_birth(birth_cause(agent, call), name, "subagent")
    try:
        install(hooks, child)
    except Exception:
        end_subtree(agent.session, child.agent_id, call)
        raise
    set_interlocutors(agent, call, [child.agent_id], [])
    if prompt is None:
        return ToolResult(f"Created subagent: {name}")
    agent.inform(child, log_text_piece(agent, call, prompt))
    return handed_through((await answer_of(agent, child)).said)


def copies_for(
    child: Agent,
    watched: Agent,
    *,
    own: bool = True,
    below: bool = True,
    there: Collection[AgentId] = (),
) -> list[tuple[str, Agent]]:
    """Return copies, not yet born, of what watches an agent, by name, for somebody else.

    Not of what watches that one already, itself or by another copy, whatever it is called. Guards
    come first: where a crash ends this, nobody has the hooks that the agent made and not those.
    own: also of hooks that the watched agent made; below: whether that other one is a subagent,
    see `Agent.copied_for`; there: originals whose copies it will have besides.
    """
    watching = {*there, *(hook.original_id for hook in (child.hooks if is_born(child) else ()))}
    hooks = [watched.agent_by_id(id_) for id_ in watched.state.hooks]
    guards = [hook for hook in hooks if not is_made(hook.state.spec)]
    made = [hook for hook in hooks if is_made(hook.state.spec)] if own else []
    copied = [hook for hook in (*guards, *made) if hook.original_id not in watching]
    copies = [(hook.name, hook.logged_copy_for(child, below=below)) for hook in copied]
    return [(name, copy) for name, copy in copies if copy is not None]


def install(copies: Sequence[tuple[str, Agent]], child: Agent, but: Collection[str] = ()) -> None:
    """Let hooks watch an agent that was born, under their names where nobody there has them.

    but: other names that none of them may have.
    """
    taken = {*but, *(hook.name for hook in child.hooks)}
    for name, copy in copies:
        called = free_name(name, taken)
        taken.add(called)
        copy.install(child, called)


def is_born(agent: Agent) -> bool:
    """Whether the log has the birth of an agent."""
    return agent.agent_id in agent.session.agents


class AgentReply(NamedTuple):
    """What was answered, and by whom."""

    agent: Agent
    said: LoggedString


def current_agent_at(agent: Agent, one: Agent) -> Agent:
    """Return who stands below an agent now where this one stood: a move may have changed that."""
    agents, at = agent.session.agents, one.state
    for _ in agents:
        if at.parent == agent.agent_id:
            return agent.agent_by_id(at.id)
        if at.parent is None:
            break
        at = agents[at.parent]
    return one


async def answer_of(agent: Agent, one: Agent) -> AgentReply:
    """Let a subagent answer; where another takes its place and owes the answer, let that one."""
    said = await one.response()
    while (now := current_agent_at(agent, one)) is not one and now.has_open_calls:
        one, said = now, await now.response()
    return AgentReply(one, said)


async def run_discuss(
    agent: ToolAgent, call: Reference, arguments: Mapping[str, Any]
) -> ToolResult:
    """Let subagents hear the prompt and speak in turn.

    Raises InvalidArguments for unknown names.
    """
    speakers, listeners = _participants(agent, arguments["speakers"], arguments["listeners"])
    if not speakers:
        raise InvalidArguments(
            "nobody is there to speak: create a subagent first, or name speakers"
        )
    everyone = list(dict.fromkeys([*speakers, *listeners]))
    prompt = prompt_in(arguments["prompt"])
    _check_free(everyone)
    if arguments["speakers"] is not None or arguments["listeners"] is not None:
        ids = [[one.agent_id for one in group] for group in (speakers, listeners)]
        set_interlocutors(agent, call, *ids)
    if prompt is not None:
        for one in everyone:
            await one.finish_calls()
        hearing = [current_agent_at(agent, one) for one in everyone]
        _check_free(hearing)  # again: nobody hears what another cannot hear
        said_to_all = log_text_piece(agent, call, prompt)
        for one in hearing:
            agent.inform(one, said_to_all)
    said: list[tuple[str, LoggedString]] = []
    for speaker in speakers:
        spoke, utterance = await answer_of(agent, current_agent_at(agent, speaker))
        said.append((spoke.name, utterance))
        for other in everyone:
            if other is not speaker:
                spoke.inform(current_agent_at(agent, other), utterance.as_said_by(spoke.name))
    if len(said) == 1 and not listeners:
        return handed_through(said[0][1])
    text = "\n\n".join(utterance.as_said_by(name) for name, utterance in said)
    return ToolResult(text, cause=[one.message_id for _, one in said if one.message_id is not None])


async def run_introduce(
    agent: ToolAgent, call: Reference, arguments: Mapping[str, Any]
) -> ToolResult:
    """Tell subagents who takes part in the discussions to come. Raises InvalidArguments."""
    speakers, listeners = _participants(agent, arguments["speakers"], arguments["listeners"])
    everyone = list(dict.fromkeys([*speakers, *listeners]))
    if not everyone:
        raise InvalidArguments("nobody is there to introduce: create a subagent first")
    _check_free(everyone)
    for one in everyone:
        await one.finish_calls()
    speakers, listeners = (
        [current_agent_at(agent, one) for one in row] for row in (speakers, listeners)
    )
    everyone = [*speakers, *listeners]
    _check_free(everyone)
    set_interlocutors(
        agent, call, *([one.agent_id for one in row] for row in (speakers, listeners))
    )
    for one in everyone:
        others = [other.name for other in speakers if other is not one]
        silent = [other.name for other in listeners if other is not one]
        text = INTRODUCED.format(one.name, agent.name, _all(others), _all(silent))
        agent.inform(one, log_text_piece(agent, call, text))
    names = [_all([one.name for one in row]) for row in (speakers, listeners)]
    return ToolResult(f"Introduced. Who speaks: {names[0]}. Who listens: {names[1]}.")


def _all(names: Sequence[str]) -> str:
    return ", ".join(names) or "nobody"


async def run_terminate(
    agent: ToolAgent, call: Reference, arguments: Mapping[str, Any]
) -> ToolResult:
    """End a subagent and everybody below it; the log keeps them. Raises InvalidArguments."""
    (child,) = get_subagents(agent, [arguments["name"]])
    child.checkpoint_if_due("session_end")
    end_subtree(agent.session, child.agent_id, call)
    return ToolResult(f"Terminated subagent: {arguments['name']}")


def birth_cause(agent: Agent, call: Reference) -> Cause:
    """Return the cause of a subagent's birth: the call of the agent below which it stands.

    Of a command of the user's that agent's own birth comes first.
    """
    is_own = reference_message_id(call) in agent.session.state.cause_owners
    return call if is_own else [agent.state.birth, call]


def end_subtree(session: Session, agent_id: AgentId, cause: Reference) -> None:
    """Take an agent out of the tree, and everybody below it out of memory."""
    session.append(AgentMoved(agent_id=agent_id, place="gone", cause=cause))
    going = [agent_id]
    for one in going:  # grows: everybody below goes too
        state = session.agents[one]
        going += [*state.subagents, *state.hooks]
        unload_agent(session, one)


def affected_subtrees(agent: Agent, action: str, arguments: Mapping[str, Any]) -> set[str] | None:
    """Return the names of the subtrees that a structural call touches; None for "any"."""
    if action == "discuss":
        speakers = {*strings_in(arguments.get("speakers"))}  # without them, those of before speak
        return speakers | {*strings_in(arguments.get("listeners"))} if speakers else None
    name = arguments.get("name")
    return {name} if isinstance(name, str) and action in ("task", "terminate") else None


def parse_arguments_or_empty(arguments: str) -> Mapping[str, Any]:
    """Return the arguments that a model wrote, unchecked; none where they cannot be read."""
    try:
        value = canonical.from_json(arguments.encode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def strings_in(value: Any) -> list[str]:
    """Return the texts in what a model gave as a list of names, unchecked."""
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


async def instructions_in(agent: Agent, call: Reference, given: str | None) -> str | None:
    """Return instructions as they are given, or what the file or MCP resource says they name."""
    if given is None or not given.startswith(("file:", "mcp:")):
        return given
    try:
        return await agent.runtime.world.instructions(given, ToolContext(agent, call))
    except ToolError as error:
        raise InvalidArguments(f"instructions {given} cannot be read: {error}") from None


def template_in(agent: Agent, given: str | None) -> Template | None:
    """Return the template that instructions name, as it is now; None where they name none."""
    if given is None or not given.startswith("template:"):
        return None
    try:
        template = agent.runtime.templates.find(given.removeprefix("template:").strip())
        if template.model is not None:
            agent.runtime.get_model(template.model)  # better now than when it shall answer
    except HarkenError as error:
        raise InvalidArguments(f"instructions {given} cannot be used: {error}") from None
    known = {*ACTIONS, *agent.runtime.world.tools}
    template = template.expanded(known)
    for name in template.tools or ():
        if name not in known:
            there = ", ".join(sorted(known))
            raise InvalidArguments(
                f"{given} names a tool {name!r} that is not here; there is: {there}"
            )
    told = agent.runtime.world.variables.setdefault("notes of templates", set())
    for note in template.notes:
        if note not in told:
            told.add(note)
            agent.runtime.notify(note)
    return template


def check_name(agent: Agent, name: str) -> None:
    """Raise InvalidArguments for a name that is taken, or that would speak as somebody else."""
    check_plain(name)
    if name in agent.subagent_ids:
        raise InvalidArguments(f"there is a subagent {name!r} already; choose another name")


def prompt_in(*given: str | None) -> str | None:
    """Return the first prompt that says something; None where none was given."""
    texts_given = [text for text in given if text is not None]
    said = next((text for text in texts_given if text.strip()), None)
    if texts_given and said is None:
        raise InvalidArguments("the prompt is blank: say something, or leave it out")
    return said


def _check_free(agents: Sequence[Agent]) -> None:
    for agent in agents:
        agent.check_free()


def allowed_for(
    agent: ToolAgent, wanted: Sequence[str] | None, template: Template | None
) -> list[str] | None:
    """Return what a subagent may use: never more than its parent, nor than its template says."""
    for name in wanted or ():
        if name not in agent.tools:
            raise InvalidArguments(f"you have no tool {name!r} to pass on; yours: {_listed(agent)}")
    limit = template.tools if template is not None else None
    denied = template.denied if template is not None else ()
    if wanted is None and limit is None:
        own = agent.allowed
        if not denied:
            return own
        return [one for one in (agent.tools if own is None else own) if one not in denied]
    get_subagents = limit if wanted is None else wanted
    mine = [one for one in get_subagents or () if one in agent.tools and one not in denied]
    return [one for one in mine if limit is None or one in limit]


def _listed(agent: ToolAgent) -> str:
    return ", ".join(agent.tools) or "none"


def get_subagents(agent: Agent, names: Sequence[str]) -> list[Agent]:
    """Return subagents by name. Raises InvalidArguments with the names that there are."""
    ids = agent.subagent_ids
    for name in names:
        if name not in ids:
            there = ", ".join(ids) or "none"
            raise InvalidArguments(f"there is no subagent {name!r}; there is: {there}")
    return [agent.agent_by_id(ids[name]) for name in dict.fromkeys(names)]


def _participants(
    agent: Agent, speakers: Sequence[str] | None, listeners: Sequence[str] | None
) -> tuple[list[Agent], list[Agent]]:
    """Resolve names; what is not given stays, but speakers given alone clear the listeners.

    Where nobody was given, or all who were are gone, the newest subagent speaks.
    """
    state = agent.state
    if speakers is not None:
        speak, listen = get_subagents(agent, speakers), get_subagents(agent, listeners or ())
        return speak, [one for one in listen if one not in speak]
    speak = [agent.agent_by_id(one) for one in state.speakers or state.subagents[-1:]]
    if listeners is not None:
        listen = get_subagents(agent, listeners)
        return [one for one in speak if one not in listen], listen
    listen = [agent.agent_by_id(one) for one in state.listeners]
    return speak, [one for one in listen if one not in speak]


def set_interlocutors(
    agent: Agent, call: Reference, speakers: list[AgentId], listeners: list[AgentId]
) -> None:
    """Log whom the next `discuss` addresses, where that changes."""
    state = agent.state
    if (state.speakers, state.listeners) == (speakers, listeners):
        return
    agent.session.append(
        InterlocutorsSet(
            agent_id=agent.agent_id, speakers=speakers, listeners=listeners, cause=call
        )
    )


def log_text_piece(agent: Agent, call: Reference, text: str) -> LoggedString:
    """Log a text made for others, once, whoever hears it."""
    return LoggedString(text, agent.session.log_piece_of_text(agent.agent_id, text, call))
