"""The text of a conversation, as its chat showed it, for a terminal or a pipe.

The chat's renderer makes the pieces, so a session looks the same here, in a running chat and in a
resumed one. Only the folding differs: here `--full` unfolds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from harken.chat.render.event_printer import EventPrinter
from harken.chat.render.tool_calls import Folding
from harken.core.events import Event, SessionStarted, TranscriptEntry
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
from harken.views.dialogs.answers import Answers
from harken.views.message_text import format_count
from harken.views.model_calls import placeholders
from harken.views.tree import format_origin
from harken.views.viewer import SessionViewer

FOLDED = Folding(message="--full", thought="--full")
FULL = Folding(is_full=True, message="message {}")


def conversation_text(
    viewer: SessionViewer, columns: int, *, colour: bool, full: bool = False, drafts: bool = False
) -> Iterator[str]:
    """Yield a session as text for this width, piece by piece, each ended by a newline.

    Raises HarkenError if the log contradicts itself.
    """
    conversation = ConversationPrinter(viewer.path.stem, colour=colour, full=full, drafts=drafts)
    yield from conversation.add(viewer.events.events, columns)


class ConversationPrinter:
    """The conversation of a session that may be running, as text for a terminal."""

    def __init__(
        self,
        name: str,
        *,
        colour: bool,
        full: bool = False,
        drafts: bool = False,
        holds_back: bool = False,
    ) -> None:
        """Create the printer of a session.

        name: the name of the session, if its log has none. drafts: print drafts, too. holds_back:
        print an answer that hooks have yet to judge only when they have.
        """
        self._name = name
        self._folding = FULL if full else FOLDED
        self._state = SessionState()
        self._answers = Answers()
        self._teller = EventPrinter(
            self._state,
            {},
            live=False,
            answers=self._answers,
            shows_drafts=drafts,
            folding=self._folding,
        )
        self._printer = Printer(AnsiStyler(color=colour))
        self._holds_back = holds_back
        self._last_answers: dict[AgentId | None, tuple[TranscriptEntry, bool]] = {}
        """Agent -> its last answer, and whether it was printed."""
        self._has_title = False

    def add(self, events: Sequence[Event], columns: int) -> Iterator[str]:
        """Yield later events as text for this width. The first text is the title.

        Raises HarkenError if the log contradicts itself.
        """
        if not self._has_title:
            self._has_title = True
            state = SessionState()
            _fold_all(state, events)
            yield self._printer.text(_title(self._name, state, events), columns)
            for piece in _origin(events):
                yield self._printer.text(piece, columns)
        for piece in self._pieces(events, columns):
            yield self._printer.text(piece, columns)

    def _pieces(self, events: Sequence[Event], columns: int) -> Iterator[Piece]:
        decided_ids = self._answers.add(events)
        for entry, was_printed in [*self._last_answers.values()]:
            if entry.message_id in decided_ids:
                yield from self._render_decided(entry, was_printed=was_printed)
        for event in events:
            _fold_all(self._state, [event])  # The chat showed it with the places of its time.
            if _is_system_prompt(event, self._teller):
                assert isinstance(event, TranscriptEntry)
                yield _system_prompt(event, self._folding, columns)
            elif isinstance(event, TranscriptEntry) and event.is_utterance:
                is_printed = not (self._holds_back and self._is_pending(event))
                self._last_answers[event.agent_id] = event, is_printed
                if is_printed:
                    yield from self._teller.render(event)
            else:
                yield from self._teller.render(event)

    def _render_decided(self, entry: TranscriptEntry, *, was_printed: bool) -> Iterator[Piece]:
        """Yield an earlier answer about which hooks have decided now."""
        if self._is_pending(entry):
            return
        del self._last_answers[entry.agent_id]
        if not was_printed or entry.message_id in self._answers.outcomes:
            yield from self._teller.render(entry)

    def _is_pending(self, entry: TranscriptEntry) -> bool:
        outcome = self._answers.outcomes.get(entry.message_id)
        return outcome is not None and outcome.status == "pending"


def talking_agent(viewer: SessionViewer) -> AgentId:
    """Return the agent that the user talks with at the end.

    Raises NameNotFound if there is none.
    """
    state = _state_of(viewer)
    talker = state.primary or state.root
    if talker is None:
        raise NameNotFound("agent", "main", ())
    return talker


def _state_of(viewer: SessionViewer) -> SessionState:
    """Return the state at the end of a session, with its agents. Raises HarkenError."""
    state = SessionState()
    _fold_all(state, viewer.events)
    return state


def _fold_all(state: SessionState, events: Iterable[Event]) -> None:
    """Apply events to a state. Raises HarkenError."""
    try:
        for event in events:
            fold(state, event, placeholders)
    except ValueError as error:
        raise HarkenError(f"the log is inconsistent: {error}") from None


def _title(name: str, state: SessionState, events: Iterable[Event]) -> TextRows:
    """Return a line with the session, its model, its time and its size."""
    root = state.agents.get(state.primary or state.root or AgentId(""))
    model = format_model_name(root.language_model) if root and root.language_model else ""
    time = next((event.time for event in events if event.time), "")
    began = f"{time[:10]} {time[11:16]} UTC" if time else ""
    agents = sum(agent.place != "hook" for agent in state.agents.values())
    several = format_count(agents, "agent") if agents > 1 else ""
    name = state.session_id or name
    details = " · ".join(filter(None, [clean_text(model), began, several]))
    line: Line = [
        ("bold", clean_text(one_line(name, 80))),
        ("dim", f" · {details}" if details else ""),
    ]
    return TextRows("note", [line], hanging=2)


def _origin(events: Sequence[Event]) -> Iterator[Piece]:
    """Yield a line about the session that was forked, if this is a fork."""
    if events and isinstance(events[0], SessionStarted) and events[0].origin is not None:
        yield note(clean_text(format_origin(events[0].origin)))


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
