"""Typesetting: Markdown as rows of a terminal, and nothing else comes out."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.terminal.markdown import render_markdown
from harken.terminal.markdown_tail import format_tail
from harken.terminal.styled_text import cell_width

CODES = re.compile(r"\x1b\[[0-9;]*m")


def plain(text: str, width: int = 60) -> str:
    return CODES.sub("", render_markdown(text, width))


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("# Title", "Title\n"),
        ("**bold** and `code`", "bold and code\n"),
        ("one\ntwo", "one\ntwo\n"),
        ("- a\n- b", " • a\n • b\n"),
        ("9. a\n10. b", "  9. a\n 10. b\n"),
        ("[tea](http://x.y)", "tea (http://x.y)\n"),
        ("![cup](http://x.y/c.png)", "[image: cup] (http://x.y/c.png)\n"),
        ("a List<String> and <b>", "a List<String> and <b>\n"),
        ("<div>\nkept\n</div>", "<div>\nkept\n</div>\n"),
        ("```python\nx = 1\n```", "  x = 1\n"),
        ("```no-such-language\nx\n```", "  x\n"),
        ("| a | b |\n|---|--:|\n| 1 | 2 |", " a  b\n ────\n 1  2\n"),
        ("[bold]no markup[/bold] :smile:", "[bold]no markup[/bold] :smile:\n"),
    ],
)
def test_markdown_is_shown_as_people_expect_it(text: str, rows: str) -> None:
    assert plain(text) == rows


def test_a_table_that_is_too_wide_loses_nothing() -> None:
    path = "".join(f"folder{number}/" for number in range(10))
    drawn = plain(f"| file | what |\n|---|---|\n| {path} | tea |", 40)
    assert "…" not in drawn
    assert path in "".join(row.removesuffix("tea").strip() for row in drawn.splitlines())


@given(
    st.text(alphabet="ab \n#*`|-[]()<>&;x1_~!\\\x1b\x9b\u202e日", max_size=80), st.integers(2, 40)
)
def test_whatever_is_typeset_only_styles_come_out(text: str, width: int) -> None:
    drawn = render_markdown(text, width)
    bare = CODES.sub("", drawn)
    assert "\x1b" not in bare
    assert all(line.isprintable() for line in bare.split("\n"))
    assert drawn.endswith("\n")


@pytest.mark.parametrize("entity", ["&#27;[2J", "&#x1b;]0;x&#7;", "&#x202e;", "&#155;2J", "&#x9b;"])
def test_no_entity_becomes_a_control_character(entity: str) -> None:
    for text in (
        f"a {entity} b",
        f"[{entity}](http://x/{entity} '{entity}')",
        f"```{entity}\nx\n```",
    ):
        assert all(line.isprintable() for line in plain(text).split("\n"))


def test_without_colour_there_is_none() -> None:
    drawn = render_markdown("# T\n`code` **b**\n\n```python\nx = 'a' # c\n```", 40, colour=False)
    assert {code for found in CODES.findall(drawn) for code in re.findall(r"\d+", found)} <= {
        *"01234"
    }


@pytest.mark.parametrize("text", ["word " * 50, "- " + "word " * 50, "> " + "w" * 300, "日本" * 60])
def test_rows_are_no_wider_than_they_may_be(text: str) -> None:
    assert all(cell_width(line) <= 30 for line in plain(text, 30).split("\n"))


def test_a_huge_block_is_shown_as_it_is() -> None:
    assert plain("**a** " * 20_000).startswith("**a** **a**")


def test_hostile_nesting_is_shown_somehow() -> None:
    for text in (">" * 500 + "a", "[" * 3000, "*" * 3000, "- " * 300 + "a"):
        assert plain(text)


def rows(text: str, height: int = 10, *, in_fence: bool = False) -> list[str]:
    lines = format_tail(text, 20, height, in_fence=in_fence)
    return ["".join(part for _, part in line) for line in lines]


def test_the_tail_looks_like_what_will_be_typeset() -> None:
    assert rows("## Tea\n- **black**\n  1. hot") == ["Tea", " • black", "   1. hot"]
    assert rows("```py\nx = 1\ny", in_fence=True) == ["  x = 1", "  y"]
    assert rows("an **unclosed") == ["an **unclosed"]


def test_of_a_long_block_only_the_last_rows_are_made() -> None:
    text = "\n".join(f"line {number}" for number in range(100_000))
    assert rows(text, 3) == ["line 99997", "line 99998", "line 99999"]
    assert len(rows("word " * 100_000, 4)) == 4
    assert rows("any", 0) == []


def test_a_growing_line_keeps_its_rows() -> None:
    before = rows("word " * 3000, 50)
    after = rows("word " * 3000 + "more", 50)
    assert after[:40] in (before[:40], before[1:41])


def test_the_tail_is_safe() -> None:
    for in_fence in (False, True):
        shown = "".join(rows("a\x1b[2J `\x9b` **\x07**", in_fence=in_fence))
        assert shown.isprintable()
