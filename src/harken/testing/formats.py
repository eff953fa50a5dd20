"""Conformance tests of formats, for Harken's formats and for third-party ones.

Source: docs/how-to/add-a-format.md; the contract is `harken.formats.base.Format`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from harken.core import canonical
from harken.core.commits import encode_entry
from harken.core.messages import (
    FunctionCall,
    ImagePart,
    Message,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolCallSlot,
    UnknownPart,
)
from harken.errors import FormatError
from harken.formats.base import ConversationEntry, Format

_NOON = "2026-01-31T12:00:00.000000Z"
_PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
_SEED = 20260131


def plain_conversation() -> list[ConversationEntry]:
    """Return a conversation that every format can encode: texts, calls and results, with times."""
    call = ToolCall("call_1", FunctionCall("look", '{"at":"the door"}'))
    messages = [
        Message("user", "Is somebody at the door?"),
        Message("assistant", "I look.", [call]),
        Message("tool", "Nobody.", tool_call_id="call_1"),
        Message("assistant", "Nobody is at the door, not even Jill."),
    ]
    return [
        ConversationEntry(message, _NOON.replace("00.0", f"{second:02}.0"))
        for second, message in enumerate(messages)
    ]


def odd_conversation() -> list[ConversationEntry]:
    """Return entries with edge cases of everything that a message can contain."""
    edge_text = "\ud800 alone, \0, \u2028, \x1b[31m, e\u0301, 😀, ```, <b>, \\"
    numbers = {"0": [0, 0.0, False, None, "0"], "large": 10**30, edge_text: {"\ud800": 1e300}}
    calls = [
        ToolCall("a", FunctionCall("look", '{ "at": 1.0 }')),
        ToolCall("b", FunctionCall("", "no JSON"), "custom", {"x": numbers}),
        ToolCall("a", FunctionCall(edge_text, '{"n":1e400}')),
    ]
    slotted_calls = [ToolCall("1", FunctionCall("f", "{}")), ToolCall("2", FunctionCall("f", "[]"))]
    parts: list[Part] = [
        TextPart(edge_text, {"m": numbers}),
        ImagePart("image/png", _PIXEL),
        TextPart(""),
    ]
    native = '{"type":"server_tool_use","id":"s","name":"search","input":{"q":1}}'
    thought: list[Part] = [
        ThinkingPart("hm", {"signature": "c2ln", "model": "m"}),
        ThinkingPart(edge_text),
    ]
    messages = [
        Message("system", edge_text, name="n"),
        Message("system", [TextPart("a"), TextPart("b")]),
        Message("user", ""),
        Message("user", [*parts, UnknownPart("document", "{}")], name=edge_text),
        Message("user"),
        Message("assistant"),
        Message("assistant", []),
        Message("assistant", "one"),
        Message("assistant", "two"),
        Message("assistant", [*thought, TextPart("x")], calls),
        Message("assistant", [ToolCallSlot("1"), TextPart("so"), ToolCallSlot("2")], slotted_calls),
        Message("assistant", [UnknownPart("server_tool_use", native), UnknownPart("", edge_text)]),
        Message("tool", "no call", is_error=True),
        Message("tool", [*parts], tool_call_id="", name=edge_text),
    ]
    source = {"id": edge_text, "usage": numbers}
    return [ConversationEntry(message, _NOON, source) for message in messages]


class FormatSuite:
    """The tests of a format. Inherit from it in a class `Test...`, and set `format`.

    A format that can be read but not written must also override `sample`.
    """

    format: Format
    tries = 300
    """The number of damaged inputs that are read."""

    def conversation(self) -> list[ConversationEntry]:
        """Return entries that the format can encode."""
        return plain_conversation()

    def sample(self) -> bytes:
        """Return bytes of the format, as its original program writes them."""
        return self._write(self.conversation())

    def older_samples(self) -> dict[str, bytes]:
        """Return a sample of each older version that the format upgrades, by version name."""
        return {}

    def test_it_has_a_name_with_a_version(self) -> None:
        family, dash, version = self.format.name.rpartition("-v")
        is_named = bool(family and dash) and self.format.name.isascii() and version.isdigit()
        assert is_named, f"{self.format.name!r} is not a name such as toy-v1"
        assert self.format.name.isprintable()
        assert self.format.media_type.count("/") == 1
        assert self.format.name not in self.format.upgrades, "a format is not older than itself"
        assert self.format.reads or self.format.writes, "it can neither be read nor written"

    def test_the_same_entries_give_the_same_bytes(self) -> None:
        if self.format.writes is not None:
            for entries in (self.conversation(), odd_conversation(), []):
                assert self.format.writes(entries) == self.format.writes([*entries])

    def test_what_is_written_says_nothing_of_this_process(self) -> None:
        """The bytes depend only on the entries: they contain no object address and no folder."""
        if self.format.writes is not None:
            data = self.format.writes([*self.conversation(), *odd_conversation()]) or b""
            assert not re.search(rb" at 0x[0-9a-f]{6,}", data)
            assert str(Path.cwd()).encode() not in data or Path.cwd() == Path("/")

    def test_whatever_a_message_holds_is_written_or_left(self) -> None:
        """A writer never fails: it writes as much as it can, or returns None."""
        for entry in odd_conversation():
            if self.format.writes is not None:
                data = self.format.writes([entry])
                if data is not None and self.format.reads is not None:
                    self.format.reads(data)

    def test_what_was_written_comes_back(self) -> None:
        """An exact format restores all entries; any other one is idempotent after a round trip."""
        if self.format.reads is None or self.format.writes is None:
            return
        once = self._read(self._write(self.conversation()))
        assert _encode_entries(self._read(self._write(once))) == _encode_entries(once)
        if self.format.is_exact:
            for entries in (self.conversation(), odd_conversation(), []):
                assert _encode_entries(self._read(self._write(entries))) == _encode_entries(entries)

    def test_bytes_that_were_read_say_something(self) -> None:
        if self.format.reads is not None:
            assert self._read(self.sample()), "a sample has messages"

    def test_joined_deltas_are_their_concatenation(self) -> None:
        joins = self.format.joins
        if joins is None:
            return
        assert joins([self.sample()]) == self.sample(), "one delta stays as it is"
        if self.format.reads is not None:
            both = self._read(joins([self.sample(), self.sample()]))
            assert _encode_entries(both) == _encode_entries(self._read(self.sample()) * 2)
        if self.format.writes is None:
            return
        entries = self.conversation()
        for index in range(len(entries) + 1):
            parts = [self._write(entries[:index]), self._write(entries[index:])]
            if self.format.reads is None:
                assert joins(parts) == self._write(entries)
            else:
                apart = [entry for part in parts for entry in self._read(part)]
                assert _encode_entries(self._read(joins(parts))) == _encode_entries(apart)

    def test_older_versions_are_mapped(self) -> None:
        samples = self.older_samples()
        assert set(samples) == set(self.format.upgrades), "give a sample of each older version"
        for name, upgrade in self.format.upgrades.items():
            mapped = upgrade(samples[name])
            assert upgrade(samples[name]) == mapped
            if self.format.reads is not None:
                assert self._read(mapped)

    def test_bytes_of_all_kinds_are_read_or_refused(self) -> None:
        """Truncated, damaged and hostile bytes give valid entries, or a FormatError of one line."""
        reads, joins = self.format.reads, self.format.joins
        for data in _iter_hostile(self.sample(), self.tries):
            if reads is not None:
                _encode_entries(_read_or_format_error(reads, data) or [])
            if joins is not None:
                _read_or_format_error(joins, [data, self.sample()])
        for name, sample in self.older_samples().items():
            for data in _iter_hostile(sample, self.tries):
                _read_or_format_error(self.format.upgrades[name], data)

    def _read(self, data: bytes) -> list[ConversationEntry]:
        assert self.format.reads is not None
        return self.format.reads(data)

    def _write(self, entries: Sequence[ConversationEntry]) -> bytes:
        assert self.format.writes is not None, "a format that is not written needs a sample"
        data = self.format.writes(entries)
        assert data is not None, "it must be able to write its own conversation"
        return data


def _encode_entries(entries: Sequence[ConversationEntry]) -> list[bytes]:
    """Return the bytes that a delta stores of entries. They tell `0`, `0.0` and `false` apart."""
    bodies = []
    for source_entry in entries:
        entry, objects = encode_entry(
            source_entry.message, time=source_entry.time, source=source_entry.source
        )
        bodies += [canonical.to_canonical_bytes(entry), *objects.values()]
    return bodies


Given = TypeVar("Given")
Found = TypeVar("Found")


def _read_or_format_error(reader: Callable[[Given], Found], argument: Given) -> Found | None:
    try:
        return reader(argument)
    except FormatError as error:
        text = str(error)
        if text.strip() and "\n" not in text:
            return None
        raise AssertionError(f"a FormatError is one line that says why: {text!r}") from error


def _iter_hostile(sample: bytes, tries: int) -> Iterator[bytes]:
    """Yield malformed inputs, the same at each run."""
    yield from (b"", b"\0", b"\xff" * 9, b"null", b"[]", b"{}", b"\x80", b"\xf6", b"\xef\xbb\xbf")
    yield from (b"[" * 200_000, b'{"a":' * 200_000, b"\x81" * 200_000, b"\xa1\x61a" * 200_000)
    yield from (b"9" * 10_000, b'"\\ud800"', b"\x9a\xff\xff\xff\xff", b"\x9b" + b"\x7f" * 8)
    yield sample + sample
    yield sample + b"\0"
    source = random.Random(_SEED)  # noqa: S311 - the same each time, on purpose
    for _ in range(tries if sample else 0):
        index = source.randrange(len(sample))
        yield sample[:index]
        yield (
            sample[:index] + bytes([sample[index] ^ 1 << source.randrange(8)]) + sample[index + 1 :]
        )
        yield sample[:index] + source.randbytes(source.randrange(1, 9)) + sample[index + 1 :]
