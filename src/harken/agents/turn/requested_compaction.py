"""Compactions that an agent requests with the action `compact`.

The call and its result are the request. It is due before the next model call of the agent, until
the context was edited or a message says why it was not. Both are in the log, so a resume continues
here.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from harken.agents.action_schemas import is_action
from harken.agents.texts import NOT_COMPACTED, TOO_SHORT_TO_COMPACT
from harken.agents.tool_agent import ToolAgent
from harken.agents.tree.actions import parse_arguments_or_empty
from harken.agents.turn.compaction import compact
from harken.core.events import ActionRewritten, TranscriptEntry
from harken.core.ids import MessageId, reference_number
from harken.core.messages import ChatMessage
from harken.errors import ModelError
from harken.llm.base import Model
from harken.session.fold import format_call_reference
from harken.session.log.reader import iter_events

ACTION = "compact"


class RequestedCompaction(msgspec.Struct, frozen=True):
    """A request that is due."""

    result: MessageId
    """The result of the call, the last one if there are several."""
    keep: str
    """The instructions for the summary."""


async def compact_if_requested(agent: ToolAgent, model: Model) -> None:
    """Compact the context of an agent that requested it, with all results of its last message.

    The hooks are told of it as of a compaction by the user. A refusal or a failure of the model
    becomes a message to the agent. Raises BudgetExceeded with the context unchanged.
    """
    request = find_due_request(agent)
    if request is None:
        return
    try:
        result = await compact(agent, model, pending=True, instructions=request.keep)
        reason = TOO_SHORT_TO_COMPACT if result is None else None
    except ModelError as error:
        reason = str(error)
    if reason is not None:
        agent.session.append(
            TranscriptEntry(
                agent_id=agent.agent_id,
                role="user",
                content=NOT_COMPACTED.format(reason),
                cause=request.result,
                purpose="told",
            )
        )


def find_due_request(agent: ToolAgent) -> RequestedCompaction | None:
    """Return the request of an agent that is due. Return None if there is none."""
    if not is_action(agent.tools.get(ACTION)):
        return None
    context = agent.session.context(agent.agent_id)
    index = next((i for i in reversed(range(len(context))) if context[i].role == "assistant"), None)
    if index is None or not isinstance(made := context[index], TranscriptEntry):
        return None
    calls = {call.id for call in made.tool_calls or () if call.function.name == ACTION}
    after = [entry for entry in context[index + 1 :] if isinstance(entry, TranscriptEntry)]
    results = [entry for entry in after if entry.tool_call_id in calls and not entry.is_error]
    if not results or _is_done(context[:index], after, results):
        return None
    texts = [_keep_text(agent, made, entry.tool_call_id or "") for entry in results]
    return RequestedCompaction(results[-1].message_id, "\n".join(filter(None, texts)))


def _is_done(
    before: Sequence[ChatMessage],
    after: Sequence[TranscriptEntry],
    results: Sequence[TranscriptEntry],
) -> bool:
    """Whether a summary, which is newer than the results, precedes them, or a message refuses."""
    last_number = reference_number(results[-1].message_id)
    entries = (message for message in before if isinstance(message, TranscriptEntry))
    is_edited = any(reference_number(entry.message_id) > last_number for entry in entries)
    return is_edited or any(entry.cause == results[-1].message_id for entry in after)


def _keep_text(agent: ToolAgent, made: TranscriptEntry, call_id: str) -> str:
    """Return the argument `keep` of a call, as a hook may have rewritten it."""
    reference = format_call_reference(made, call_id)
    calls = {call.id: call.function for call in made.tool_calls or ()}
    arguments = calls[call_id].arguments
    for event in iter_events(agent.session.path):
        if isinstance(event, ActionRewritten) and event.call == reference:
            arguments = event.arguments
    keep = parse_arguments_or_empty(arguments).get("keep")
    return keep if isinstance(keep, str) else ""
