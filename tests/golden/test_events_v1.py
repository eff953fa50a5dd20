"""Literal bytes of `events-v1`. A change is a new format. They stand in docs/formats/events-v1.md."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harken.core.messages import FunctionCall, Message, ToolCall
from harken.errors import FormatError
from harken.formats.base import ConversationEntry
from harken.formats.events_v1 import FORMAT, decode_events, encode_events, join_event_arrays

DOCUMENT = Path(__file__).parents[2] / "docs" / "formats" / "events-v1.md"
HI = "81a364747970656670726f6d70746974696d657374616d7074323032362d30312d33315431323a30303a30305a6670726f6d7074a267636f6e74656e7462486966736f757263656475736572"
LOOK = "83a3647479706568726573706f6e736568726573706f6e7365a167636f6e74656e746749206c6f6f6b2e666861726b656e6c7b226576656e7473223a327da2647479706569746f6f6c5f63616c6c69746f6f6c5f63616c6ca4626964626331646e616d65646c6f6f6b65696e707574a162617464646f6f726b7365727665725f746f6f6cf4a364747970656b746f6f6c5f726573756c746b746f6f6c5f726573756c74a367636f6e74656e74674e6f626f64792e6b746f6f6c5f7573655f69646263316869735f6572726f72f4666861726b656e78327b226f6363757272656e6365223a7b226e616d65223a226c6f6f6b222c22746f6f6c5f63616c6c5f6964223a226331227d7d"
ENTRIES = [
    ConversationEntry(Message("user", "Hi"), "2026-01-31T12:00:00Z"),
    ConversationEntry(
        Message("assistant", "I look.", [ToolCall("c1", FunctionCall("look", '{"at":"door"}'))])
    ),
    ConversationEntry(Message("tool", "Nobody.", tool_call_id="c1", name="look")),
]


@pytest.mark.req("S2-52")
def test_a_conversation_has_these_bytes() -> None:
    assert FORMAT.writes
    assert FORMAT.reads
    assert (FORMAT.writes(ENTRIES[:1]) or b"").hex() == HI
    assert (FORMAT.writes(ENTRIES[1:]) or b"").hex() == LOOK
    assert FORMAT.reads(join_event_arrays(map(bytes.fromhex, [HI, LOOK]))) == ENTRIES
    assert FORMAT.writes([]) == b"\x80"


@pytest.mark.req("S2-52")
def test_foreign_arrays_are_joined_event_by_event() -> None:
    foreign = bytes.fromhex("9801a264747970656874656c65706f7274636e6577f6")  # a long head, a null
    assert join_event_arrays([foreign, bytes.fromhex(HI), b"\x80", foreign]) == (
        b"\x83" + foreign[2:] + bytes.fromhex(HI)[1:] + foreign[2:]
    )
    assert join_event_arrays([]) == b"\x80"
    many = join_event_arrays([bytes.fromhex(HI)] * 300)
    assert many[:3] == b"\x99\x01\x2c"
    assert encode_events(decode_events(many)) == many


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("", "begin as an array"),
        ("a0", "begin as an array"),
        ("9f01ff", "begin as an array"),
        ("98", "begin as an array"),
        ("9b7fffffffffffffff", "event 0 of"),
        ("8101", "a map"),
        ("81f7", "a map"),
        ("81a0a0", "bytes follow"),
        (HI[:-2], "event 0 of 1"),
        ("81c1a0", "tag 1"),
        ("81a16474797065c24101", "tag 2"),
        ("81d81ca0", "tag 28"),
        ("81a2647479706500647479706500", "uplicate"),
        ("81bfff", "indefinite"),
        ("81a1647479706561ff", "utf-8"),
        ("81" * 200, "depth"),
        ("81a164747970654100", "JSON"),
        ("81a16161fb7ff8000000000000", "JSON"),
        ("81a10102", "JSON"),
    ],
)
def test_invalid_event_array_is_refused(data: str, why: str) -> None:
    with pytest.raises(FormatError, match=why):
        decode_events(bytes.fromhex(data))


def test_the_document_has_these_bytes_and_says_how_they_are_read() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert HI in text
    assert LOOK in text
    [script] = [part.split("```")[0] for part in text.split("```python\n")[1:]]
    ran = subprocess.run(
        [sys.executable, "-c", script], input=HI, capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() in text
