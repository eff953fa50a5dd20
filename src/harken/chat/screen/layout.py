"""The layout that prompt_toolkit draws, from a question at the top to the status line."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import History, InMemoryHistory
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.layout.processors import AfterInput, ConditionalProcessor
from prompt_toolkit.styles import Style
from prompt_toolkit.widgets import SearchToolbar

from harken.chat.screen.input_history import MAX_HISTORY_CHARS
from harken.chat.screen.prompts import ScreenPrompt, choices
from harken.terminal.styled_text import PROMPT, Line, clean_text, shorten

STYLE = Style.from_dict(
    {
        "completion-menu": "noinherit",
        "completion-menu.completion": "noinherit",
        "completion-menu.completion.current": "noinherit reverse",
        "completion-menu.meta.completion": "noinherit dim",
        "completion-menu.meta.completion.current": "noinherit reverse",
        "scrollbar.background": "noinherit",
        "scrollbar.button": "noinherit reverse",
        "search": "noinherit underline",
        "search.current": "noinherit reverse",
        "incsearch": "noinherit underline",
        "incsearch.current": "noinherit reverse",
    }
)
_PLAIN = frozenset({"bold", "dim", "italic", "underline", "reverse"})
MAX_NAME_CELLS = 20
"""The maximum number of cells of the name before the input."""
_INVITING = "type a message, or /help"
_MEANWHILE = "type ahead: it is sent when this turn ends · Ctrl-C stops it"
_SOON = "keys are ignored for a moment"
_DRAFT_FIRST = "keys go to your text · Enter sends it, Shift-Tab sets it aside to answer"
_SET_ASIDE = "set aside (Shift-Tab brings it back): "


class LayoutState(msgspec.Struct, frozen=True):
    """The values that the layout reads whenever it is drawn."""

    question: Callable[[], ScreenPrompt | None]
    question_lines: Callable[[], list[Line]]
    is_armed: Callable[[], bool]
    """Whether keys answer the question already."""
    is_running: Callable[[], bool]
    """Whether a turn runs."""
    status: Callable[[], Line]
    columns: Callable[[], int]
    rows: Callable[[], int]
    """Return the number of rows of the terminal."""
    talks_with: Callable[[], str] = str
    """Return the name of the agent that the user talks with, if it is not the first one."""


def fragments(lines: Sequence[Line]) -> StyleAndTextTuples:
    r"""Return lines as fragments of prompt_toolkit.

    >>> fragments([[("bold red", "a")], [("", "b")]])
    [('bold ansired', 'a'), ('', '\n'), ('', 'b')]
    """
    result: StyleAndTextTuples = []
    for index, line in enumerate(lines):
        if index:
            result.append(("", "\n"))
        for style, text in line:
            words = [word if word in _PLAIN else f"ansi{word}" for word in style.split()]
            result.append((" ".join(words), text))
    return result


class Inputs:
    """The input fields of the user, and their layout."""

    def __init__(
        self, layout_state: LayoutState, completer: Completer, history: History | None
    ) -> None:
        self.state = layout_state
        self.buffer = Buffer(
            multiline=True,
            history=history or InMemoryHistory(),
            completer=completer,
            complete_while_typing=Condition(self._completes_itself),
            tempfile_suffix=".md",
            name="input",
        )
        self.answer = Buffer(multiline=False, name="answer")
        """The input of an answer to a question; type-ahead stays in `buffer`."""
        self.aside: Document | None = None
        """A draft that the user set aside to answer a question."""
        self.search = SearchToolbar()
        self.question_window = Window(
            FormattedTextControl(lambda: fragments(layout_state.question_lines())),
            dont_extend_height=True,
            height=Dimension(min=0),
        )
        self.keys_window = Window(
            FormattedTextControl(self._choices, focusable=True, show_cursor=False),
            dont_extend_height=True,
            wrap_lines=True,
            height=Dimension(min=1),
        )
        self.hint_window = Window(
            FormattedTextControl(self._hint),
            dont_extend_height=True,
            wrap_lines=True,
            height=Dimension(min=1),
        )
        self.aside_window = Window(
            FormattedTextControl(self._set_aside_text), dont_extend_height=True, height=1
        )
        self.answer_window = Window(
            BufferControl(self.answer),
            get_line_prefix=lambda *_: [("bold ansiyellow", PROMPT)],
            dont_extend_height=True,
            height=1,
        )
        self.input_window = Window(
            BufferControl(
                self.buffer,
                search_buffer_control=self.search.control,
                preview_search=True,
                input_processors=[
                    ConditionalProcessor(AfterInput(self._placeholder), Condition(self._is_empty))
                ],
            ),
            get_line_prefix=self._prefix,
            dont_extend_height=True,
            wrap_lines=True,
            height=self._input_height,
        )
        self.layout = Layout(self._container(), focused_element=self.input_window)

    def _container(self) -> HSplit:
        asking = Condition(lambda: self.state.question() is not None)
        armed = Condition(self.state.is_armed)
        has_words = Condition(self._wants_text)
        status = Window(
            FormattedTextControl(lambda: fragments([self.state.status()])),
            dont_extend_height=True,
            height=Dimension(min=0, preferred=1, max=1),
        )
        has_aside = Condition(lambda: self.aside is not None)
        return HSplit(
            [
                ConditionalContainer(self.question_window, asking),
                ConditionalContainer(self.answer_window, asking & armed & has_words),
                ConditionalContainer(self.keys_window, asking & armed),
                ConditionalContainer(self.hint_window, asking & ~armed),
                ConditionalContainer(self.aside_window, has_aside),
                ConditionalContainer(self.input_window, ~(asking & armed)),
                CompletionsMenu(max_height=6),
                self.search,
                status,
            ]
        )

    @property
    def question_rows(self) -> int:
        """The number of rows of the question."""
        drawn = self.question_window.render_info
        is_there = self.question_window in self.layout.visible_windows
        return drawn.window_height if drawn is not None and is_there else 0

    def refocus(self) -> None:
        """Move the focus to the window that accepts input now."""
        question = self.state.question()
        if question is None or not self.state.is_armed():
            window = self.input_window
        else:
            window = self.answer_window if question.wants_text else self.keys_window
        if self.layout.current_window is not window and not self.layout.is_searching:
            self.layout.focus(window)

    def remember(self, text: str) -> None:
        """Clear the input and add the message, with pasted texts, to the history."""
        before = self.buffer.history.get_strings()
        if len(text) <= MAX_HISTORY_CHARS and text not in before[-1:]:
            self.buffer.history.append_string(text)
        self.buffer.reset()

    def insert(self, text: str) -> None:
        """Insert a text above the text of the input."""
        draft = self.buffer.text
        text = f"{text}\n\n{draft}" if draft.strip() else text
        self.buffer.document = Document(text)

    @property
    def is_busy(self) -> bool:
        """Whether the input contains text, or a search of the history is open."""
        return bool(self.buffer.text) or self.layout.is_searching

    def set_aside(self) -> None:
        """Clear the input and store the draft until a question is answered."""
        self.aside = self.buffer.document
        self.buffer.reset()

    def bring_back(self) -> None:
        """Restore the stored draft."""
        aside, self.aside = self.aside, None
        if aside is None:
            return
        if self.buffer.text:
            self.insert(aside.text)
        else:
            self.buffer.document = aside

    def _wants_text(self) -> bool:
        question = self.state.question()
        return question is not None and question.wants_text

    def _choices(self) -> StyleAndTextTuples:
        question = self.state.question()
        return fragments(choices(question)) if question is not None else []

    def _hint(self) -> StyleAndTextTuples:
        """Return the reason for which keys do not answer yet."""
        return [("dim", _DRAFT_FIRST if self.is_busy else _SOON)]

    def _set_aside_text(self) -> StyleAndTextTuples:
        text = clean_text(" ".join(self.aside.text.split())) if self.aside is not None else ""
        return [("dim", shorten(_SET_ASIDE + text, max(self.state.columns() - 1, 1)))]

    def _is_empty(self) -> bool:
        return not self.buffer.text and not self.layout.is_searching

    def _placeholder(self) -> StyleAndTextTuples:
        text = _MEANWHILE if self.state.is_running() else _INVITING
        return [("dim", shorten(text, max(self.state.columns() - 4, 1)))]

    def _completes_itself(self) -> bool:
        """Whether completions are shown without Tab: for commands, and for a name after `@`."""
        before = self.buffer.document.text_before_cursor
        if before.startswith("/") and "\n" not in before:
            return True
        word = before.split()[-1] if before and not before[-1].isspace() else ""
        return word.startswith("@")

    def _input_height(self) -> Dimension:
        return Dimension(min=1, max=max(self.state.rows() // 2, 1))

    def _prefix(self, line: int, wrapped: int) -> StyleAndTextTuples:
        if line or wrapped:
            return [("", "  ")]
        name = shorten(self.state.talks_with(), MAX_NAME_CELLS)
        return [("ansicyan", f"{name} " if name else ""), ("bold ansicyan", PROMPT)]
