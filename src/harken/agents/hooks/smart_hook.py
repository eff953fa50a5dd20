"""Smart hooks: verdict retries, notes, and leaving after a verdict.

The work due after a verdict is derived from the hook's own context, where the question stays until
it is dropped. So it is done exactly once, immediately or by the resume that follows a crash.

An agent created as a hook keeps notes (`keeps: notes` in its spec): after each verdict a
`transcript_edited` event resets its context to its earlier state plus its notes. Another agent that
became a hook by a move keeps everything, and is compacted as usual.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from harken.agents import texts
from harken.agents.agent import Agent
from harken.agents.dumb_agent import DumbAgent
from harken.core.event_types.spec import AgentSpec, HookPoint, Limits, Standing
from harken.core.events import (
    AgentMoved,
    Reference,
    Segment,
    TranscriptEdited,
    TranscriptEntry,
)
from harken.core.ids import MessageId, reference_number
from harken.core.logged_string import LoggedString
from harken.core.messages import ChatMessage, text_of
from harken.core.verdict import (
    ALLOWED_VERDICTS,
    VERDICT_FORMS,
    HookQuestion,
)
from harken.session.session import Session
from harken.session.state import AgentState
from harken.world.result import InvalidArguments, ToolResult

DROPPED = "notes dropped"
MAX_NOTE, MAX_NOTES, NOTES_CHARACTERS = 1_000, 20, 8_000
"""The maximum characters of a note, the maximum number of notes, and their maximum total
characters."""

_MOVES = frozenset({"meta", "endo", "talk_with"})


async def run_keep_note(agent: Agent, call: Reference, arguments: Mapping[str, Any]) -> ToolResult:
    """Keep a note: the result contains it and survives the edit after the verdict.

    Raises InvalidArguments.
    """
    text = arguments["text"].strip()
    if not text:
        raise InvalidArguments("the note is blank")
    if len(text) > MAX_NOTE:
        raise InvalidArguments(
            f"a note has at most {MAX_NOTE} characters, not {len(text)}: be brief"
        )
    return ToolResult(texts.KEPT + text)


def copied_instructions(hook: Agent) -> str | None:
    """Return the system prompt for a copy of a hook: its own, as in its transcript.

    Returns None for an agent that was not created as a hook, which is not copied.
    """
    spec = hook.state.spec
    if not spec.is_born_as_hook:
        return None
    system_entries = takewhile(lambda entry: entry.role == "system", hook.state.transcript or ())
    copy_text = None if spec.copies is None else spec.copies.instructions
    parts = [text_of(entry.content) for entry in system_entries]
    return "\n\n".join(parts if copy_text is None else [*parts, copy_text])


def copied_spec(spec: AgentSpec) -> AgentSpec:
    """Return the members of a copy's birth besides its kind, taken from the hook's spec."""
    return AgentSpec(
        keeps=spec.keeps,
        parameters=spec.parameters,
        template=spec.template,
        limits=Limits(budget=spec.limits.budget),
        standing=Standing(points=spec.standing.points),
    )


def request_verdict(hook: Agent, question: HookQuestion, answer: LoggedString) -> bool:
    """Tell a hook that its answer was no verdict. Return False if it was told, or wrote none."""
    since = reference_number(hook.state.questions.get(question.subject, ""))
    entries_since = (
        e for e in hook.state.transcript or () if reference_number(e.message_id) > since
    )
    if any(entry.purpose == "again" for entry in entries_since):
        return False
    entries = reversed(hook.state.transcript or ())
    answer_entry = next((entry for entry in entries if entry.message_id == answer.message_id), None)
    if answer_entry is None or not answer_entry.is_utterance:
        return False  # a budget ended its turn
    entry = TranscriptEntry(
        agent_id=hook.agent_id,
        role="user",
        content=format_verdict_request(question.point),
        cause=answer.message_id,
        purpose="again",
    )
    hook.session.append(entry)
    return True


def format_verdict_request(point: HookPoint) -> str:
    """Return the message to a hook whose answer is no valid verdict at this point."""
    forms = "\n".join(VERDICT_FORMS[kind] for kind in ALLOWED_VERDICTS[point])
    return texts.VERDICT_REQUEST.format(point, forms)


def is_judging(hook: Agent) -> bool:
    """Whether it was asked a question and has yet to give its verdict.

    False if a trigger woke it, or if it gave its place to another agent meanwhile.
    """
    if isinstance(hook, DumbAgent):
        return hook._judged_subject is not None
    return bool(hook.state.questions)


def after_verdict(hook: Agent, question_id: MessageId) -> None:
    """Log the effects of a verdict: leave, or drop the question and the answer."""
    state = hook.state
    if state.place != "hook":
        return
    since = reference_number(question_id)
    entries = [e for e in state.transcript or () if reference_number(e.message_id) >= since]
    quit_result = next(_iter_results("quit", entries), None)
    if quit_result is not None:
        cause = _find_calling_message(quit_result, entries)
        hook.session.append(AgentMoved(agent_id=hook.agent_id, place="gone", cause=cause))
    elif state.spec.keeps == "notes":
        _drop_question(hook.session, state, since)


def _is_talk(entry: TranscriptEntry) -> bool:
    if entry.role == "tool":
        return entry.name in _MOVES and not entry.is_error
    return entry.role == "user" and entry.cause is None


def _iter_results(tool: str, stretch: Sequence[TranscriptEntry]) -> Iterator[TranscriptEntry]:
    """Yield the results of successful calls of a tool."""
    for entry in stretch:
        if entry.role == "tool" and entry.name == tool and not entry.is_error:
            yield entry


def _find_calling_message(result: TranscriptEntry, stretch: Sequence[TranscriptEntry]) -> MessageId:
    """Return the id of the last message before a result that made its call."""
    earlier = takewhile(lambda entry: entry is not result, stretch)
    message_ids = [
        e.message_id
        for e in earlier
        for call in e.tool_calls or ()
        if call.id == result.tool_call_id
    ]
    return message_ids[-1] if message_ids else result.message_id


def is_note(message: ChatMessage) -> bool:
    """Whether a message of a hook's context is a note."""
    return isinstance(message, TranscriptEntry) and message.purpose == "note"


def _drop_question(session: Session, state: AgentState, since: int) -> None:
    """Remove the entries since a question from a context, except inputs of others and notes."""
    for result in _iter_results("keep_note", _entries_since(session, state, since)):
        session.append(
            TranscriptEntry(
                agent_id=state.id,
                role="user",
                content=texts.NOTE + text_of(result.content).removeprefix(texts.KEPT),
                cause=result.message_id,
                purpose="note",
            )
        )
    context = session.context(state.id)
    notes = _limit_notes(
        [position for position, message in enumerate(context) if is_note(message)], context
    )
    dropped = {id(entry) for entry in _entries_since(session, state, since) if not _is_talk(entry)}
    retained = [
        position
        for position, message in enumerate(context)
        if id(message) not in dropped and not is_note(message)
    ]
    segments = _as_segments(sorted([*retained, *notes]))
    session.append(TranscriptEdited(agent_id=state.id, segments=segments, reason=DROPPED))


def _entries_since(session: Session, state: AgentState, since: int) -> list[TranscriptEntry]:
    """Return the entries of a context from the event with this number on."""
    return [
        message
        for message in session.context(state.id)
        if isinstance(message, TranscriptEntry) and reference_number(message.message_id) >= since
    ]


def _limit_notes(notes: Sequence[int], context: Sequence[ChatMessage]) -> list[int]:
    """Return the positions of the newest notes within the limits."""
    retained: list[int] = []
    remaining_chars = NOTES_CHARACTERS
    for position in reversed(notes[-MAX_NOTES:]):
        remaining_chars -= len(text_of(context[position].content))
        if remaining_chars < 0:
            break
        retained.append(position)
    return retained


def _as_segments(positions: Sequence[int]) -> list[Segment]:
    """Return sorted positions as ranges."""
    ranges: list[tuple[int, int]] = []
    for position in positions:
        if ranges and ranges[-1][1] == position:
            ranges[-1] = (ranges[-1][0], position + 1)
        else:
            ranges.append((position, position + 1))
    return [Segment(start=start, stop=stop) for start, stop in ranges]
