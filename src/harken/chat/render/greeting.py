"""The first output of a chat: a greeting, or the end of a resumed session."""

from __future__ import annotations

from collections.abc import Iterator

from harken.agents.open_calls import has_open_calls
from harken.chat.open_chat import OpenChat
from harken.chat.render.event_printer import EventPrinter
from harken.chat.render.status_line import folder_text
from harken.core.events import Event, TranscriptEntry
from harken.core.ids import AgentId
from harken.session.log.reader import iter_events as read
from harken.terminal.environment import TerminalEnvironment
from harken.terminal.event_lines import format_model_name
from harken.terminal.pieces import Piece, TextRows, note
from harken.terminal.styled_text import Line, clean_text
from harken.views.dialogs.answers import Answers
from harken.views.message_text import format_count

MAX_EXCHANGES = 3
"""The number of last exchanges of a resumed session that are shown."""


def iter_greeting(chat: OpenChat, where: TerminalEnvironment) -> Iterator[Piece]:
    """Yield the model, the folder and a hint about help for a new user."""
    model = format_model_name(chat.primary.state.language_model)
    folder = folder_text(str(where.folder), where.user_home)
    first: Line = [("bold", "harken"), ("dim", f" · {clean_text(model)} · {clean_text(folder)}")]
    help_: Line = [("dim", "/help lists commands and keys · Ctrl-D ends")]
    yield TextRows("note", [first, help_])
    for line in chat.notes:
        yield note(clean_text(line), "yellow")
    if chat.session.torn is not None:
        yield note(f"An incomplete last line was moved to {clean_text(str(chat.session.torn))}")


def iter_last_exchanges(chat: OpenChat, past: list[Event]) -> Iterator[Piece]:
    """Yield the last exchanges of a resumed session, and its state."""
    primary = chat.primary
    prompts = [index for index, event in enumerate(past) if _is_prompt(event, primary.agent_id)]
    teller = EventPrinter(
        chat.session.state,
        chat.runtime.world.tools,
        live=False,
        answers=Answers.of(past),
    )
    if earlier := len(prompts[:-MAX_EXCHANGES]):
        yield note(f"… {format_count(earlier, 'earlier exchange')} (/view perspective main)")
    for event in past[prompts[-MAX_EXCHANGES:][0] :] if prompts else ():
        yield from teller.render(event)
    if has_open_calls(primary):
        yield note("The last turn was interrupted: Enter continues it.", "yellow")


def past_events(chat: OpenChat) -> list[Event]:
    """Return all events of the log of a resumed session."""
    return [*read(chat.session.path)]


def _is_prompt(event: Event, agent_id: AgentId) -> bool:
    return (
        isinstance(event, TranscriptEntry)
        and event.agent_id == agent_id
        and event.role == "user"
        and event.cause is None
        and event.substance is None
    )
