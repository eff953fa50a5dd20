"""Transcripts of Claude Code, damaged and disordered in every way: nothing is lost, nothing breaks."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.errors import FormatError
from harken.formats.runtimes.claude_code.reader import FORMAT
from harken.formats.runtimes.claude_code.resume_request import build_resume_request
from tests.unit.formats.transcript_kit import (
    ReadTranscript,
    Transcript,
    encode_lines,
    read_transcript,
    text_block,
    thinking_block,
    tool_result_block,
    tool_use_block,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
NAMES = ["type", "subtype", "uuid", "parentUuid", "logicalParentUuid", "isSidechain", "agentId"]
MORE = ["message", "content", "compactMetadata", "attachment", "isCompactSummary", "toolUseResult"]
KINDS = ["user", "assistant", "system", "attachment", "progress", "summary", "api-request"]
BODIES = st.fixed_dictionaries({}, optional={"content": JSON, "id": JSON, "role": JSON})
RECORDS = st.fixed_dictionaries(
    {"type": st.sampled_from(KINDS) | JSON},
    optional={
        **{name: st.sampled_from(["a", "b", "c", "d"]) | JSON for name in [*NAMES[1:], *MORE]},
        "message": BODIES | JSON,
        "subtype": st.sampled_from(["compact_boundary", "local_command"]) | JSON,
    },
)


def everything() -> Transcript:
    """A transcript with all that there is."""
    made = Transcript()
    made.user("Hello")
    made.answer(thinking_block("Hm."), id="m1")
    first = made.answer(tool_use_block("c1", "Task", prompt="You are Ann."), id="m1")
    second = made.answer(tool_use_block("c2"), id="m1")
    side: dict[str, Any] = {"isSidechain": True, "agentId": "ann"}
    made.user("You are Ann.", parent=None, **side)
    made.answer(text_block("I am."), **side)
    made.result("c1", "Ann", parent=first)
    made.add("progress", data={})
    made.user([tool_result_block("c2", "two"), text_block("and more")], parent=second)
    at = made.answer(text_block("Done."))
    made.user("This way")
    made.answer(text_block("This."))
    made.user("That way", parent=at)
    last = made.answer(text_block("That."))
    made.boundary(last, kept=[last])
    made.summary()
    made.user("Go on")
    return made


def spoken(found: ReadTranscript) -> list[str]:
    """Return the ids of all records that are in steps, in some order."""
    uuids: list[str] = []
    for step in found.steps:
        for entry in step.entries:
            source = entry.source or {}
            uuids += source.get("uuids") or [source.get("uuid", "")]
    return sorted({*uuids})


def test_every_record_of_a_conversation_is_in_a_step_whatever_the_order_of_the_lines() -> None:
    records = everything().records
    whole = spoken(read_transcript(encode_lines(records)))
    for seed in range(200):
        mixed = records[:]
        random.Random(seed).shuffle(mixed)
        assert spoken(read_transcript(encode_lines(mixed))) == whole


@pytest.mark.full
def test_a_transcript_that_is_cut_anywhere_is_read_up_to_there() -> None:
    data = everything().data
    for end in range(1, len(data)):
        try:
            found = read_transcript(data[:end])
        except FormatError:
            continue
        assert len(found.reading.bad) <= 1


def test_a_transcript_that_grows_keeps_the_steps_that_are_whole() -> None:
    """All but the last step of each chain are the same when more is there."""
    records = everything().records
    before: dict[str, int] = {}
    for end in range(1, len(records) + 1):
        steps = read_transcript(encode_lines(records[:end])).steps
        sizes = {step.id: len(step.entries) for step in steps}
        assert before.keys() <= sizes.keys()
        before = sizes


@given(st.lists(RECORDS, max_size=12))
def test_no_records_whatever_break_anything(records: list[dict[str, Any]]) -> None:
    try:
        found = read_transcript(encode_lines(records))
    except FormatError:
        return
    for step in found.steps:
        build_resume_request(step.entries)
    build_resume_request(found.entries())


@given(st.binary(max_size=300))
def test_bytes_that_are_no_transcript_are_refused_and_nothing_else(data: bytes) -> None:
    assert FORMAT.reads is not None
    with suppress(FormatError):
        FORMAT.reads(data)


@given(st.integers(0, 10**6), st.binary(min_size=1, max_size=5))
def test_bytes_that_were_overwritten_damage_no_other_line(at: int, junk: bytes) -> None:
    data = everything().data
    at %= len(data)
    found = read_transcript(data[:at] + junk + data[at + len(junk) :])
    assert len(found.reading.bad) <= 1 + junk.count(b"\n")
