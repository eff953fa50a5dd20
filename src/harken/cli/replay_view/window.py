"""The full-screen window of the replay reader, and its keys."""

from __future__ import annotations

import sys
from collections.abc import Callable

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Always, Condition, Filter
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.output.color_depth import ColorDepth

from harken.chat.screen.canvas import SteadyOutput
from harken.chat.screen.layout import fragments
from harken.cli.replay_view.reader import ReplayReader
from harken.terminal.environment import TerminalEnvironment

_ESCAPE_WAIT_S = 0.1


class ReplayWindow:
    """Shows a reader until the user ends it."""

    def __init__(self, reader: ReplayReader, where: TerminalEnvironment) -> None:
        self.reader = reader
        self._asks = ""
        """The prompt in the last row: `g`, `/`, or empty."""
        self._entered = Buffer(multiline=False, accept_handler=self._process_input)
        depth = ColorDepth.DEPTH_4_BIT if where.color else ColorDepth.DEPTH_1_BIT
        output = SteadyOutput.from_pty(sys.stdout, where.term, default_color_depth=depth)
        self._body = Window(FormattedTextControl(self._render, focusable=True, show_cursor=False))
        self._line = Window(
            BufferControl(self._entered),
            height=1,
            get_line_prefix=lambda *_: [("bold", "to request: " if self._asks == "g" else "/")],
        )
        asking = Condition(lambda: bool(self._asks))
        self.app: Application[int] = Application(
            layout=Layout(HSplit([self._body, ConditionalContainer(self._line, asking)])),
            key_bindings=self._bindings(),
            color_depth=depth,
            full_screen=True,
            include_default_pygments_style=False,
            output=output,
        )
        self.app.ttimeoutlen = self.app.timeoutlen = _ESCAPE_WAIT_S

    def run(self) -> int:
        """Run the window; return the exit code."""
        return self.app.run()

    def _render(self) -> StyleAndTextTuples:
        size = self.app.output.get_size()
        return fragments(self.reader.frame(size.columns, size.rows - bool(self._asks)))

    def _process_input(self, buffer: Buffer) -> bool:
        """Process the entered text, and clear the line."""
        prompt, self._asks = self._asks, ""
        self.app.layout.focus(self._body)
        if prompt == "g" and buffer.text.strip():
            self.reader.go(buffer.text)
        elif prompt == "/":
            self.reader.search(buffer.text)
        return False

    def _ask(self, prompt: str) -> None:
        self._asks = prompt
        self._entered.reset()
        self.app.layout.focus(self._line)

    def _leave(self) -> None:
        """Close a prompt, else a search, else the help."""
        if self._asks:
            self._asks = ""
            self.app.layout.focus(self._body)
        else:
            self.reader.leave()

    def _bindings(self) -> KeyBindings:
        keys = KeyBindings()
        reading = Condition(lambda: not self._asks)
        for key, do in self._bind_moves().items():
            _bind(keys, key, do, reading)
        for key in ("q", "c-d"):
            _bind(keys, key, self._end, reading)
        _bind(keys, "c-c", self._end, Always())
        _bind(keys, "escape", self._leave, Always())
        return keys

    def _bind_moves(self) -> dict[str, Callable[[], object]]:
        reader = self.reader
        return {
            "n": lambda: reader.again(1) if reader.term else reader.step(1),
            "N": lambda: reader.again(-1) if reader.term else reader.step(-1),
            "b": lambda: reader.step(-1),
            "p": lambda: reader.step(-1),
            "right": lambda: reader.step(1),
            "left": lambda: reader.step(-1),
            "enter": lambda: reader.step(1),
            " ": reader.on,
            "down": lambda: reader.scroll(1),
            "up": lambda: reader.scroll(-1),
            "pagedown": lambda: reader.scroll(reader.page),
            "pageup": lambda: reader.scroll(-reader.page),
            "home": lambda: reader.end(last=False),
            "end": lambda: reader.end(last=True),
            "a": reader.only_agent,
            "c": lambda: reader.look("context"),
            "d": lambda: reader.look("step"),
            "t": lambda: reader.look("tools"),
            "j": lambda: reader.look("raw"),
            "?": lambda: reader.look("help"),
            "h": lambda: reader.look("help"),
            "g": lambda: self._ask("g"),
            "/": lambda: self._ask("/"),
        }

    def _end(self) -> None:
        self.app.exit(result=0)


def _bind(keys: KeyBindings, key: str, do: Callable[[], object], when: Filter) -> None:
    @keys.add(key, filter=when, eager=key == "escape")
    def _(_: KeyPressEvent) -> None:
        do()
