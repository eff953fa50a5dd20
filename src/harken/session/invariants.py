"""The invariants of the log, checked before an event is written.

Each rule is one function that raises InvalidEvent with the reason. Reading is lenient, writing
is strict: every log that Harken wrote satisfies the invariants.

Source: docs/formats/session-log.md, "Invariants".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from harken.core import canonical
from harken.core import events as ev
from harken.core.event_types.spec import NO_STANDING
from harken.core.ids import USER, AgentId, message_id, parse_id_number, reference_message_id
from harken.core.messages import ChatMessage, ToolCallSlot, extend_context_hash
from harken.core.secrets.redaction import Credentials
from harken.errors import InvalidEvent
from harken.session.fold import Resolver, context_length, find_entries
from harken.session.folds.discussions import DueStep, StepKind, find_due_step
from harken.session.state import AgentState, Round, SessionState

ROLES = ("user", "assistant", "tool", "system")


def check_event(state: SessionState, event: ev.Event) -> None:
    """Raise InvalidEvent if writing `event` next would violate an invariant."""
    if isinstance(event, ev.UnknownEvent):
        return
    for member in _LINKS[type(event)]:
        link = getattr(event, member)
        if link is not None:
            _CHECKS.get(member, _check_exists)(state, link, member)
    _RULES.get(type(event), _check_born)(state, event)


def encode_checked_event(event: ev.KnownEvent) -> tuple[bytes, ev.KnownEvent]:
    """Return the event's JSON object and the event that a reader decodes from it.

    Raises InvalidEvent if the decoded event differs or cannot be decoded: values that are not plain
    JSON (a set, a tuple, NaN) would change at the next resume.
    """
    try:
        body = ev.encode_event(event)
        decoded = ev.decode_event(body)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidEvent(f"this {ev.event_type(event)} cannot be written: {error}") from None
    if decoded == event:
        return body, decoded
    if isinstance(decoded, ev.UnknownEvent) or b"\\ud" not in body:
        raise InvalidEvent(f"this {ev.event_type(event)} contains a value that is not plain JSON")
    return ev.encode_event(decoded), decoded  # A surrogate pair was decoded into one character.


def encode_stored_event(
    state: SessionState, event: ev.KnownEvent, credentials: Credentials | None
) -> tuple[bytes, ev.KnownEvent]:
    """Return a checked event as it is stored, and its JSON: without credentials, if they are given.

    Raises InvalidEvent, also if the event would be invalid without them.
    """
    body, event = encode_checked_event(event)
    new_body = body if credentials is None else credentials.replace_in_bytes(body)
    if new_body == body:
        return body, event
    try:
        redacted = ev.decode_event(new_body)
    except ValueError as error:
        raise InvalidEvent(f"it cannot be stored without a credential: {error}") from None
    if isinstance(redacted, ev.ToolsDefined):
        redacted.tools_hash = canonical.hash_value(canonical.TOOLS_DOMAIN, redacted.tools)
    if isinstance(redacted, ev.UnknownEvent) or (
        (redacted.message_id, redacted.time) != (event.message_id, event.time)
    ):
        raise InvalidEvent("a credential is part of its structure")
    check_event(state, redacted)
    return encode_checked_event(redacted)


def load_commit_messages(
    event: ev.ContextLoaded, resolver: Resolver | None
) -> Sequence[ChatMessage]:
    """Load the messages of a `context_loaded` event. Raises InvalidEvent if they do not match."""
    if resolver is None:
        raise InvalidEvent(f"{event.ctx}: this session was opened without a store")
    messages, context_hash = resolver(event), ""
    for message in messages:
        context_hash = extend_context_hash(context_hash, message)
    if (len(messages), context_hash) != (event.count, event.context_hash):
        raise InvalidEvent(
            f"{event.ctx} has {len(messages)} messages with hash {context_hash or 'none'}, "
            f"not {event.count} with {event.context_hash or 'none'}"
        )
    return messages


def _check_cause(state: SessionState, cause: Any, member: str) -> None:
    references = [cause] if isinstance(cause, str) else cause
    if not references:
        raise InvalidEvent("a cause that is a list names at least one message")
    for reference in references:
        if "." in reference and reference not in state.open_references:
            raise InvalidEvent(f"cause {reference}: no call in progress has this name")
        _check_exists(state, reference_message_id(reference), member)


def _check_exists(state: SessionState, id_: str, member: str) -> None:
    number = parse_id_number(id_, "msg_")
    if number is None or number >= state.next_message or id_ != message_id(number):
        raise InvalidEvent(f"{member} {id_}: this session has no such message")


def _check_substance(state: SessionState, substance: Any, member: str) -> None:
    _check_exists(state, substance, member)
    if substance in state.copied_messages:
        raise InvalidEvent(f"substance {substance} is itself a copy: name the original")


def _check_born(state: SessionState, event: ev.EventBase) -> None:
    agent = state.agents.get(event.agent_id) if event.agent_id is not None else None
    if agent is None:
        raise InvalidEvent(f"agent {event.agent_id} was not born: log its birth first")


def _check_started(state: SessionState, event: ev.SessionStarted) -> None:
    _check_session_event(state, event)
    if state.last_id:
        raise InvalidEvent("a session starts once, with its first event")


def _check_birth(state: SessionState, event: ev.AgentCreated) -> None:
    if not event.agent_id or event.agent_id == USER:
        raise InvalidEvent("a birth needs the new agent's id")
    if event.relation is None or (event.relation == "primary") != (event.cause is None):
        raise InvalidEvent("a birth has a relation: primary without a cause, else subagent or hook")
    if event.agent_id in state.agents:
        raise InvalidEvent(f"agent {event.agent_id} was born before")
    if event.cause is None and state.root is not None:
        raise InvalidEvent("a birth without a cause is the root's; this session has a root")
    if event.cause is not None:
        first = event.cause if isinstance(event.cause, str) else event.cause[0]
        if reference_message_id(first) not in state.cause_owners:
            raise InvalidEvent(
                f"cause {first} of a birth is neither a call in progress nor a birth"
            )


def _check_entry(state: SessionState, event: ev.TranscriptEntry) -> None:
    if event.substance is not None and event.cause is not None:
        raise InvalidEvent("an event has a substance or a cause, never both")
    if event.role not in ROLES:
        raise InvalidEvent(f"unknown role {event.role!r}; roles: {', '.join(ROLES)}")
    if event.agent_id != USER:
        _check_born(state, event)
    if event.role == "tool":
        _check_result(state, event)
    elif event.tool_call_id is not None or event.closed is not None:
        raise InvalidEvent("only a result (role tool) has a tool_call_id or `closed`")
    if event.purpose is not None:
        _check_purpose(event)
    if event.tool_calls is not None:
        _check_calls(state, event)


def _check_purpose(event: ev.TranscriptEntry) -> None:
    if event.role != ("system" if event.purpose == "duty" else "user"):
        raise InvalidEvent(f"a message with the role {event.role} has no purpose {event.purpose}")
    if event.purpose in ("question", "again", "comment", "returned") and event.cause is None:
        raise InvalidEvent(f"a message with the purpose {event.purpose} names its cause")


def _check_result(state: SessionState, event: ev.TranscriptEntry) -> None:
    agent = state.agents.get(event.agent_id) if event.agent_id is not None else None
    if not event.tool_call_id or not event.name:
        raise InvalidEvent("a result names its call (tool_call_id) and its tool (name)")
    if agent is not None and agent.is_recorded:
        return
    if agent is None or event.tool_call_id not in agent.open_calls:
        raise InvalidEvent(
            f"result for call {event.tool_call_id}: {event.agent_id} has no such call open; "
            f"each call gets exactly one result"
        )


def _check_calls(state: SessionState, event: ev.TranscriptEntry) -> None:
    if event.role != "assistant" or not event.tool_calls:
        raise InvalidEvent("tool calls are made by an assistant message, at least one")
    ids = [call.id for call in event.tool_calls]
    agent = state.agents.get(event.agent_id) if event.agent_id is not None else None
    if agent is not None and agent.is_recorded:
        return
    open_calls = agent.open_calls if agent is not None else {}
    for id_ in ids:
        if not id_ or ids.count(id_) > 1 or id_ in open_calls:
            raise InvalidEvent(f"call id {id_!r} is empty or used twice among open calls")
    content = event.content if isinstance(event.content, list) else []
    places = [part.id for part in content if isinstance(part, ToolCallSlot)]
    if places and sorted(places) != sorted(ids):
        raise InvalidEvent("a content that places calls places each of them once")


def _check_piece(state: SessionState, event: ev.PieceOfText) -> None:
    _check_born(state, event)
    if event.cause is None:
        raise InvalidEvent("a piece of text has a cause")


def _check_request(state: SessionState, event: ev.LlmRequest) -> None:
    _check_born(state, event)
    agent = state.agents[event.agent_id] if event.agent_id is not None else None
    if agent is not None and (
        event.count != context_length(agent) or event.context != agent.segments()
    ):
        raise InvalidEvent(f"the segments of a request are those of {agent.id}'s context")
    if event.tools is not None and event.tools not in state.tools.values():
        raise InvalidEvent(f"tools {event.tools}: no such tools_defined")


def _check_response(state: SessionState, event: ev.LlmResponse) -> None:
    _check_born(state, event)
    request = state.requests.get(event.agent_id) if event.agent_id is not None else None
    if request is None or request.message_id != event.request:
        raise InvalidEvent(f"request {event.request}: {event.agent_id} waits for no answer to it")


def _check_rewritten(state: SessionState, event: ev.ActionRewritten) -> None:
    _check_born(state, event)
    calls = state.agents[event.agent_id or AgentId("")].open_calls
    if event.call not in {call.reference for call in calls.values()}:
        raise InvalidEvent(f"call {event.call}: {event.agent_id} has no such call open")


def _check_action_started(state: SessionState, event: ev.ActionStarted) -> None:
    _check_born(state, event)
    calls = state.agents[event.agent_id or AgentId("")].open_calls.values()
    call = next((call for call in calls if call.reference == event.call), None)
    if call is None:
        raise InvalidEvent(f"call {event.call}: {event.agent_id} has no such call open")
    if call.is_started:
        raise InvalidEvent(f"call {event.call} has started before")


def _check_verdict(state: SessionState, event: ev.HookVerdict) -> None:
    _check_born(state, event)
    if event.watched not in state.agents:
        raise InvalidEvent(f"watched agent {event.watched} was not born")
    _check_exists(state, reference_message_id(event.subject), "subject")
    if event.verdict in ("deny", "rewrite") and event.point not in ("action", "response"):
        raise InvalidEvent(f"a hook cannot {event.verdict} at {event.point}")
    if (event.text is None) != (event.verdict == "ok"):
        raise InvalidEvent(f"a verdict has a text unless it is ok, not {event.verdict}")
    review = state.reviews.get(event.subject)
    if review is not None and event.agent_id in [given.agent_id for given in review.given]:
        raise InvalidEvent(f"{event.agent_id} has given its verdict on {event.subject}")


def _check_note(state: SessionState, event: ev.NoteKept) -> None:
    _check_hook_call(state, event, event.cause)
    if not event.text.strip():
        raise InvalidEvent("a note is not blank")


def _check_leaving(state: SessionState, event: ev.HookLeaving) -> None:
    _check_hook_call(state, event, event.cause)
    if state.agents[event.agent_id or AgentId("")].leaving is not None:
        raise InvalidEvent(f"{event.agent_id} is leaving")


def _check_hook_call(state: SessionState, event: ev.EventBase, cause: ev.Cause) -> None:
    """Refuse an event that is not about a hook, or has no call of its own as its cause."""
    _check_born(state, event)
    agent = state.agents[event.agent_id or AgentId("")]
    if agent.place != "hook":
        raise InvalidEvent(f"{event.agent_id} is no hook")
    if cause not in {call.reference for call in agent.open_calls.values()}:
        raise InvalidEvent(f"call {cause}: {event.agent_id} has no such call open")


def _check_opened(state: SessionState, event: ev.DiscussionOpened) -> None:
    _check_born(state, event)
    if not isinstance(event.cause, str) or event.cause not in state.open_references:
        raise InvalidEvent(f"a discussion needs a call in progress as its cause, not {event.cause}")
    if event.cause in state.rounds:
        raise InvalidEvent(f"call {event.cause} has opened a discussion")
    roles = [agent_id for agent_id in (event.judge, event.moderator) if agent_id is not None]
    for agent_id in (*event.speakers, *event.listeners, *roles):
        if agent_id not in state.agents and (agent_id != USER or agent_id in roles):
            raise InvalidEvent(f"participant {agent_id} was not born")
    if set(roles) & set(event.speakers) or len(set(event.speakers)) < len(event.speakers):
        raise InvalidEvent("a speaker of a discussion is named once, and is no judge or moderator")
    if event.rounds < 1:
        raise InvalidEvent(f"a discussion has at least 1 round, not {event.rounds}")
    if event.seed is not None and event.moderator is not None:
        raise InvalidEvent("a discussion has a seed or a moderator, not both")


def _check_step(
    state: SessionState, event: ev.DiscussionSpoken | ev.DiscussionChosen | ev.DiscussionJudged
) -> None:
    _check_born(state, event)
    rounds = [r for r in state.rounds.values() if r.opened == event.discussion]
    if not rounds:
        raise InvalidEvent(f"discussion {event.discussion}: no such discussion in progress")
    _check_exists(state, event.said, "said")
    due = find_due_step(rounds[0])
    if isinstance(event, ev.DiscussionSpoken):
        if due != DueStep("speak", event.speaker):
            raise InvalidEvent(f"{event.speaker} is not the speaker whose turn it is")
    elif due is None or due.kind != _STEP_KINDS[type(event)]:
        raise InvalidEvent(f"a {ev.event_type(event)} is not due in {event.discussion}")
    if isinstance(event, ev.DiscussionChosen):
        _check_choice(rounds[0], event)


def _check_choice(current: Round, event: ev.DiscussionChosen) -> None:
    if event.speaker is not None and event.speaker not in current.opening.speakers:
        raise InvalidEvent(f"{event.speaker} is no speaker of {event.discussion}")


def _check_answer(state: SessionState, event: ev.AnswerGiven) -> None:
    _check_born(state, event)
    _check_exists(state, event.answer, "answer")


def _check_stop(state: SessionState, event: ev.TurnStop) -> None:
    _check_born(state, event)
    _check_exists(state, event.piece, "piece")


def _check_tools(state: SessionState, event: ev.ToolsDefined) -> None:
    _check_session_event(state, event)
    if event.tools_hash in state.tools:
        raise InvalidEvent(f"these tools were defined before, by {state.tools[event.tools_hash]}")


def _check_configured(state: SessionState, event: ev.AgentConfigured) -> None:
    _check_born(state, event)
    if event.spec is not None and event.spec.standing != NO_STANDING:
        raise InvalidEvent("spec.standing changes only with the place: log an agent_moved")


def _check_armed(state: SessionState, event: ev.TriggerArmed) -> None:
    _check_born(state, event)
    if event.name in state.agents[event.agent_id or AgentId("")].triggers:
        raise InvalidEvent(f"trigger {event.name!r} of {event.agent_id} is armed already")


def _check_disarmed(state: SessionState, event: ev.TriggerDisarmed) -> None:
    _check_born(state, event)
    if event.name not in state.agents[event.agent_id or AgentId("")].triggers:
        raise InvalidEvent(f"trigger {event.name!r} of {event.agent_id} is not armed")


def _check_moved(state: SessionState, event: ev.AgentMoved) -> None:
    _check_born(state, event)
    agent = state.agents[event.agent_id or AgentId("")]
    if event.replaces is not None:
        _check_replacement(state, event, agent)
        return
    if event.replaced_as is not None or event.replaced_spec is not None:
        raise InvalidEvent("replaced_as and replaced_spec need a move with `replaces`")
    before = agent.parent
    if event.place in ("subagent", "hook") and (event.parent or before) is None:
        raise InvalidEvent(f"a {event.place} needs a parent")
    if event.place == "primary" and event.parent is not None:
        raise InvalidEvent("a primary agent has no parent")
    above = event.parent
    while above is not None:
        higher = state.agents.get(above)
        if higher is None:
            raise InvalidEvent(f"parent {above} was not born")
        if higher.id == event.agent_id:
            raise InvalidEvent(f"{event.agent_id} cannot be below itself")
        above = higher.parent


def _check_replacement(state: SessionState, event: ev.AgentMoved, agent: AgentState) -> None:
    target = state.agents.get(event.replaces or AgentId(""))
    if target is None or target.id != agent.parent or agent.place not in ("subagent", "hook"):
        raise InvalidEvent(f"{agent.id} is not a subagent or hook of {event.replaces}")
    if target.place == "gone" or target.place != event.place or event.parent is not None:
        raise InvalidEvent(f"{agent.id} takes the place of {event.replaces} as it is")
    if event.replaced_as is None:
        raise InvalidEvent(f"a move that replaces {event.replaces} needs `replaced_as`")


def _check_interlocutors(state: SessionState, event: ev.InterlocutorsSet) -> None:
    _check_born(state, event)
    for agent_id in (*event.speakers, *event.listeners):
        if agent_id not in state.agents:
            raise InvalidEvent(f"interlocutor {agent_id} was not born")


def _check_edited(state: SessionState, event: ev.TranscriptEdited) -> None:
    _check_born(state, event)
    agent = state.agents[event.agent_id or AgentId("")]
    size = context_length(agent)
    for segment in event.segments:
        if segment.entries is not None:
            try:
                find_entries(state, agent, segment.entries)
            except ValueError as error:
                raise InvalidEvent(str(error)) from None
        elif segment.request is not None or segment.loaded is not None:
            raise InvalidEvent("an edit keeps ranges of the context or names entries")
        elif not 0 <= (segment.start or 0) <= (segment.stop or 0) <= size:
            raise InvalidEvent(f"an edit keeps {segment.start} to {segment.stop} of {size}")


def _check_session_event(state: SessionState, event: ev.EventBase) -> None:
    if event.agent_id is not None:
        raise InvalidEvent(f"a {ev.event_type(event)} is about no agent")  # type: ignore[arg-type]


_STEP_KINDS: dict[type, StepKind] = {ev.DiscussionChosen: "choose", ev.DiscussionJudged: "judge"}
_CHECKS = {"cause": _check_cause, "substance": _check_substance}
_LINKS: dict[type, list[str]] = {
    kind: [
        member
        for member in ("cause", "substance", "entry", "summary", "upto")
        if member in kind.__struct_fields__
    ]
    for kind in ev.EVENT_TYPES.values()
}
"""The members of each type of event that refer to earlier events."""
_RULES: dict[type, Callable[[SessionState, Any], None]] = {
    ev.AgentCreated: _check_birth,
    ev.TranscriptEntry: _check_entry,
    ev.PieceOfText: _check_piece,
    ev.LlmRequest: _check_request,
    ev.LlmResponse: _check_response,
    ev.ActionRewritten: _check_rewritten,
    ev.ActionStarted: _check_action_started,
    ev.AgentConfigured: _check_configured,
    ev.TriggerArmed: _check_armed,
    ev.TriggerDisarmed: _check_disarmed,
    ev.AgentMoved: _check_moved,
    ev.HookVerdict: _check_verdict,
    ev.NoteKept: _check_note,
    ev.HookLeaving: _check_leaving,
    ev.DiscussionOpened: _check_opened,
    ev.DiscussionSpoken: _check_step,
    ev.DiscussionChosen: _check_step,
    ev.DiscussionJudged: _check_step,
    ev.AnswerGiven: _check_answer,
    ev.TurnStop: _check_stop,
    ev.InterlocutorsSet: _check_interlocutors,
    ev.TranscriptEdited: _check_edited,
    ev.SessionStarted: _check_started,
    ev.SessionEnded: _check_session_event,
    ev.SessionRepaired: _check_session_event,
    ev.ContentPurged: _check_session_event,
    ev.ToolsDefined: _check_tools,
}
