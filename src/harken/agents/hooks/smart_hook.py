"""What a smart hook does beside answering: it says its verdict again, keeps notes, and leaves.

One idea: all that is due after a verdict is read from the hook's own context, where the question
stands until it is dropped. So it is done once, at once or by the resume that follows a crash.

A hook that was born as one keeps notes (`keeps: notes` in its spec): after each verdict one
`transcript_edited` takes its context back to what it was, plus what it noted. Another agent that
came to stand as a hook keeps everything, and is compacted as ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import dropwhile, takewhile
from typing import Any

from harken.agents.agent import Agent
from harken.agents.hooks.hook import finish_leaving
from harken.core.events import AgentMoved, Reference, Segment, TranscriptEdited, TranscriptEntry
from harken.core.ids import MessageId, reference_number
from harken.core.logged_string import LoggedString
from harken.core.messages import ChatMessage, text_of
from harken.core.verdict import (
    ALLOWED,
    FAILED,
    FORMS,
    HookPoint,
    HookQuestion,
    is_question,
    parse_verdict_entry,
)
from harken.session.session import Session
from harken.session.state import AgentState
from harken.world.result import InvalidArguments, ToolResult

NOTE = "[note] "
"""How a hook reads what it noted."""
KEPT = "Kept: "
DROPPED = "notes dropped"
MAX_NOTE, MAX_NOTES, NOTES_CHARACTERS = 1_000, 20, 8_000
"""A note is so long, and so many of them, with so many characters together, are kept."""

_MOVES = frozenset({"meta", "endo", "talk_with"})


async def run_keep_note(agent: Agent, call: Reference, arguments: Mapping[str, Any]) -> ToolResult:
    """Keep a note: its result says it, and what is dropped after the verdict leaves it there.

    Raises InvalidArguments.
    """
    text = arguments["text"].strip()
    if not text:
        raise InvalidArguments("a note says something")
    if len(text) > MAX_NOTE:
        raise InvalidArguments(
            f"a note has at most {MAX_NOTE} characters, not {len(text)}: be brief"
        )
    return ToolResult(KEPT + text)


def told_of_copy(hook: Agent) -> str | None:
    """Return what a copy of a hook is told: what it was told itself, as its transcript has it.

    None: it is not copied: only what was born as a hook is.
    """
    spec = hook.state.spec
    if "keeps" not in spec:
        return None
    own = takewhile(lambda entry: entry.role == "system", hook.state.transcript or ())
    more = spec.get("copy")
    told = [text_of(entry.content) for entry in own] + ([more] if isinstance(more, str) else [])
    return "\n\n".join(told)


def spec_of_copy(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the birth of a copy says beside its kind, from what that of the hook says."""
    kept = ("points", "keeps", "parameters", "template", "budget")
    return {name: spec.get(name) for name in kept}


def ask_again(hook: Agent, question: HookQuestion, said: LoggedString) -> bool:
    """Tell a hook, once, what is expected of it; False where it said nothing itself."""
    entries = reversed(hook.state.transcript or ())
    own = next((entry for entry in entries if entry.message_id == said.message_id), None)
    if own is None or not own.is_utterance:
        return False  # a budget ended its turn
    entry = TranscriptEntry(
        agent_id=hook.agent_id, role="user", content=expected(question.point), cause=said.message_id
    )
    hook.session.append(entry)
    return True


def expected(point: HookPoint) -> str:
    """Return what a hook is told that gave no verdict, or one that there is not at this point."""
    forms = "\n".join(FORMS[kind] for kind in ALLOWED[point])
    return (
        f"That is no verdict on {point}. Answer with one of these and nothing else, "
        f"the word at the beginning of the line:\n{forms}"
    )


def is_judging(hook: Agent) -> bool:
    """Whether it acts because it was asked something, and is to give its verdict on that yet.

    Not where something outside woke it, or where it has given its place away meanwhile.
    """
    asked = filter(is_question, _stretch(hook.session.context(hook.agent_id)))
    return any(
        reference_number(entry.message_id) > reference_number(hook.state.placed) for entry in asked
    )


def after_verdict(hook: Agent) -> None:
    """Do what is due after a verdict, where one was given: leave, or drop what it rests on."""
    state = hook.state
    if state.place != "hook":
        return
    context = hook.session.context(hook.agent_id)
    stretch = _stretch(context)
    if not _is_judged(stretch):
        return
    left = next(_results("quit", stretch), None)
    if left is not None:
        cause = _maker_of(left, stretch)
        hook.session.append(AgentMoved(agent_id=hook.agent_id, place="gone", cause=cause))
    elif state.spec.get("keeps") == "notes":
        _drop(hook.session, state, stretch)


def finish_verdicts(session: Session, revived: Any) -> None:
    """Do what a crash left undone after verdicts. revived: gives an agent by its id."""
    for state in list(session.agents.values()):
        if state.place != "hook" or not session.state.is_live(state.id):
            continue
        if state.language_model is None:
            finish_leaving(session, state)
        elif not (hook := revived(state.id)).has_open_calls:  # else hooks of its own still judge it
            after_verdict(hook)


def _stretch(context: Sequence[ChatMessage]) -> list[TranscriptEntry]:
    """Return the end of a context from the last question, or those before that nobody answered.

    What was said to the agent by others than those whom it watches is no part of a question, nor
    is what was before it came to stand where it does.
    """
    entries: list[TranscriptEntry] = []
    for message in reversed(context):
        if not isinstance(message, TranscriptEntry) or _is_talk(message):
            break
        entries.append(message)
    return list(dropwhile(lambda entry: not is_question(entry), reversed(entries)))


def _is_talk(entry: TranscriptEntry) -> bool:
    if entry.role == "tool":
        return entry.name in _MOVES and not entry.is_error
    return entry.role == "user" and entry.cause is None


def _is_judged(stretch: Sequence[TranscriptEntry]) -> bool:
    """Whether the last question there has its verdict, or that it failed."""
    question: MessageId | None = None
    judged = False
    for entry in stretch:
        if is_question(entry):
            question, judged = entry.message_id, False
        elif entry.role == "system" and entry.cause == question:
            judged = judged or text_of(entry.content).startswith(FAILED)
        elif entry.cause is None:  # else it was cut off in the middle of what it said
            judged = judged or parse_verdict_entry(entry) is not None
    return judged


def _results(tool: str, stretch: Sequence[TranscriptEntry]) -> Iterator[TranscriptEntry]:
    """Yield the results of calls of a tool that went well."""
    for entry in stretch:
        if entry.role == "tool" and entry.name == tool and not entry.is_error:
            yield entry


def _maker_of(result: TranscriptEntry, stretch: Sequence[TranscriptEntry]) -> MessageId:
    """Return the message that made the call of a result: the last one before it with its id."""
    before = takewhile(lambda entry: entry is not result, stretch)
    made = [
        e.message_id for e in before for one in e.tool_calls or () if one.id == result.tool_call_id
    ]
    return made[-1] if made else result.message_id


def is_note(message: ChatMessage) -> bool:
    """Whether a message of a hook's context is what it noted."""
    is_heard = message.role == "user" and getattr(message, "cause", None) is not None
    return is_heard and text_of(message.content).startswith(NOTE)


def _drop(session: Session, state: AgentState, stretch: Sequence[TranscriptEntry]) -> None:
    """Take a context back to what it was before a stretch at its end, with the newest notes."""
    begins = len(session.context(state.id)) - len(stretch)
    there = {entry.cause for entry in stretch if is_note(entry) and isinstance(entry.cause, str)}
    for result in _results("keep_note", stretch):
        if result.message_id not in there:  # a crash may have come after it
            text = NOTE + text_of(result.content).removeprefix(KEPT)
            session.append(
                TranscriptEntry(
                    agent_id=state.id, role="user", content=text, cause=result.message_id
                )
            )
    context = session.context(state.id)
    notes = _bounded([at for at, message in enumerate(context) if is_note(message)], context)
    stays = [at for at in range(begins) if not is_note(context[at])]
    segments = _ranges(sorted([*stays, *notes]))
    session.append(TranscriptEdited(agent_id=state.id, segments=segments, reason=DROPPED))


def _bounded(notes: Sequence[int], context: Sequence[ChatMessage]) -> list[int]:
    """Return the positions of the newest notes, as many as are kept."""
    found: list[int] = []
    left = NOTES_CHARACTERS
    for at in reversed(notes[-MAX_NOTES:]):
        left -= len(text_of(context[at].content))
        if left < 0:
            break
        found.append(at)
    return found


def _ranges(positions: Sequence[int]) -> list[Segment]:
    """Return positions, in order, as ranges."""
    ranges: list[tuple[int, int]] = []
    for at in positions:
        if ranges and ranges[-1][1] == at:
            ranges[-1] = (ranges[-1][0], at + 1)
        else:
            ranges.append((at, at + 1))
    return [Segment(start=start, stop=stop) for start, stop in ranges]
