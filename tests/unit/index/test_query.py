"""Every user input is a valid query."""

from __future__ import annotations

import pytest

from harken.errors import ConfigError
from harken.index.query import parse_query


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tea", '("tea")'),
        ("tea cake", '("tea") AND ("cake")'),
        ('"tea and cake" pot', '("tea and cake") AND ("pot")'),
        ("tea* -milk", '(("tea"*)) NOT ("milk")'),
        ('tea -"with milk" -sugar', '(("tea")) NOT ("with milk" OR "sugar")'),
        ("tea OR coffee OR milk hot", '("tea" OR "coffee" OR "milk") AND ("hot")'),
        ("tea or coffee", '("tea") AND ("or") AND ("coffee")'),
        ("OR tea OR", '("OR") AND ("tea")'),
        ("-tea", '("tea")'),
        ("--no-verify", '("no verify")'),
        ("a - b", '("a") AND ("b")'),
        ("snake_case src/x.py", '("snake case") AND ("src x py")'),
        ('"open', '("open")'),
        ('"open door"*', '("open door"*)'),
        ("NEAR(tea cake) {x}: ^y", '("NEAR tea") AND ("cake") AND ("x") AND ("y")'),
        ("お茶", '("お 茶")'),
        ("tea\x00cake \ud800x", '("tea cake") AND ("x")'),
    ],
)
def test_words_phrases_prefixes_exclusions_and_alternatives_are_parsed(
    text: str, expected: str
) -> None:
    assert str(parse_query(text)) == expected


def test_prefix_can_be_expanded() -> None:
    vocabulary = {"tea": ["tea", "teapot"], "mi": ["milk", "mint"], "x": ["x\ue000"]}

    def spelled(text: str) -> str:
        return str(parse_query(text).expand_prefixes(lambda word: vocabulary.get(word, [])))

    assert spelled("TEA* OR cake -mi*") == '(("tea" OR "teapot" OR "cake")) NOT ("milk" OR "mint")'
    for same in ("cup*", "x*", "tea", '"hot tea"*', "tëa*"):
        assert spelled(same) == str(parse_query(same)), same


@pytest.mark.parametrize("text", ["", "  ", "!!", '""', "*", "- -", "__"])
def test_query_without_a_word_is_none(text: str) -> None:
    with pytest.raises(ConfigError, match="no word"):
        parse_query(text)


def test_query_length_is_limited() -> None:
    with pytest.raises(ConfigError, match="at most 100 words"):
        parse_query("tea " * 101)
