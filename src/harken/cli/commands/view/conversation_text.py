"""The text of a conversation, as its chat showed it, for a terminal or a pipe.

The chat's renderer makes the pieces, so a session looks the same here, in a running chat and in a
resumed one. Only the folding differs: here `--full` unfolds.
"""

from __future__ import annotations

from collections.abc import Iterator

from harken.chat.render.event_printer import EventPrinter, find_rewritten_answers
from harken.chat.render.tool_calls import Folding
from harken.core.events import Event, TranscriptEntry
from harken.core.ids import AgentId
from harken.core.messages import text_of
from harken.errors import HarkenError, NameNotFound
from harken.session.fold import fold
from harken.session.state import SessionState
from harken.terminal.ansi import AnsiStyler
from harken.terminal.event_lines import format_model_name
from harken.terminal.pieces import MAX_TEXT_CELLS, Piece, Printer, TextRows, note
from harken.terminal.styled_text import Line, clean_text, shorten
from harken.terminal.text import one_line
from harken.views.message_text import format_count
from harken.views.model_calls import placeholders
from harken.views.viewer import SessionViewer

FOLDED = Folding(message="--full", thought="--full")
FULL = Folding(is_full=True, message="message {}")


def conversation_text(
    viewer: SessionViewer, columns: int, *, colour: bool, full: bool = False
) -> Iterator[str]:
    """Yield a session as text for this width, piece by piece, each ended by a newline.

    Raises HarkenError if the log contradicts itself.
    """
    printer = Printer(AnsiStyler(color=colour))
    for piece in _pieces(viewer, FULL if full else FOLDED, columns):
        yield printer.text(piece, columns)


def talking_agent(viewer: SessionViewer) -> AgentId:
    """Return the agent that the user talks with at the end.

    Raises NameNotFound if there is none.
    """
    state = _state_of(viewer)
    talker = state.primary or state.root
    if talker is None:
        raise NameNotFound("agent", "main", ())
    return talker


def _pieces(viewer: SessionViewer, folding: Folding, columns: int) -> Iterator[Piece]:
    state = _state_of(viewer)
    events = viewer.events.events
    teller = EventPrinter(
        state, {}, live=False, rewritten_answers=find_rewritten_answers(events), folding=folding
    )
    yield _title(viewer, state)
    for event in events:
        if _is_system_prompt(event, teller):
            assert isinstance(event, TranscriptEntry)
            yield _system_prompt(event, folding, columns)
        else:
            yield from teller.render(event)


def _state_of(viewer: SessionViewer) -> SessionState:
    """Return the state at the end of a session, with its agents. Raises HarkenError."""
    state = SessionState()
    try:
        for event in viewer.events:
            fold(state, event, placeholders)
    except ValueError as error:
        raise HarkenError(f"the log is inconsistent: {error}") from None
    return state


def _title(viewer: SessionViewer, state: SessionState) -> TextRows:
    """Return a line with the session, its model, its time and its size."""
    root = state.agents.get(state.primary or state.root or AgentId(""))
    model = format_model_name(root.language_model) if root and root.language_model else ""
    times = [event.time for event in viewer.events if event.time]
    began = f"{times[0][:10]} {times[0][11:16]} UTC" if times else ""
    agents = sum(agent.place != "hook" for agent in state.agents.values())
    several = format_count(agents, "agent") if agents > 1 else ""
    name = state.session_id or viewer.path.stem
    details = " · ".join(filter(None, [clean_text(model), began, several]))
    line: Line = [
        ("bold", clean_text(one_line(name, 80))),
        ("dim", f" · {details}" if details else ""),
    ]
    return TextRows("note", [line], hanging=2)


def _is_system_prompt(event: Event, teller: EventPrinter) -> bool:
    return (
        isinstance(event, TranscriptEntry)
        and event.role == "system"
        and event.cause is None
        and event.agent_id == teller.primary
    )


def _system_prompt(entry: TranscriptEntry, folding: Folding, columns: int) -> TextRows:
    """Return a system prompt, on one line where it is folded."""
    text = text_of(entry.content)
    if folding.is_full:
        return note(clean_text(f"system prompt: {text}"))
    head = f"system prompt, {format_count(len(text.split()), 'word')}: "
    return note(
        shorten(head + clean_text(one_line(text, columns)), min(columns - 1, MAX_TEXT_CELLS))
    )
