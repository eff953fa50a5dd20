"""The notes of a hook: the part of its context that outlasts a verdict.

An agent created as a hook keeps notes (`keeps: notes` in its spec). Each note is an event when it
is kept. With the next verdict, in one group, the notes become entries of the hook, and an edit
resets its context to its earlier state plus its newest notes. Another agent that became a hook by a
move keeps everything, and is compacted as usual.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harken.agents import texts
from harken.agents.agent import Agent
from harken.agents.call_result import answer_call
from harken.agents.hooks.duty import as_segments
from harken.core.events import NoteKept, Reference, TranscriptEdited, TranscriptEntry
from harken.core.ids import reference_number
from harken.core.messages import ChatMessage, text_of
from harken.session.session import Session
from harken.session.state import AgentState
from harken.world.result import InvalidArguments, ToolResult

DROPPED = "notes dropped"
MAX_NOTE, MAX_NOTES, NOTES_CHARACTERS = 1_000, 20, 8_000
"""The maximum characters of a note, the maximum number of notes, and their maximum total
characters."""

_MOVES = frozenset({"meta", "endo", "talk_with"})


async def run_keep_note(agent: Agent, call: Reference, arguments: Mapping[str, Any]) -> ToolResult:
    """Keep a note until the next verdict and after it. Raises InvalidArguments."""
    text = check_note(arguments["text"])
    with agent.session.group():
        agent.session.append(NoteKept(agent_id=agent.agent_id, text=text, cause=call))
        return answer_call(agent, call, ToolResult(texts.KEPT.format(text)))


def check_note(text: str) -> str:
    """Return a note without surrounding whitespace. Raises InvalidArguments."""
    text = text.strip()
    if not text:
        raise InvalidArguments("the note is blank")
    if len(text) > MAX_NOTE:
        raise InvalidArguments(
            f"a note has at most {MAX_NOTE} characters, not {len(text)}: be brief"
        )
    return text


def keeps_notes(state: AgentState) -> bool:
    """Whether a hook keeps notes in place of its questions and answers."""
    return state.place == "hook" and state.spec.keeps == "notes"


def is_note(message: ChatMessage) -> bool:
    """Whether a message of a hook's context is a note."""
    return isinstance(message, TranscriptEntry) and message.purpose == "note"


def log_notes(hook: Agent) -> None:
    """Append the notes that a hook kept since its last verdict to its transcript."""
    for note in hook.state.notes:
        hook.session.append(
            TranscriptEntry(
                agent_id=hook.agent_id,
                role="user",
                content=texts.NOTE.format(note.text),
                cause=note.message_id,
                purpose="note",
            )
        )


def drop_question(session: Session, state: AgentState, since: int) -> None:
    """Remove the entries since a question from a context, except inputs of others and notes."""
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
    segments = as_segments(sorted([*retained, *notes]))
    session.append(TranscriptEdited(agent_id=state.id, segments=segments, reason=DROPPED))


def _is_talk(entry: TranscriptEntry) -> bool:
    if entry.role == "tool":
        return entry.name in _MOVES and not entry.is_error
    return entry.role == "user" and entry.cause is None


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
