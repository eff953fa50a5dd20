"""The work of recording a call does not grow with the conversation.

Counted are the instructions of the interpreter, so that the result is the same on every machine.
Scans of bytes and comparisons of lists in C, which take microseconds, are not counted.
"""

from __future__ import annotations

import json
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any
from weakref import ReferenceType, ref

import pytest

from harken.core.clock import format_rfc3339
from harken.formats.shared_list import SharedList
from harken.formats.wire.registry import WIRE_PROTOCOLS
from harken.recording.exchange import CapturedRequest, CapturedResponse, ClientHints
from harken.recording.recorder import Recorder
from harken.recording.session_pool import RecorderOptions
from harken.recording.writer.item import Item, WireItemCache
from harken.store.sqlite.store import SqliteStore

START_US = 1_800_000_000_000_000
LENGTHS = (50, 100, 200, 400)
MEASURED = 8
"""The number of calls that are counted at each length; the median counts."""


def question(number: int) -> dict[str, Any]:
    return {"role": "user", "content": f"Question {number}"}


def answer(number: int) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "text", "text": f"Answer {number}"}]}


def make_call(
    number: int, *, is_marked: bool = False, session: str = "s", is_reworded: bool = False
) -> tuple[CapturedRequest, CapturedResponse]:
    """Return a request with all messages so far, and its answer.

    is_reworded: the client returns the answers with other whitespace.
    """
    messages: list[dict[str, Any]] = []
    for index in range(number):
        messages += [question(index), answer(index)]
        if is_reworded:
            messages[-1]["content"][0]["text"] += " "
    messages.append(question(number))
    if is_marked:  # As Claude Code: at the last message, and at the one before it.
        for message in messages[-3::2]:
            block = {"type": "text", "text": message["content"]}
            message["content"] = [block | {"cache_control": {"type": "ephemeral"}}]
    body = {"model": "m", "system": "Be brief.", "messages": messages, "max_tokens": 5}
    response = {"type": "message", "model": "m", "id": f"msg_{number}", "stop_reason": "end_turn"}
    response |= answer(number) | {"usage": {"input_tokens": 1, "output_tokens": 1}}
    time_us = START_US + number * 1_000_000
    return (
        CapturedRequest(
            id=f"call-{session}-{number}",
            protocol="anthropic-messages",
            path="/v1/messages",
            body=json.dumps(body).encode(),
            time=format_rfc3339(time_us),
            hints=ClientHints(client="test", session=session),
        ),
        CapturedResponse(
            id=f"call-{session}-{number}",
            time=format_rfc3339(time_us + 500_000),
            status=200,
            content_type="application/json",
            body=json.dumps(response).encode(),
        ),
    )


def record_call(recorder: Recorder, request: CapturedRequest, response: CapturedResponse) -> None:
    recorder.begin(request)
    recorder.end(response)
    assert recorder.failure is None


def count_instructions(recorder: Recorder, number: int, *, is_marked: bool) -> tuple[int, int]:
    """Record a call. Return the instructions of its beginning and of its end."""
    request, response = make_call(number, is_marked=is_marked)
    counts: list[int] = []

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        del arg
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        counts[-1] += event == "opcode"
        return trace

    before = sys.gettrace()
    for work in (partial(recorder.begin, request), partial(recorder.end, response)):
        counts.append(0)
        sys.settrace(trace)
        try:
            work()
        finally:
            sys.settrace(before)
        assert recorder.failure is None
    return counts[0], counts[1]


@pytest.mark.parametrize("is_marked", [False, True])
def test_call_costs_the_same_at_any_length(tmp_path: Path, *, is_marked: bool) -> None:
    begins: list[int] = []
    ends: list[int] = []
    with (
        closing(SqliteStore(tmp_path / "store.db")) as store,
        Recorder(tmp_path, store, options=RecorderOptions(durability="none")) as recorder,
    ):
        for number in range(max(LENGTHS) + 1):
            if number + MEASURED < next(n for n in LENGTHS if n >= number):
                record_call(recorder, *make_call(number, is_marked=is_marked))
                continue
            begin, end = count_instructions(recorder, number, is_marked=is_marked)
            begins.append(begin)
            ends.append(end)
    groups = range(0, MEASURED * len(LENGTHS), MEASURED)
    for counts in (begins, ends):
        medians = [sorted(counts[start : start + MEASURED])[MEASURED // 2] for start in groups]
        assert max(medians) <= 1.2 * min(medians), medians


def test_changed_item_of_a_session_costs_another_session_nothing(tmp_path: Path) -> None:
    counts: list[int] = []
    for others in (0, 3):
        options = RecorderOptions(durability="none")
        with Recorder(tmp_path / str(others), options=options) as recorder:
            for number in range(MEASURED, 100):
                record_call(recorder, *make_call(number))
            for number in range(others):
                record_call(recorder, *make_call(number, session="t", is_reworded=True))
            counts.append(count_instructions(recorder, 100, is_marked=False)[0])
    assert counts[1] <= 1.1 * counts[0]


def test_items_of_cached_requests_are_limited_in_bytes() -> None:
    protocol = WIRE_PROTOCOLS["anthropic-messages"]
    cache = WireItemCache(max_bytes=1_000)
    references: list[ReferenceType[SharedList[Item]]] = []
    for number in range(20):
        pieces = [protocol.piece({"role": "user", "content": f"{number} {n}"}) for n in range(3)]
        references.append(ref(cache.find_items(protocol, pieces, 300)))
    assert [reference() is not None for reference in references] == 17 * [False] + 3 * [True]
    too_large = ref(cache.find_items(protocol, pieces, 2_000))
    assert too_large() is None
