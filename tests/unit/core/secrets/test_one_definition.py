"""The check of a store finds nothing in what a redaction returns, of any spelling of JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harken.core import canonical
from harken.core.secrets.redaction import Credentials, find_kind, find_kind_in_json
from tests.redaction_kit import ANTHROPIC, AWS, GITHUB

PASSWORD = "Tr0ub4dor&3x9"
SECRETS = (AWS, ANTHROPIC, GITHUB, PASSWORD, f"PASSWORD={PASSWORD}", f"://bob:{PASSWORD}@host/")
PAIR_NAMES = ("password", "api_key", "text", "DB_PASSWORD", "Authorization", "command")


def spell(value: Any, draw: Any) -> str:
    """Return JSON with any white space and any escapes."""

    def space() -> str:
        return str(draw(st.sampled_from(["", " ", "    ", "\t", "        "])))

    match value:
        case str():
            return f'"{"".join(spell_letter(letter, draw) for letter in value)}"'
        case list():
            return f"[{space()}{f',{space()}'.join(spell(item, draw) for item in value)}]"
        case dict():
            members = (
                f"{spell(name, draw)}{space()}:{space()}{spell(item, draw)}"
                for name, item in value.items()
            )
            return f"{{{f',{space()}'.join(members)}{space()}}}"
        case _:
            return json.dumps(value)


def spell_letter(letter: str, draw: Any) -> str:
    if draw(st.integers(0, 19)) == 0:
        return f"\\u{ord(letter):04x}" if ord(letter) < 0x10000 else letter
    return {"/": "\\/"}.get(letter, json.dumps(letter, ensure_ascii=False)[1:-1])


TEXTS = st.one_of(
    st.text(max_size=20),
    st.builds(
        "".join,
        st.tuples(
            st.sampled_from(["", "Page one\f", "\x1b[32m", "voilà ", "\b", '"', "\\", "key=", "é"]),
            st.sampled_from(SECRETS),
            st.sampled_from(["", "\x1b[0m", " end", "\n", '"', "\\", "é", ";"]),
        ),
    ),
)


@st.composite
def records(draw: Any) -> tuple[str, Any]:
    """Return a line of JSON, and its value."""
    names = st.one_of(st.sampled_from(PAIR_NAMES), st.text(max_size=5))
    values = st.recursive(
        st.one_of(TEXTS, st.integers(), st.none()),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(names, inner, max_size=3),
            st.dictionaries(names, inner, max_size=2).map(
                lambda value: json.dumps(value, ensure_ascii=False)
            ),
        ),
        max_leaves=5,
    )
    value = draw(st.dictionaries(names, values, min_size=1, max_size=4))
    return spell(value, draw), value


def check_strings(value: Any) -> None:
    """Assert that the check finds nothing in a value, nor in the JSON in its strings."""
    assert find_kind_in_json(canonical.to_canonical_bytes(value)) == ""
    for item in value.values() if isinstance(value, dict) else value:
        if isinstance(item, str) and item[:1] in "{[":
            try:
                item = json.loads(item)
            except ValueError:
                continue
        if isinstance(item, dict | list):
            check_strings(item)


@settings(max_examples=100, deadline=None)
@given(st.lists(records(), min_size=1, max_size=3))
def test_the_check_finds_nothing_in_what_the_redaction_returns(
    generated: list[tuple[str, Any]],
) -> None:
    data = "\n".join(line for line, _ in generated).encode("utf-8", "surrogatepass")
    redacted = Credentials().replace_in_bytes(data)
    assert find_kind(redacted) == ""
    assert Credentials().replace_in_bytes(redacted) == redacted
    lines = redacted.split(b"\n")
    assert len(lines) == len(generated)
    for line in lines:
        check_strings(json.loads(line))
        assert not any(text.encode() in line for text in (AWS, ANTHROPIC, GITHUB))


LINES = [
    '{"body": {"password"     :     "Tr0ub4dor&3x9"}}',
    f'{{"text": "Page one\\f{AWS} end"}}',
    f'{{"text": "Page one\\b{AWS} end"}}',
    f'{{"text": "\\u0041{AWS[1:]}"}}',
    f'{{"text": "\\u001b[01;31m\\u001b[K{AWS}\\u001b[m"}}',
    f'{{"text": "\\u001B[32m{AWS}"}}',
    f"\x1b[32m{AWS}\x1b[0m",
    f"\x1b(B\x1b[m{AWS}",
    f"\\x1b[1m{AWS}",
    '{"password": "voilàSecret99"}',
    '{"pass\\u0077ord": "Tr0ub4dor\\u00263x9"}',
]


@pytest.mark.parametrize("line", LINES)
def test_a_credential_is_found_in_any_spelling(line: str) -> None:
    redacted = Credentials().replace_in_bytes(line.encode())
    assert b"[redacted " in redacted
    assert find_kind(line.encode()) != ""
    assert find_kind(redacted) == ""


def test_the_size_of_a_text_changes_nothing() -> None:
    filler = b'{"a": "So."}\n' * 200_000
    data = filler + "\n".join(LINES).encode() + b"\n" + filler + LINES[0].encode()
    pieces = [data[i : i + 1_000_003] for i in range(0, len(data), 1_000_003)]
    redacted = b"".join(Credentials().replace_in_pieces(pieces))
    assert redacted == Credentials().replace_in_bytes(data)
    assert redacted.count(b"[redacted ") == len(LINES) + 1
    assert redacted.startswith(filler)


@pytest.mark.parametrize("depth", range(7))
def test_a_named_secret_is_found_at_any_depth(depth: int) -> None:
    text = f'{{"password": "{PASSWORD}"}}'
    for _ in range(depth):
        text = json.dumps(f"Result: {text}")
    data = Credentials().replace_in_bytes(json.dumps({"text": text}).encode())
    assert b"[redacted password]" in data
    assert PASSWORD.encode() not in data
