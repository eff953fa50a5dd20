"""Render a finished block of Markdown as rows for a terminal.

Rich does the work, with other settings: headings are aligned left, code has no frame, a newline in
the text is kept, and text that looks like HTML is printed as it is. Links show their target; there
are no terminal hyperlinks. The output contains no escape codes but those of styles.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, ListItem, Markdown, MarkdownElement, TableElement
from rich.padding import Padding
from rich.segment import Segment
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from harken.terminal.ansi import strip_trailing_spaces
from harken.terminal.styled_text import clean_text

MAX_BLOCK_CHARS = 60_000
"""The maximum number of characters of a rendered block; a longer one is printed as it is."""
_NO_STYLE_PATTERN = re.compile(r"\x1b(?!\[[0-9;]*m)")
_PARSER = MarkdownIt().enable(["strikethrough", "table"]).disable(["html_block", "html_inline"])
_THEME = Theme(
    {
        "markdown.code": "cyan",
        "markdown.code_block": "none",
        "markdown.block_quote": "italic",
        "markdown.h1": "bold underline",
        "markdown.h2": "bold",
        "markdown.h3": "bold",
        "markdown.h4": "bold",
        "markdown.h5": "bold",
        "markdown.h6": "bold",
        "markdown.hr": "dim",
        "markdown.item.bullet": "none",
        "markdown.item.number": "none",
        "markdown.link": "underline",
        "markdown.link_url": "dim",
        "markdown.table.border": "dim",
        "markdown.table.header": "bold",
    }
)


class _Heading(Heading):
    """A heading aligned left."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield self.text


class _Code(CodeBlock):
    """Code, highlighted and indented, without a background."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        text = Syntax("", self.lexer_name, theme="ansi_dark").highlight(code)
        text.rstrip()
        text.no_wrap, text.overflow = False, "fold"
        yield Padding(text, (0, 0, 0, 2))


class _Item(ListItem):
    """A list item that has a dot after its number."""

    def render_number(
        self, console: Console, options: ConsoleOptions, number: int, last_number: int
    ) -> RenderResult:
        mark = f" {number:>{len(str(last_number - 1))}}. "
        inner = options.update(width=max(options.max_width - len(mark), 1))
        rows = console.render_lines(self.elements, inner)
        for index, row in enumerate(rows):
            yield Segment(mark if index == 0 else " " * len(mark))
            yield from row
            yield Segment("\n")


class _Table(TableElement):
    """A table without truncation: a long word, such as a path, is wrapped."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for part in super().__rich_console__(console, options):
            for column in part.columns if isinstance(part, Table) else ():
                column.overflow = "fold"
            yield part


class _Prose(Markdown):
    """Markdown of a model."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Heading,
        "fence": _Code,
        "code_block": _Code,
        "list_item_open": _Item,
        "table_open": _Table,
    }

    def __init__(self, text: str) -> None:
        super().__init__("", hyperlinks=False)
        self.parsed = _clean_tokens(_PARSER.parse(text))


def _clean_tokens(tokens: Sequence[Token]) -> list[Token]:
    """Remove control characters that entities contain, and keep newlines."""
    for token in tokens:
        token.content, token.info = clean_text(token.content), clean_text(token.info)
        for name, value in token.attrs.items():
            if isinstance(value, str):
                token.attrs[name] = clean_text(value)
        if token.type == "softbreak":
            token.type = "hardbreak"
        elif token.type == "image":
            where = token.attrs.get("src", "")
            token.type, token.tag, token.children = "text", "", None
            token.content = f"[image: {token.content or where}] ({where})"
        if token.children:
            _clean_tokens(token.children)
    return list(tokens)


def render_markdown(text: str, width: int, *, colour: bool = True) -> str:
    """Return the rows of a block, each with a newline, at most `width` cells wide."""
    text = clean_text(text)
    console = Console(
        file=io.StringIO(),
        force_terminal=True,
        color_system="standard" if colour else None,
        no_color=not colour,
        width=max(width, 2),
        theme=_THEME,
        highlight=False,
        emoji=False,
        legacy_windows=False,
        _environ={},
    )
    with console.capture() as captured:
        try:
            console.print(_Prose(text) if len(text) <= MAX_BLOCK_CHARS else Text(text))
        except Exception:  # noqa: BLE001 - Markdown that cannot be parsed is printed as it is
            console.print(Text(text))
    drawn = strip_trailing_spaces(_NO_STYLE_PATTERN.sub("", captured.get()))
    return drawn.strip("\n") + "\n"
