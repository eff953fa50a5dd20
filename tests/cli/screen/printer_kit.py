"""What is told of a session, as plain lines: for tests."""

from __future__ import annotations

import re
from collections.abc import Iterable

from harken.chat.render.event_printer import EventPrinter
from harken.core.events import Event
from harken.terminal.ansi import AnsiStyler
from harken.terminal.pieces import Piece, Printer
from tests.agent_kit import Stage

CODES = re.compile(r"\x1b\[[0-9;]*m")


def drawn(pieces: Iterable[Piece], columns: int = 100) -> list[str]:
    """Return the lines that pieces become, without codes and empty lines."""
    printer = Printer(AnsiStyler())
    text = "".join(printer.text(piece, columns) for piece in pieces)
    return [line for line in CODES.sub("", text).split("\n") if line]


class Heard:
    """Everything that happens in a session from now on."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.events: list[Event] = []
        self.lines: list[str] = []
        self._teller = self.teller()
        stage.session.add_listener(self._hear)

    def _hear(self, event: Event) -> None:
        self.events.append(event)
        self.lines += drawn(self._teller.render(event))

    def teller(self, *, live: bool = True) -> EventPrinter:
        tools = self.stage.runtime.world.tools
        return EventPrinter(self.stage.session.state, tools, live=live)

    def again(self) -> list[str]:
        """Return the same as it is told of a session that is shown again."""
        teller = self.teller(live=False)
        return drawn(piece for event in self.events for piece in teller.render(event))
