"""Blocks: what of streaming Markdown is finished, and when."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.terminal.markdown_blocks import Block, Blocks

LINES = [
    "",
    "plain words",
    "# Title",
    "---",
    "===",
    "- item",
    "  - inner",
    "1. one",
    "2. two",
    "  more of it",
    "```",
    "```python",
    "  ```",
    "~~~",
    "> said",
    "| a | b |",
    "|---|---|",
    "    code",
    "***",
]
texts = st.lists(st.sampled_from(LINES), max_size=25).map("\n".join)


def blocks_of(text: str) -> list[Block]:
    blocks = Blocks()
    return [*blocks.feed(text), *blocks.finish()]


@given(texts, st.data())
def test_the_blocks_are_the_same_however_the_text_arrives(text: str, data: st.DataObject) -> None:
    blocks, found, left = Blocks(), [], text
    while left:
        size = data.draw(st.integers(1, 7))
        found += blocks.feed(left[:size])
        left = left[size:]
    assert [*found, *blocks.finish()] == blocks_of(text)


@given(texts)
def test_no_line_is_lost_and_none_comes_twice(text: str) -> None:
    written = [line for line in text.split("\n") if line.strip() and "`" not in line]
    written = [line for line in written if "~" not in line]
    kept = [line for block in blocks_of(text) for line in block.text.split("\n")]
    fences = ("`", "~")
    kept = [line for line in kept if line.strip() and not line.strip().startswith(fences)]
    assert kept == written


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("one\ntwo\n\nthree", ["one\ntwo", "three"]),
        ("# Title\ntext", ["# Title", "text"]),
        ("text\n# Title\n", ["text", "# Title"]),
        ("Title\n---\ntext", ["Title\n---", "text"]),
        ("a\n\n---\nb", ["a", "---", "b"]),
        ("text\n```\nx\n\ny\n```\nz", ["text", "```\nx\n\ny\n```", "z"]),
        ("```\nnever closed", ["```\nnever closed\n```"]),
        ("````\n```\n````\nz", ["````\n```\n````", "z"]),
        ("| a |\n|---|\n| 1 |\n\nz", ["| a |\n|---|\n| 1 |", "z"]),
        ("> a\n> b\n\nz", ["> a\n> b", "z"]),
        ("it is\n2. no item", ["it is\n2. no item"]),
    ],
)
def test_a_block_ends_where_markdown_says(text: str, blocks: list[str]) -> None:
    assert [block.text for block in blocks_of(text)] == blocks


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("- a\n- b", ["- a", "- b"]),
        ("- a\n\n- b", ["- a", "- b"]),
        ("1. a\n   more\n\n   and more\n2. b", ["1. a\n   more\n\n   and more", "2. b"]),
        ("- a\n  - inner\n- b", ["- a\n  - inner", "- b"]),
        ("- a\n\n  ```\n\n- no item\n  ```\n- b", ["- a\n\n  ```\n\n- no item\n  ```", "- b"]),
        ("- a\nlazy", ["- a\nlazy"]),
    ],
)
def test_each_item_of_a_list_is_a_block_joined_to_the_one_before(
    text: str, items: list[str]
) -> None:
    assert blocks_of(text) == [Block(item, is_continuation=at > 0) for at, item in enumerate(items)]


def test_what_follows_a_list_is_not_joined_to_it() -> None:
    assert blocks_of("- a\n\ntext\n\n- b") == [Block("- a"), Block("text"), Block("- b")]


def test_a_long_fence_comes_in_pieces_between_its_lines() -> None:
    lines = [f"line {number}" for number in range(70)]
    found = blocks_of("\n".join(["```py", *lines, "```", "end"]))
    assert [block.is_continuation for block in found] == [False, True, True, False]
    assert [block.text.split("\n")[0] for block in found] == ["```py"] * 3 + ["end"]
    assert [line for block in found for line in block.text.split("\n") if "line" in line] == lines


def test_the_rest_is_what_is_not_finished() -> None:
    blocks = Blocks()
    blocks.feed("done\n\nnot ye")
    assert (blocks.open_text, blocks.in_fence) == ("not ye", False)
    blocks.feed("t\n\n```\nx")
    assert (blocks.open_text, blocks.in_fence) == ("```\nx", True)
