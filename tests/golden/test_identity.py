"""Bytes and hashes as they are and must stay.

A changed value here is a change of the format, with a version, a story in docs/formats/session-log.md
and a way to read what was written before. It is never "updating the test".
"""

from pathlib import Path
from typing import Any

import pytest

from harken.core import canonical
from harken.core.event_types.message_parser import parse_message
from harken.core.messages import (
    FunctionCall,
    Message,
    TextPart,
    ThinkingPart,
    ToolCall,
    extend_context_hash,
    message_hash,
    part_hash,
    split_occurrence,
)
from harken.llm.base import request_hash, tools_hash
from harken.session.log.checksum import seal
from harken.session.session import Session, SessionOptions

PARTS: list[tuple[dict[str, Any], bytes, str]] = [
    (
        {"type": "text", "text": "Hi"},
        b'{"text":"Hi","type":"text"}',
        "710e98dd876caff165e2c1538b6e2fdbaba23149697a11eb5d646ca309d8ecfe",
    ),
    (
        {"type": "thinking", "text": "Hm."},
        b'{"text":"Hm.","type":"thinking"}',
        "6e73343d3aa8fd165e0e7996fb1d2f65c7c78e3de6ca6a37910f1f3613dc0688",
    ),
    (
        {"type": "image", "media_type": "image/png", "data": "iVBORw0KGgo=", "url": None},
        b'{"data":"iVBORw0KGgo=","media_type":"image/png","type":"image","url":null}',
        "4e9c1e3a734058ec316ba2b783451029cc07600a1e591eb1907c91cd67d8fba4",
    ),
    (
        {"type": "other", "kind": "audio", "data": '{"id": 1}'},
        rb'{"data":"{\"id\": 1}","kind":"audio","type":"other"}',
        "b15884c89c68353c930682a7b0b9f0f1d7f6d6db060a10420c01d8488855be01",
    ),
    (
        {"type": "tool_call", "kind": "function", "name": "look", "arguments": '{"at": "door"}'},
        rb'{"arguments":"{\"at\": \"door\"}","kind":"function","name":"look","type":"tool_call"}',
        "0218698158c9f3778ea14bd48b22cf670d8e1fa1e3be3d939f9d4e77e74230f7",
    ),
    (
        {"type": "tool_result", "content": [{"type": "text", "text": "a door"}], "is_error": False},
        b'{"content":[{"text":"a door","type":"text"}],"is_error":false,"type":"tool_result"}',
        "a8ad44785082067cb9ab322cbddff85e1bf75dbcb280a9ba16e765bfc7f695c6",
    ),
    (
        {"type": "text", "text": 'é\n\x1f"\u2028😀\ud83d'},
        '{"text":"é\\n\\u001f\\"\u2028😀\\ud83d","type":"text"}'.encode(),
        "b0897ccd72c9a5106eabe711ffedd4606e1865404fea4ec4b501dee7312f9dbd",
    ),
]

CALL = ToolCall("call_1", FunctionCall("look", '{"at": "door"}'))
MESSAGES: list[tuple[Message, str]] = [
    (
        Message("user", "Hi"),
        "c425f6bdc4458c9926666c202a662824ffe87d2a211fec01de7cfdb5ac8c8a19",
    ),
    (
        Message("user", [TextPart("Hi", {"id": "m1"})]),
        "c425f6bdc4458c9926666c202a662824ffe87d2a211fec01de7cfdb5ac8c8a19",
    ),
    (
        Message("system", "You are Jack."),
        "17886dedf790d5380a0091a719d50004f006996fa136a9160657b294788494ba",
    ),
    (
        Message(
            "assistant", [ThinkingPart("Hm.", {"signature": "c2ln"}), TextPart("I look.")], [CALL]
        ),
        "ccdc88781d85de70c2da9c65445bd7e4556c4a3bf2406ceb1d838a5758ce3da2",
    ),
    (
        Message("tool", "a door", tool_call_id="call_1", name="look"),
        "2da9059c80146364392edaef3e865e09dad1371e516215038c98a76c8f48b782",
    ),
    (
        Message("tool", "no door", tool_call_id="call_1", name="look", is_error=True),
        "4b2109b75dda4e9ead95aa838e56d9d5b806624a1a327edc049b91791864caed",
    ),
    (
        Message("assistant"),
        "32d137af0ccbfc6d3bf5827a7fa36bf78a869440997542d2c7eb8612146f14cb",
    ),
    (
        Message("user", "\ud83d"),
        "a83bfcc79d4cc6f9f180fb5f5cf0bfcabf1d7d7a0e25cfff7440bd71c13e2fd0",
    ),
]

LOOK = {
    "name": "look",
    "description": "Look at something.",
    "parameters": {
        "type": "object",
        "properties": {"at": {"type": "string"}},
        "required": ["at"],
    },
}
AFTER_ONE = "5db2eb06e64bfa66ba75b5168b420e52b0018dd1148a3b4ff038d46d217da2b8"
AFTER_TWO = "d1f58e7d90ddc2ccad8ee06aaca9a150fedb4c40db4ea53507a3273a25fef7a2"
TOOLS = "a60f1406a2c10ade0b841dc36c19ecc56498523355e0d428053b2677318d4c9f"

NOON_US = 1_769_860_800_000_000
LOG = b"""\
{"event_type":"session_started","message_id":"msg_000","time":"2026-01-31T12:00:00.000000Z","session_id":"cafe","schema_version":2,"sum":"fa5e80d20e68d750"}
{"event_type":"agent_created","message_id":"msg_001","time":"2026-01-31T12:00:00.000000Z","agent_id":"agent_001","language_model":"scripted:cafe.yaml","relation":"primary","sum":"93c8dfef816fb998"}
{"event_type":"transcript_entry","message_id":"msg_002","time":"2026-01-31T12:00:00.000000Z","agent_id":"agent_001","role":"user","content":"Hi","sum":"ec94e871b9ad8bde"}
"""


@pytest.mark.parametrize(("part", "data", "expected"), PARTS)
def test_a_part_has_these_bytes_and_this_hash(
    part: dict[str, Any], data: bytes, expected: str
) -> None:
    assert canonical.to_canonical_bytes(part) == data
    assert part_hash(part) == expected
    assert canonical.hash_bytes(b"harken.part.v1\n", data).hex() == expected


@pytest.mark.parametrize(("message", "expected"), MESSAGES)
def test_a_message_has_this_hash(message: Message, expected: str) -> None:
    assert message_hash(message) == expected


def test_a_message_is_its_role_and_the_hashes_of_its_parts() -> None:
    message, expected = MESSAGES[0]
    data = b'{"parts":["%s"],"role":"user"}' % PARTS[0][2].encode()
    assert canonical.hash_bytes(b"harken.message.v1\n", data).hex() == expected
    assert split_occurrence(message)[0].parts == [PARTS[0][0]]


def test_a_context_is_chained_from_the_hashes_of_its_messages() -> None:
    system, hi = MESSAGES[2], MESSAGES[0]
    first = extend_context_hash("", system[0])
    two = extend_context_hash(first, hi[0])
    assert (first, two) == (AFTER_ONE, AFTER_TWO)
    assert canonical.hash_bytes(b"harken.context.v1\n", bytes.fromhex(system[1])).hex() == first
    assert canonical.hash_bytes(b"harken.context.v1\n", bytes.fromhex(first + hi[1])).hex() == two


def test_a_list_of_tools_has_this_hash() -> None:
    assert tools_hash([LOOK]) == TOOLS
    data = canonical.to_canonical_bytes([LOOK])
    assert canonical.hash_bytes(b"harken.tools.v1\n", data).hex() == TOOLS


def test_a_request_has_this_hash() -> None:
    full = "f90e85045a8c2b73ce6e91f2abd356e6533c0d5b31a375e8543f52cd21944127"
    bare = "107279289afa4087d5f5ee61203227a22963da28c45b2f4f4aab273791dbd6f7"
    assert request_hash(AFTER_TWO, TOOLS, {"temperature": 0.5}) == full
    assert request_hash(AFTER_TWO, None, None) == request_hash(AFTER_TWO, None, {}) == bare
    data = b'{"context":"%s","parameters":{},"tools":null}' % AFTER_TWO.encode()
    assert canonical.hash_bytes(b"harken.request.v1\n", data).hex() == bare


def test_a_log_of_three_lines_has_these_bytes(tmp_path: Path) -> None:
    path = tmp_path / "cafe.jsonl"
    with Session(path, options=SessionOptions(clock=lambda: NOON_US)) as session:
        agent = session.allocate_agent_id()
        session.log_agent_created(agent, language_model="scripted:cafe.yaml")
        session.log_transcript_entry(agent, {"role": "user", "content": "Hi"})
    assert path.read_bytes() == LOG


def test_a_sum_covers_the_sum_before_and_the_line_up_to_its_own_digits() -> None:
    before = b""
    for line in LOG.splitlines(keepends=True):
        body = line.partition(b',"sum":')[0] + b"}"
        assert seal(before, body) == (line, line[-19:-3])
        before = line[-19:-3]


def test_messages_in_a_log_have_the_same_identity_as_messages_alone() -> None:
    for message, expected in MESSAGES:
        flat = canonical.from_json(canonical.to_json_line(message))
        assert message_hash(parse_message(flat)) == expected
