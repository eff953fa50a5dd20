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
MORE += ["origin", "isMeta"]
QUEUED = st.fixed_dictionaries(
    {"type": st.just("queued_command")},
    optional=dict.fromkeys(("prompt", "commandMode", "origin", "isMeta"), JSON),
)
KINDS = ["user", "assistant", "system", "attachment", "progress", "summary", "api-request"]
BODIES = st.fixed_dictionaries({}, optional={"content": JSON, "id": JSON, "role": JSON})
RECORDS = st.fixed_dictionaries(
    {"type": st.sampled_from(KINDS) | JSON},
    optional={
        **{name: st.sampled_from(["a", "b", "c", "d"]) | JSON for name in [*NAMES[1:], *MORE]},
        "message": BODIES | JSON,
        "attachment": QUEUED | JSON,
        "origin": st.fixed_dictionaries({"kind": JSON}) | JSON,
        "subtype": st.sampled_from(["compact_boundary", "local_command"]) | JSON,
    },
)


def everything() -> Transcript:
    """A transcript with all that there is."""
    transcript = Transcript()
    transcript.user("Hello")
    transcript.answer(thinking_block("Hm."), id="m1")
    first = transcript.answer(tool_use_block("c1", "Task", prompt="You are Ann."), id="m1")
    second = transcript.answer(tool_use_block("c2"), id="m1")
    side: dict[str, Any] = {"isSidechain": True, "agentId": "ann"}
    transcript.user("You are Ann.", parent=None, **side)
    transcript.answer(text_block("I am."), **side)
    transcript.result("c1", "Ann", parent=first)
    transcript.add("progress", data={})
    transcript.user([tool_result_block("c2", "two"), text_block("and more")], parent=second)
    answer = transcript.answer(text_block("Done."))
    transcript.user("This way")
    transcript.answer(text_block("This."))
    transcript.user("That way", parent=answer)
    last = transcript.answer(text_block("That."))
    transcript.boundary(last, kept=[last])
    transcript.summary()
    transcript.user("Go on")
    return transcript


def list_texts(result: ReadTranscript) -> list[str]:
    """Return the ids of all records that are in steps, in some order."""
    uuids: list[str] = []
    for step in result.steps:
        for entry in step.entries:
            source = entry.source or {}
            uuids += source.get("uuids") or [source.get("uuid", "")]
    return sorted({*uuids})


def test_each_record_is_in_a_step_in_any_line_order() -> None:
    records = everything().records
    texts = list_texts(read_transcript(encode_lines(records)))
    for seed in range(200):
        mixed = records[:]
        random.Random(seed).shuffle(mixed)
        assert list_texts(read_transcript(encode_lines(mixed))) == texts


@pytest.mark.full
def test_truncated_transcript_is_read_up_to_the_cut() -> None:
    data = everything().data
    for end in range(1, len(data)):
        try:
            result = read_transcript(data[:end])
        except FormatError:
            continue
        assert len(result.reading.bad) <= 1


def test_growing_transcript_keeps_complete_steps() -> None:
    """All but the last step of each chain are the same when more is there."""
    records = everything().records
    before: dict[str, int] = {}
    for end in range(1, len(records) + 1):
        steps = read_transcript(encode_lines(records[:end])).steps
        sizes = {step.id: len(step.entries) for step in steps}
        assert before.keys() <= sizes.keys()
        before = sizes


@given(st.lists(RECORDS, max_size=12))
def test_arbitrary_records_are_read_without_errors(records: list[dict[str, Any]]) -> None:
    try:
        result = read_transcript(encode_lines(records))
    except FormatError:
        return
    for step in result.steps:
        build_resume_request(step.entries)
    build_resume_request(result.entries())


@given(st.binary(max_size=300))
def test_only_invalid_transcripts_are_refused(data: bytes) -> None:
    assert FORMAT.reads is not None
    with suppress(FormatError):
        FORMAT.reads(data)


@given(st.integers(0, 10**6), st.binary(min_size=1, max_size=5))
def test_overwritten_bytes_damage_no_other_line(offset: int, junk: bytes) -> None:
    data = everything().data
    offset %= len(data)
    result = read_transcript(data[:offset] + junk + data[offset + len(junk) :])
    assert len(result.reading.bad) <= 1 + junk.count(b"\n")
