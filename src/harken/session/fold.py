"""The fold: the function that applies events to the session state.

`fold(state, event)` applies one event. Live sessions, resume, views and time travel all
call it, and no other code interprets events. It is deterministic and changes only the state:
equal events give an equal state. It does not validate events (the writer has checked them) and
accepts logs of older dialects, which lack births and links.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from harken.core import events as ev
from harken.core import structs
from harken.core.event_types.spec import NO_SPEC
from harken.core.ids import USER, AgentId, MessageId, parse_id_number, reference_message_id
from harken.core.messages import ChatMessage
from harken.session.folds.discussions import fold_opened, fold_step, fold_user_message
from harken.session.folds.triggers import fold_armed, fold_disarmed, note_trigger_event
from harken.session.reviews import (
    DECISION_HANDLERS,
    end_calls,
    end_questions,
    end_reviews,
    fold_message,
)
from harken.session.segments import segment_length, slice_segments
from harken.session.state import AgentState, ContextTokens, OpenCall, SessionState

Resolver: TypeAlias = Callable[[ev.ContextLoaded], Sequence[ChatMessage]]
"""Returns the messages of a commit that an agent started from."""
_Handler: TypeAlias = Callable[[SessionState, Any], None]


def fold(state: SessionState, event: ev.Event, resolver: Resolver | None = None) -> None:
    """Apply an event to `state`, in place.

    Raises ValueError if the event refers to something that the state does not have.
    """
    if event.message_id[:4] == "msg_":  # A foreign id has no number, so it advances no counter.
        state.last_id = event.message_id
    if state.ended and not isinstance(event, ev.ContentPurged):  # A purge does not resume it.
        state.ended = False
    handler = _HANDLERS.get(type(event))
    if handler is not None:
        handler(state, event)
    elif isinstance(event, ev.ContextLoaded):
        _context_loaded(state, event, resolver)


def get_or_create_agent(state: SessionState, agent_id: AgentId | None) -> AgentState:
    """Return an agent's state. Create it if a log of an older dialect lacks the agent's birth."""
    agent_id = agent_id or AgentId("")
    agent = state.agents.get(agent_id)
    if agent is None:
        agent = state.agents[agent_id] = AgentState(id=agent_id, birth=MessageId(""))
        if state.root is None:
            state.root = state.primary = agent_id
    return agent


def format_call_reference(entry: ev.TranscriptEntry, call_id: str) -> ev.Reference:
    """Return the reference to a call: `msg_003`, or `msg_003.call_abc` if there are several."""
    if len(entry.tool_calls or ()) == 1:
        return entry.message_id
    return f"{entry.message_id}.{call_id}"


def _session_started(state: SessionState, event: ev.SessionStarted) -> None:
    state.session_id = event.session_id


def _session_ended(state: SessionState, event: ev.SessionEnded) -> None:
    state.ended = True


def _agent_created(state: SessionState, event: ev.AgentCreated) -> None:
    agent_id = event.agent_id or AgentId("")
    agent = AgentState(id=agent_id, birth=event.message_id, placed_by=event.message_id)
    agent.name, agent.language_model = event.name, event.language_model
    agent.spec = event.spec or NO_SPEC
    earlier = state.agents.get(agent_id)
    if earlier is not None and not earlier.birth:  # An older dialect mentioned it before its birth.
        agent.transcript, agent.open_calls = earlier.transcript, earlier.open_calls
    state.agents[agent_id] = agent
    number = parse_id_number(agent_id, "agent_")
    if number is not None and number >= state.next_agent:
        state.next_agent = number + 1
    parent = _parent_of(state, event)
    if parent is not None:
        agent.spawn_commit_id = get_or_create_agent(state, parent).commit_id
    _place(state, agent, event.relation or ("subagent" if parent else "primary"), parent)
    if state.root is None or (not parent and not state.agents[state.root].birth):
        state.root = agent_id
    state.cause_owners[event.message_id] = agent_id


def _parent_of(state: SessionState, event: ev.AgentCreated) -> AgentId | None:
    if not event.cause:
        return None
    first = event.cause if isinstance(event.cause, str) else event.cause[0]
    return state.cause_owners.get(reference_message_id(first), state.root)


def _place(state: SessionState, agent: AgentState, place: ev.Place, parent: AgentId | None) -> None:
    """Put an agent at a place in the tree. It must have been removed from its earlier place."""
    agent.place, agent.parent = place, parent
    if place == "primary":
        state.primary = agent.id
    elif place != "gone" and parent is not None:
        above = get_or_create_agent(state, parent)
        (above.hooks if place == "hook" else above.subagents).append(agent.id)


def _agent_moved(state: SessionState, event: ev.AgentMoved) -> None:
    agent = get_or_create_agent(state, event.agent_id)
    above = state.agents.get(agent.parent) if agent.parent is not None else None
    if above is not None:
        for row in _relations_of(above):
            row[:] = [agent_id for agent_id in row if agent_id != agent.id]
    if event.place == "gone" and state.reviews:
        end_reviews(state, agent)
    if event.place in ("primary", "gone"):
        state.pending_reports.pop(agent.id, None)  # It has no parent that would read its report.
    agent.spec = agent.spec.apply(event.spec)
    agent.placed_by = event.message_id
    agent.stop, agent.replaced_by = None, None
    end_questions(agent)
    if event.replaces is not None:
        before = get_or_create_agent(state, event.replaces)
        before.placed_by = event.message_id
        before.stop, before.replaced_by = None, agent.id
        end_questions(before)
        before.spec = before.spec.apply(event.replaced_spec)
        _swap_places(state, agent, before, event.replaced_as or "subagent")
        return
    parent = event.parent
    if parent is None and event.place != "primary":
        parent = agent.parent
    if agent.place == "hook" and event.place == "gone" and above is not None:
        above.former_hooks.append(agent.id)
    _place(state, agent, event.place, parent)


def _relations_of(above: AgentState) -> Sequence[list[AgentId]]:
    return above.subagents, above.hooks, above.former_hooks, above.speakers, above.listeners


def _swap_places(state: SessionState, agent: AgentState, before: AgentState, now: ev.Place) -> None:
    """Put an agent at the place of another agent, which becomes its subagent or hook."""
    agent.place, agent.parent = before.place, before.parent
    above = state.agents.get(before.parent) if before.parent is not None else None
    if above is not None:
        for row in _relations_of(above):
            row[:] = [agent.id if agent_id == before.id else agent_id for agent_id in row]
    if agent.place == "primary":
        state.primary = agent.id
    _place(state, before, now, agent.id)


def _transcript_entry(state: SessionState, event: ev.TranscriptEntry) -> None:
    if event.substance is not None:
        state.copied_messages.add(event.message_id)
    agent = state.agents.get(event.agent_id or AgentId(""))
    if agent is None:
        if event.agent_id == USER:
            fold_user_message(state, event)
            return
        agent = get_or_create_agent(state, event.agent_id)
    if event.role == "tool" and event.tool_call_id is not None:
        _add_result(state, agent, event)
    else:
        _add_entry(agent, event)
    if event.role == "user" and (
        event.purpose is not None or state.reviews or agent.denials or agent.stop
    ):
        fold_message(state, agent, event)
    if agent.undelivered and event.substance in agent.undelivered:
        del agent.undelivered[event.substance]
        if agent.parent is not None:
            state.pending_reports[agent.id] = None
    elif state.pending_reports:
        _note_report(state, agent, event)
    if event.tool_calls:
        _open_calls(state, agent, event)


def _add_entry(agent: AgentState, event: ev.TranscriptEntry) -> None:
    """Append an entry to the transcript and the context of an agent."""
    if agent.transcript is not None:
        agent.transcript.append(event)
    if agent.context is not None:
        agent.context.append(event)
    agent.new_entries.append(event.message_id)


def _add_result(state: SessionState, agent: AgentState, event: ev.TranscriptEntry) -> None:
    """Close the call of a result. Append the result when all earlier calls have theirs."""
    call = _close_call(state, agent, event.tool_call_id or "")
    if call is not None and _is_early(agent, call) and not agent.is_recorded:
        agent.early_results.append((call, event))
        return
    _add_entry(agent, event)
    if due := [pair for pair in agent.early_results if not _is_early(agent, pair[0])]:
        agent.early_results = [pair for pair in agent.early_results if _is_early(agent, pair[0])]
        for _, result in sorted(due, key=lambda pair: pair[0].index):
            _add_entry(agent, result)


def _is_early(agent: AgentState, call: OpenCall) -> bool:
    """Whether an earlier call of the same message has no result."""
    first = _find_first_open(agent, reference_message_id(call.reference))
    return first is not None and first.index < call.index


def _find_first_open(agent: AgentState, message: MessageId) -> OpenCall | None:
    """Return the first call of a message that has no result, or None. Usually it is the oldest."""
    for call in agent.open_calls.values():
        if reference_message_id(call.reference) == message:
            return call
    return None


def _note_report(state: SessionState, agent: AgentState, event: ev.TranscriptEntry) -> None:
    """Note an agent's answer to a trigger event, and its delivery to the agent's parent."""
    if event.is_utterance:
        if agent.id in state.pending_reports:
            state.pending_reports[agent.id] = event.message_id
        return
    links = event.cause if isinstance(event.cause, list) else [event.cause, event.substance]
    for id_, message_id in list(state.pending_reports.items()):
        if message_id is not None and message_id in links and state.agents[id_].parent == agent.id:
            del state.pending_reports[id_]
            if event.role == "user" and agent.parent is not None:  # It was not asked, either.
                state.pending_reports[agent.id] = None


def _open_calls(state: SessionState, agent: AgentState, event: ev.TranscriptEntry) -> None:
    state.cause_owners[event.message_id] = agent.id
    if state.reviews:
        end_calls(state, agent)
    for index, call in enumerate(event.tool_calls or ()):
        reference = format_call_reference(event, call.id)
        function = call.function
        agent.open_calls.pop(call.id, None)  # The calls of a message are in their order.
        agent.open_calls[call.id] = OpenCall(
            call.id, function.name, function.arguments, reference, index
        )
        state.open_references.add(reference)


def _close_call(state: SessionState, agent: AgentState, call_id: str) -> OpenCall | None:
    """Remove an open call, and return it. Return None if it is not open."""
    call = agent.open_calls.pop(call_id, None)
    if call is None:
        return None  # An older log may contain two results for one call.
    state.open_references.discard(call.reference)
    state.rounds.pop(call.reference, None)
    message = reference_message_id(call.reference)
    if _find_first_open(agent, message) is None:
        state.cause_owners.pop(message, None)
    return call


def _change_call(state: SessionState, event: ev.ActionRewritten | ev.ActionStarted) -> None:
    """Note that a call was rewritten, or that its tool begins to act."""
    agent = get_or_create_agent(state, event.agent_id)
    for call in agent.open_calls.values():
        if call.reference == event.call:
            if isinstance(event, ev.ActionStarted):
                changes: dict[str, Any] = {"is_started": True}
            else:
                changes = {"rewritten_by": event.cause}
            agent.open_calls[call.id] = structs.replace(call, **changes)
            return


def _piece_of_text(state: SessionState, event: ev.PieceOfText) -> None:
    """Note a trigger event, or a piece that an agent reports instead of an answer.

    Any other piece changes nothing, as it is in no transcript. A replacement for an answer
    (`[stopped] ...`) is also a piece.
    """
    agent = state.agents.get(event.agent_id or AgentId(""))
    if agent is None:
        return
    if event.trigger is not None:
        note_trigger_event(agent, event.trigger, event)
        return
    agent.last_piece = event.message_id, event.content
    if agent.id in state.pending_reports:
        state.pending_reports[agent.id] = event.message_id


def _agent_configured(state: SessionState, event: ev.AgentConfigured) -> None:
    agent = get_or_create_agent(state, event.agent_id)
    agent.name = event.name if event.name is not None else agent.name
    if event.language_model is not None:
        agent.language_model = event.language_model
    agent.spec = agent.spec.apply(event.spec)
    for member in ("parameters", "foreign"):
        if (value := getattr(event, member)) is not None:
            agent.spec = structs.replace(agent.spec, **{member: value})


def _agent_state_saved(state: SessionState, event: ev.AgentStateSaved) -> None:
    get_or_create_agent(state, event.agent_id).saved_state = event.state


def _interlocutors_set(state: SessionState, event: ev.InterlocutorsSet) -> None:
    agent = get_or_create_agent(state, event.agent_id)
    agent.speakers, agent.listeners = list(event.speakers), list(event.listeners)


def _transcript_edited(state: SessionState, event: ev.TranscriptEdited) -> None:
    agent = get_or_create_agent(state, event.agent_id)
    before, described = current_messages(agent), agent.segments()
    context: list[ChatMessage] = []
    layout: list[ev.Segment] = []
    for segment in event.segments:
        if segment.entries is not None:
            context.extend(find_entries(state, agent, segment.entries))
            layout.append(segment)
        else:
            start, stop = segment.start or 0, segment.stop or 0
            if not 0 <= start <= stop <= len(before):
                raise ValueError(f"{event.message_id} keeps {start} to {stop} of {len(before)}")
            context.extend(before[start:stop])
            layout.extend(slice_segments(described, start, stop))
    agent.context, agent.context_prefix, agent.new_entries, agent.request = (
        context,
        layout,
        [],
        None,
    )
    agent.uncommitted_edit, agent.counted_tokens = event, None


def find_entries(
    state: SessionState, agent: AgentState, ids: list[MessageId]
) -> list[ev.TranscriptEntry]:
    """Return these entries from all transcripts. Raises ValueError if an entry is missing."""
    entries: dict[MessageId, ev.TranscriptEntry] = {}
    others = (candidate for candidate in state.agents.values() if candidate is not agent)
    for holder in (agent, *others):
        if len(entries) == len(set(ids)):
            break
        missing = set(ids) - entries.keys()
        entries |= {e.message_id: e for e in iter_loaded_entries(holder) if e.message_id in missing}
    unknown = [id_ for id_ in ids if id_ not in entries]
    if unknown:
        raise ValueError(f"no entry {unknown[0]} is known")
    return [entries[id_] for id_ in ids]


def iter_loaded_entries(agent: AgentState) -> Iterator[ev.TranscriptEntry]:
    """Yield the entries that an agent has in memory: its own, and others in its context."""
    yield from agent.transcript or ()
    for message in agent.context or ():
        if isinstance(message, ev.TranscriptEntry):
            yield message


def _context_loaded(
    state: SessionState, event: ev.ContextLoaded, resolver: Resolver | None
) -> None:
    agent = get_or_create_agent(state, event.agent_id)
    agent.commit_id, agent.committed_upto = event.ctx, None
    if resolver is None:
        raise ValueError(f"{event.message_id} starts from {event.ctx}: no store to read it from")
    messages = resolver(event)
    if len(messages) != event.count:
        raise ValueError(f"{event.ctx} has {len(messages)} messages, not {event.count}")
    segment = ev.Segment(loaded=event.message_id, start=0, stop=event.count)
    agent.context = [*messages, *current_messages(agent)]
    agent.context_prefix, agent.new_entries, agent.request = [segment, *agent.segments()], [], None
    agent.counted_tokens = None
    _reopen_calls(state, agent, event.message_id, messages)


def _reopen_calls(
    state: SessionState, agent: AgentState, id_: MessageId, messages: Sequence[ChatMessage]
) -> None:
    """Open the calls without a result at the end of a context that was committed during a turn.

    Nothing tells whether they have acted.
    """
    answered_ids: set[str | None] = set()
    for message in reversed(messages):
        if message.role != "tool":
            break
        answered_ids.add(message.tool_call_id)
    else:
        return
    calls = message.tool_calls or []
    for index, call in enumerate(calls):
        if call.id not in answered_ids:
            reference = id_ if len(calls) == 1 else f"{id_}.{call.id}"
            name, arguments = call.function.name, call.function.arguments
            agent.open_calls[call.id] = OpenCall(
                call.id, name, arguments, reference, index, is_started=True
            )
            state.open_references.add(reference)
            state.cause_owners[id_] = agent.id


def _context_committed(state: SessionState, event: ev.ContextCommitted) -> None:
    agent = get_or_create_agent(state, event.agent_id)
    agent.commit_id, agent.committed_upto, agent.uncommitted_edit = event.ctx, event.upto, None


def _tools_defined(state: SessionState, event: ev.ToolsDefined) -> None:
    state.tools[event.tools_hash] = event.message_id


def _llm_request(state: SessionState, event: ev.LlmRequest) -> None:
    agent = get_or_create_agent(state, event.agent_id)
    agent.usage.model_calls += 1
    agent.request, agent.stop = event, None
    if state.reviews:
        end_reviews(state, agent)
    if agent.new_entries:
        agent.new_entries = []
    state.requests[agent.id] = event


def _llm_response(state: SessionState, event: ev.LlmResponse) -> None:
    agent = get_or_create_agent(state, event.agent_id)
    request = state.requests.pop(agent.id, None)
    agent.usage.cost_usd += event.cost_usd or 0.0
    if event.usage is None:
        return
    input_tokens, output_tokens = event.usage.input_tokens, event.usage.output_tokens or 0
    agent.usage.input_tokens += input_tokens or 0
    agent.usage.output_tokens += output_tokens
    if input_tokens and request is not None and request is agent.request:
        agent.counted_tokens = ContextTokens(
            request.count + (event.entry is not None), input_tokens + output_tokens
        )


def current_messages(agent: AgentState) -> Sequence[ChatMessage]:
    """Return the agent's current context. Raises ValueError if the agent is evicted."""
    if agent.context is not None:
        return agent.context
    if agent.transcript is None:
        raise ValueError(f"{agent.id} is evicted: revive it first")
    return agent.transcript


def context_length(agent: AgentState) -> int:
    """Return the number of messages in the current context, also of an evicted agent."""
    before = (
        sum(map(segment_length, agent.context_prefix))
        if agent.request is None
        else agent.request.count
    )
    return before + len(agent.new_entries)


_HANDLERS: dict[type, _Handler] = {
    ev.SessionStarted: _session_started,
    ev.SessionEnded: _session_ended,
    ev.AgentCreated: _agent_created,
    ev.AgentMoved: _agent_moved,
    ev.TranscriptEntry: _transcript_entry,
    ev.PieceOfText: _piece_of_text,
    ev.AgentConfigured: _agent_configured,
    ev.TriggerArmed: fold_armed,
    ev.TriggerDisarmed: fold_disarmed,
    ev.AgentStateSaved: _agent_state_saved,
    ev.InterlocutorsSet: _interlocutors_set,
    ev.TranscriptEdited: _transcript_edited,
    ev.ContextCommitted: _context_committed,
    ev.ToolsDefined: _tools_defined,
    ev.LlmRequest: _llm_request,
    ev.LlmResponse: _llm_response,
    ev.ActionRewritten: _change_call,
    ev.ActionStarted: _change_call,
    ev.DiscussionOpened: fold_opened,
    ev.DiscussionSpoken: fold_step,
    ev.DiscussionChosen: fold_step,
    ev.DiscussionJudged: fold_step,
    **DECISION_HANDLERS,
}
