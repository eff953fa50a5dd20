"""A request: what an agent's model is asked, with everything about it in the log."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from harken.agents.agent import Agent
from harken.agents.budget import check_spending
from harken.agents.runtime import OnChunk
from harken.agents.tool_agent import Toolset
from harken.agents.turn.model_call import ModelCall
from harken.core.events import LlmRequest, ToolsDefined
from harken.core.ids import MessageId
from harken.core.messages import extend_context_hash
from harken.errors import ConfigError
from harken.llm.base import MessageWindow, Model, ModelRequest
from harken.llm.observer import ObservedAnswer, ObservedCall, tell_all
from harken.llm.retries import reporting_retries
from harken.session.session import Session


async def ask(agent: Agent, model: Model, tools: Toolset, on_chunk: OnChunk | None) -> ModelCall:
    """Ask a model with what an agent has in its context; its answer is in the log then.

    Raises BudgetExceeded, ModelError, ConfigError for an agent that has heard nothing.
    """
    session = agent.session
    check_spending(session.state, agent.agent_id)
    request = request_of(agent, tools)
    if not request.messages:
        raise ConfigError(f"{agent.name} has heard nothing yet: tell it something first")
    seen = ObservedCall(session=session, agent_id=agent.agent_id, model=model.name, request=request)
    told = partial(tell_all, agent.runtime.observers, warn=agent.runtime.notify)
    told(lambda one: one.on_context_assembled(seen))
    request_id = session.append(
        LlmRequest(
            agent_id=agent.agent_id,
            context=agent.state.segments(),
            count=len(request.messages),
            context_hash=request.context_hash,
            model=model.name,
            parameters=dict(request.parameters) or None,
            tools=_tools_id(session, tools),
        )
    )
    asked = replace(seen, request_id=request_id)
    told(lambda one: one.on_llm_request(asked))
    call = ModelCall(session, agent.agent_id, request_id)
    try:
        with reporting_retries(agent.runtime.notify):
            await call.run(model, request, on_chunk)
    finally:
        if call.response is not None and call.response.message_id:
            answer = ObservedAnswer(call=asked, response=call.response, answer=call.said)
            told(lambda one: one.on_llm_response(answer))
    return call


def request_of(agent: Agent, tools: Toolset) -> ModelRequest:
    """Return what a model is asked; the hash of a context that was hashed before goes on."""
    context = agent.session.context(agent.agent_id)
    state = agent.state
    done, context_hash = state.context_hash_state
    for at in range(done, len(context)):
        context_hash = extend_context_hash(context_hash, context[at])
    return ModelRequest(
        agent=agent.name,
        messages=MessageWindow(context, len(context)),
        tools=tools.schemas,
        parameters=state.spec.get("parameters") or {},
        context_hash=context_hash,
        tools_hash=tools.hash,
    )


def _tools_id(session: Session, tools: Toolset) -> MessageId | None:
    """Return the event that holds these schemas, written where no earlier one does."""
    if tools.hash is None:
        return None
    known = session.state.tools.get(tools.hash)
    defined = ToolsDefined(tools=[dict(schema) for schema in tools.schemas], tools_hash=tools.hash)
    return known or session.append(defined)
