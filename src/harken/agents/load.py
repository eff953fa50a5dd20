"""`load_session`: open a session with its root agent, new or restored from its log.

Work that cannot go on is closed here: a model call without an answer is marked, and a call whose
tool may have acted gets a result that says so. Everything else goes on in the next turn.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile
from pathlib import Path

from harken.agents.agent import Agent, load_agent, log_birth, unload_agent
from harken.agents.call_result import close_moved_call
from harken.agents.runtime import AgentRuntime
from harken.agents.smart_agent import SmartAgent
from harken.agents.tool_agent import can_go_on
from harken.agents.turn.compaction import end_compactions
from harken.agents.turn.model_call import log_interrupted, unanswered_requests
from harken.core.arguments import check_arguments
from harken.core.event_types.spec import AgentSpec, Budget, Limits, SpecChange
from harken.core.events import AgentConfigured, ContextLoaded, Segment, TranscriptEdited
from harken.core.ids import reference_number
from harken.core.messages import extend_context_hash
from harken.errors import InvalidLog
from harken.llm.base import Model
from harken.session.session import Session, SessionOptions
from harken.session.state import AgentState, OpenCall


@check_arguments
def load_session(
    session_file: str | Path,
    *,
    runtime: AgentRuntime | None = None,
    system_prompt: str | None = None,
    name: str | None = None,
    budget: Budget | None = None,
    options: SessionOptions | None = None,
    model: Model | str | None = None,
) -> tuple[Agent, Session]:
    """Return the root agent and the session of a log.

    A new file (or an empty one) gets a root agent with this prompt, name and budget; an existing
    one is restored: the whole tree, transcripts, names, models, counters. Where `runtime` has
    another model than the root had, the agents that shared the root's model go on with it; a
    budget replaces the root's. `model`, or its name, is short for a runtime with this model.
    Raises what `Session` raises, and ConfigError for a model that cannot be used.
    """
    runtime = runtime or AgentRuntime()
    if model is not None:
        runtime = replace(runtime, model=model)  # AgentRuntime resolves a name
    options = options or SessionOptions()
    redact = options.redact or runtime.redact
    session = Session(session_file, options=replace(options, redact=redact))
    try:
        if session.state.root is None:
            root: Agent = SmartAgent(session, system_prompt, runtime=runtime, budget=budget)
            folder, template = session.options.folder, session.options.template
            root._birth_spec = AgentSpec(
                folder=None if folder is None else str(folder), template=template
            )
            log_birth(root, name=name)
            session.sync()
        else:
            root = _restore_root(session, runtime)
            _complete_root(root, system_prompt, budget)
    except BaseException:
        session.close()
        raise
    return root, session


@check_arguments
def start_from_commit(agent: Agent, ctx: str, *, stop: str = "compaction") -> None:
    """Start an agent that has no conversation yet from the conversation of a commit.

    `ctx` is its full name, `stop` as in `materialize`. An agent with a system prompt of its own
    keeps it in place of the one that the conversation begins with. Calls at the end that had no
    result get one before the agent goes on. Raises ValueError for an agent that has begun,
    NameNotFound, ObjectNotFound, and InvalidEvent where the session has no resolver.
    """
    session, entries = agent.session, agent.state.transcript or []
    if agent.state.commit_id is not None or any(entry.role != "system" for entry in entries):
        raise ValueError(f"{agent.name} has already started: start from a commit with a new agent")
    event = ContextLoaded(agent_id=agent.agent_id, ctx=ctx, count=0, context_hash="", stop=stop)
    resolver = session.options.resolver
    messages = [] if resolver is None else resolver(event)
    for message in messages:
        event.context_hash = extend_context_hash(event.context_hash, message)
    event.count = len(messages)
    session.append(event)
    if entries:
        systems = sum(1 for _ in takewhile(lambda message: message.role == "system", messages))
        segments = [Segment(start=event.count, stop=event.count + len(entries))]
        segments.append(Segment(start=systems, stop=event.count))
        edit = TranscriptEdited(agent_id=agent.agent_id, segments=segments, reason="context_loaded")
        session.append(edit)
    session.sync()


def _restore_root(session: Session, runtime: AgentRuntime) -> Agent:
    if session.state.root is None:
        raise InvalidLog(session.path, "has no agent")
    root = load_agent(session, session.state.root, runtime)
    _change_model(session, runtime)
    for request in unanswered_requests(session):
        log_interrupted(session, request)
    for state in list(session.agents.values()):
        if state.open_calls:
            agent = load_agent(session, state.id, runtime)
            for call in list(state.open_calls.values()):
                if not can_go_on(agent, call):
                    agent._close_call(call)
                elif _has_moved_since(state, call):
                    close_moved_call(agent, call)
    end_compactions(session)
    for state in session.agents.values():
        if not session.state.is_live(state.id):
            unload_agent(session, state.id)  # a long session holds only live agents
    if runtime.checkpoints is not None:
        runtime.checkpoints.finish(session, runtime.notify)  # entries that a crash left uncommitted
    return root


def _has_moved_since(state: AgentState, call: OpenCall) -> bool:
    """Whether an agent got another place after it made a call: its turn has ended."""
    return reference_number(state.placed_by) > reference_number(call.reference)


def _complete_root(root: Agent, system_prompt: str | None, budget: Budget | None) -> None:
    """Complete the root after a crash at its birth, and set its current budget."""
    if budget is not None and budget != root.state.spec.limits.budget:
        spec = SpecChange(limits=Limits(budget=budget))
        root.session.append(AgentConfigured(agent_id=root.agent_id, spec=spec))


def _change_model(session: Session, runtime: AgentRuntime) -> None:
    """Switch the agents that shared the root's model to the new model."""
    root = session.agents[session.state.root] if session.state.root is not None else None
    model = runtime.default_model
    if model is None or root is None or root.language_model == model.name:
        return
    previous = root.language_model
    if previous is None:
        return  # get_model(None) gives it the new model
    for state in session.agents.values():
        if state.language_model == previous and session.state.is_live(state.id):
            event = AgentConfigured(agent_id=state.id, language_model=model.name)
            session.append(event)
