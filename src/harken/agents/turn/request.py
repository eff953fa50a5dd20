"""A request to an agent's model, with everything about it in the log."""

from __future__ import annotations

from functools import partial

from harken.agents.agent import Agent
from harken.agents.budget import check_spending
from harken.agents.runtime import OnChunk
from harken.agents.tool_agent import Toolset
from harken.agents.turn.model_call import ModelCall
from harken.core import structs
from harken.core.events import LlmRequest, ToolsDefined
from harken.core.ids import MessageId
from harken.core.messages import extend_context_hash
from harken.errors import ConfigError
from harken.llm.base import MessageWindow, Model, ModelRequest
from harken.llm.observer import ObservedAnswer, ObservedCall, notify_observers
from harken.llm.retries import report_retries
from harken.session.session import Session


async def request_model(
    agent: Agent, model: Model, tools: Toolset, on_chunk: OnChunk | None
) -> ModelCall:
    """Request a model with an agent's context, and log its answer.

    Raises BudgetExceeded, ModelError, and ConfigError for an empty context.
    """
    session = agent.session
    check_spending(session.state, agent.agent_id)
    request = build_request(agent, tools)
    if not request.messages:
        raise ConfigError(f"{agent.name} has no messages yet: send it one first")
    observed_call = ObservedCall(
        session=session, agent_id=agent.agent_id, model=model.name, request=request
    )
    notify = partial(
        notify_observers, agent.runtime.observers.on_model_call, warn=agent.runtime.notify
    )
    notify(lambda observer: observer.on_context_assembled(observed_call))
    request_id = session.append(
        LlmRequest(
            agent_id=agent.agent_id,
            context=agent.state.segments(),
            count=len(request.messages),
            context_hash=request.context_hash,
            model=model.name,
            parameters=dict(request.parameters) or None,
            tools=_ensure_tools_defined(session, tools),
        )
    )
    logged_call = structs.replace(observed_call, request_id=request_id)
    notify(lambda observer: observer.on_llm_request(logged_call))
    call = ModelCall(session, agent.agent_id, request_id)
    try:
        with report_retries(agent.runtime.notify):
            await call.run(model, request, on_chunk)
    finally:
        if call.response is not None and call.response.message_id:
            answer = ObservedAnswer(
                call=logged_call, response=call.response, answer=call.logged_entry
            )
            notify(lambda observer: observer.on_llm_response(answer))
    return call


def build_request(agent: Agent, tools: Toolset) -> ModelRequest:
    """Build the request, continuing the hash of the context from the part hashed before."""
    context = agent.session.context(agent.agent_id)
    state = agent.state
    hashed_count, context_hash = state.context_hash_state
    for index in range(hashed_count, len(context)):
        context_hash = extend_context_hash(context_hash, context[index])
    return ModelRequest(
        agent=agent.name,
        messages=MessageWindow(context, len(context)),
        tools=tools.schemas,
        parameters=state.spec.parameters or {},
        context_hash=context_hash,
        tools_hash=tools.hash,
    )


def _ensure_tools_defined(session: Session, tools: Toolset) -> MessageId | None:
    """Return the event that defines these tools, logging it if there is none."""
    if tools.hash is None:
        return None
    existing = session.state.tools.get(tools.hash)
    defined = ToolsDefined(tools=[dict(schema) for schema in tools.schemas], tools_hash=tools.hash)
    return existing or session.append(defined)
