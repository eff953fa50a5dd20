"""Sessions of Pi, Copilot CLI and Gemini CLI that grow are read from a read point.

Lines that refer to entries before it, which the state does not have, need a whole reading.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from harken.formats.runtimes.base import StepReader
from harken.formats.runtimes.copilot_cli.reader import iter_steps as iter_copilot_steps
from harken.formats.runtimes.gemini_cli.reader import iter_steps as iter_gemini_steps
from harken.formats.runtimes.pi.reader import iter_steps as iter_pi_steps
from harken.formats.runtimes.read_point import EarlierStepChanged
from harken.formats.runtimes.step_state import MAX_RECENT_NODES
from tests.unit.formats.grown_reading_kit import Reading, check_growth, outcome, read
from tests.unit.formats.native_kit import encode_lines

Record = dict[str, Any]
MANY = 3 * MAX_RECENT_NODES


def pi_records(count: int) -> list[Record]:
    """Return a header and rounds of a question and an answer."""
    records: list[Record] = [{"type": "session", "version": 3, "id": "pi-1", "cwd": "/w"}]
    for number in range(count):
        role = "assistant" if number % 2 else "user"
        message = {"role": role, "content": [{"type": "text", "text": f"text {number}"}]}
        records.append(pi_entry(f"e{number}", f"e{number - 1}" if number else None, message))
    return records


def pi_entry(id_: str, parent: str | None, message: Record) -> Record:
    return {"type": "message", "id": id_, "parentId": parent, "message": message}


def gemini_records(count: int) -> list[Record]:
    """Return a header and rounds of a question and an answer with a call and its result."""
    records: list[Record] = [{"sessionId": "0199-a", "projectHash": "f" * 64}]
    return records + [gemini_message(number) for number in range(count)]


def gemini_message(number: int, text: str = "text") -> Record:
    message: Record = {"id": f"m{number}", "type": "user", "content": f"{text} {number}"}
    if number % 2:
        call = {"id": f"c{number}", "name": "look", "args": {}, "result": f"out {number}"}
        message |= {"type": "gemini", "toolCalls": [call]}
    return message


def gemini_result(number: int, output: str) -> Record:
    """Return a message with the result of an earlier call."""
    response = {"id": f"c{number}", "response": {"output": output}}
    return {"id": "x", "type": "user", "content": [{"functionResponse": response}]}


def copilot_records(count: int) -> list[Record]:
    """Return rounds of a question and an answer."""
    records: list[Record] = [{"type": "session.start", "data": {"sessionId": "0199-a"}}]
    for number in range(count):
        name = "assistant.message" if number % 2 else "user.message"
        records.append({"type": name, "data": {"content": f"text {number}"}, "id": f"e{number}"})
    return records


RUNTIMES: dict[str, tuple[Callable[[int], list[Record]], StepReader]] = {
    "pi": (pi_records, iter_pi_steps),
    "copilot": (copilot_records, iter_copilot_steps),
    "gemini": (gemini_records, iter_gemini_steps),
}


def continue_reading(reader: StepReader, before: list[Record], *new: Record) -> Reading:
    """Read records, then new ones from the read point. Compare with a whole reading."""
    first = read(reader, encode_lines(*before))
    assert first.report.point is not None
    data = encode_lines(*before, *new)
    grown, whole = read(reader, data, first), read(reader, data)
    assert grown.steps == whole.steps
    assert outcome(grown.report) == outcome(whole.report)
    return grown


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_only_the_last_steps_of_a_grown_session_are_read(runtime: str) -> None:
    write, reader = RUNTIMES[runtime]
    records = write(MANY + 6)
    ends = [len(encode_lines(*records[:count])) for count in range(MANY, MANY + 7)]
    data = encode_lines(*records)
    assert check_growth(reader, data, ends) == len(ends) - 1
    point = read(reader, data).report.point
    assert point is not None
    assert len(data) - point.start <= len(encode_lines(*records[-4:]))


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_read_point_names_the_ends_of_the_conversations(runtime: str) -> None:
    write, reader = RUNTIMES[runtime]
    first = read(reader, encode_lines(*write(20)))
    assert first.report.point is not None
    last_step = str(len(first.complete_steps))
    assert first.report.point.totals.tips == {"": last_step}
    assert last_step in first.report.point.step_ids


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_state_of_a_long_session_is_bounded(runtime: str) -> None:
    write, reader = RUNTIMES[runtime]
    sizes = []
    for count in (MANY, 4 * MANY):
        point = read(reader, encode_lines(*write(count))).report.point
        assert point is not None
        # Gemini CLI: 5 bytes for each earlier id.
        sizes.append(len(point.state) - (10 * count if runtime == "gemini" else 0))
    assert sizes[1] < 1.3 * max(sizes[0], 1000)


USER: Record = {"role": "user", "content": "again"}


@pytest.mark.parametrize(
    "new",
    [
        pi_entry("x", f"e{MANY - 9}", USER),
        pi_entry("x", f"e{MANY - 7}", USER) | {"type": "label"},
        {"type": "compaction", "id": "x", "parentId": f"e{MANY - 1}", "summary": "S"},
    ],
)
def test_branch_of_pi_may_begin_at_the_end_of_an_earlier_step(new: Record) -> None:
    continue_reading(iter_pi_steps, pi_records(MANY), new, pi_entry("y", "x", USER))


@pytest.mark.parametrize(
    "new",
    [
        pi_entry("x", f"e{MANY - 10}", USER),
        pi_entry("x", "e3", USER),
        pi_entry("x", "unknown", USER),
        {
            "type": "compaction",
            "id": "x",
            "parentId": f"e{MANY - 1}",
            "summary": "S",
            "firstKeptEntryId": f"e{MANY - 9}",
        },
    ],
    ids=["middle of a step", "older entry", "unknown entry", "kept entry"],
)
def test_pi_session_is_read_whole_if_an_earlier_entry_is_needed(new: Record) -> None:
    with pytest.raises(EarlierStepChanged):
        continue_reading(iter_pi_steps, pi_records(MANY), new)


def test_pi_entry_may_repeat_an_older_id() -> None:
    last = f"e{MANY - 1}"
    new = [pi_entry("e3", last, USER), pi_entry("x", "e3", USER), pi_entry("y", "e3", USER)]
    continue_reading(iter_pi_steps, pi_records(MANY), *new)


def test_compaction_of_pi_keeps_entries_after_the_read_point() -> None:
    last = f"e{MANY - 1}"
    compaction = {"type": "compaction", "id": "k", "parentId": "x", "firstKeptEntryId": "x"}
    new = [pi_entry("x", last, USER), compaction, pi_entry("y", "k", USER)]
    continue_reading(iter_pi_steps, pi_records(MANY), *new)


@pytest.mark.parametrize(
    "new",
    [
        gemini_message(3, "changed"),
        gemini_message(MANY - 8, "changed"),
        {"$rewindTo": f"m{MANY - 2 - MAX_RECENT_NODES}"},
        {"$rewindTo": "m3"},
        {"$rewindTo": "unknown"},
        {"$set": {"messages": [gemini_message(0)]}},
        gemini_result(3, "again"),
    ],
    ids=["older", "recent", "first known", "rewind", "unknown", "all messages", "result"],
)
def test_gemini_chat_is_read_whole_if_an_earlier_message_is_needed(new: Record) -> None:
    with pytest.raises(EarlierStepChanged):
        continue_reading(iter_gemini_steps, gemini_records(MANY), new)


@pytest.mark.parametrize(
    "new",
    [
        gemini_message(MANY - 1, "changed"),
        {"$rewindTo": f"m{MANY - 8}"},
        gemini_result(MANY - 9, "a"),
        gemini_result(MANY - 9, f"out {MANY - 9}"),
        gemini_message(MANY + 2) | {"toolCalls": gemini_message(MANY - 9)["toolCalls"]},
    ],
    ids=["last", "rewind", "other result", "same result", "same call"],
)
def test_line_of_gemini_may_refer_to_recent_messages(new: Record) -> None:
    later = [gemini_message(MANY), gemini_message(MANY + 1)]
    continue_reading(iter_gemini_steps, gemini_records(MANY), new, *later)


@pytest.mark.parametrize(
    "new",
    [
        {"$rewindTo": "m2"},
        {"$rewindTo": "unknown"},
        {"$set": {"messages": [gemini_message(number) for number in range(4)]}},
        {"$set": {"messages": [gemini_message(90), gemini_message(91)]}},
    ],
    ids=["rewind", "rewind of all", "shorter list", "compaction"],
)
def test_state_of_a_short_gemini_chat_has_all_messages(new: Record) -> None:
    later = [gemini_message(100), gemini_message(101)]
    continue_reading(iter_gemini_steps, gemini_records(20), new, *later)


def test_open_steps_of_copilot_agents_continue_after_the_read_point() -> None:
    def event(name: str, text: str, **members: Any) -> Record:
        return {"type": name, "data": {"content": text, **members}}

    before = [
        *copilot_records(40),
        event("user.message", "You are Ann.") | {"agentId": "ann"},
        event("user.message", "You are Bob.") | {"agentId": "bob"},
        event("assistant.message", "Main."),
        *copilot_records(8)[1:],
    ]
    grown = continue_reading(
        iter_copilot_steps,
        before,
        event("assistant.message", "I am Ann.") | {"agentId": "ann"},
        event("system.message", "Be.") | {"agentId": "bob"},
        event("user.message", "And?"),
    )
    texts = [
        [entry.message.content for entry in step.entries]
        for step in grown.steps.values()
        if step.agent == "ann"
    ]
    assert texts == [["You are Ann.", "I am Ann."]]


def test_completion_of_a_copilot_agent_ends_its_step() -> None:
    def event(name: str, **data: Any) -> Record:
        return {"type": name, "data": data, "agentId": "ann"}

    data = encode_lines(
        *copilot_records(2),
        event("user.message", content="You are Ann."),
        event("subagent.completed", toolCallId="c1"),
        event("user.message", content="And?"),
    )
    steps = [step for step in read(iter_copilot_steps, data).steps.values() if step.agent]
    assert [len(step.entries) for step in steps] == [1, 1]


def test_copilot_session_with_much_text_in_open_steps_has_no_read_point() -> None:
    texts = {"content": "long " * 50_000}
    agents = [
        {"type": "user.message", "data": texts, "agentId": f"agent {number}"} for number in range(4)
    ]
    lines = [json.dumps(record).encode() for record in (*copilot_records(2), *agents)]
    lines += [json.dumps(record).encode() for record in copilot_records(4)[1:]]
    point = read(iter_copilot_steps, b"\n".join(lines)).report.point
    assert point is None or len(point.state) < 1_000_000
