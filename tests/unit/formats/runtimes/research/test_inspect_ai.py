"""Inspect AI: each sample of a log is a session, with its scores, its calls and their usage."""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from pathlib import Path

import pytest
import zstandard

from harken.errors import FormatError
from harken.formats.runtimes.registry import detect_runtime_format
from harken.formats.runtimes.research.inspect_ai.reader import NATIVE
from tests.unit.formats.runtimes.research.reading_kit import MemoryHome, read, said
from tests.unit.formats.runtimes.research.samples import (
    encode,
    inspect_archive,
    inspect_log,
    inspect_sample,
    model_event,
)


def test_conversation_has_calls_results_and_thinking() -> None:
    steps, reading = read(NATIVE, inspect_log())
    assert said(steps) == [
        ("system", "You watch doors."),
        ("user", "Door 1?"),
        ("assistant", "I look."),
        ("tool", "Jill."),
        ("assistant", "Jill is there."),
    ]
    entries = [entry for step in steps if not step.agent for entry in step.entries]
    calls = entries[2].message.tool_calls
    assert calls is not None
    [call] = calls
    assert (call.id, call.function.name, call.function.arguments) == ("c1", "look", '{"at":"door"}')
    assert entries[3].message.tool_call_id == "c1"
    assert [entry.time and entry.time[17:19] for entry in entries] == [None, None, "01", "02", "03"]
    [session] = reading.sessions
    assert (session.session_id, session.title) == ("sample-run-1", "Door 1?")
    assert {step.session for step in steps} == {"sample-run-1"}


def test_a_scorer_that_asks_a_model_is_an_agent() -> None:
    steps, reading = read(NATIVE, inspect_log())
    assert said(steps, "grader") == [("user", "Is it right?"), ("assistant", "GRADE: C")]
    assert list(reading.sessions[0].tips) == ["", "grader"]


def test_usage_counts_once_with_disjoint_counts(tmp_path: Path) -> None:
    home = MemoryHome()
    home.add(tmp_path / "a.json", encode(inspect_log(inspect_sample(1), inspect_sample(2))))
    columns = "count(*), sum(input_tokens), sum(cache_read_tokens), sum(output_tokens)"
    assert home.query(f"SELECT model, {columns} FROM requests GROUP BY session_id") == [
        ("gpt-tea-1", 3, 10 + 10 + 7, 10, 5),
        ("gpt-tea-1", 3, 10 + 10 + 7, 10, 5),
    ]


def test_input_that_contains_cached_tokens_is_reduced() -> None:
    usage = {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}
    sample = inspect_sample(
        messages=[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}],
        events=[
            model_event(
                [],
                {"role": "assistant", "content": "Ho"},
                {**usage, "input_tokens_cache_read": 4},
                1,
            )
        ],
    )
    steps, _ = read(NATIVE, inspect_log(sample))
    source = steps[0].entries[1].source or {}
    assert source["usage"]["input_tokens"] == 6  # matched by content: the messages have no ids


def test_usage_of_a_log_without_events_is_that_of_the_last_answer() -> None:
    usage = {"openai/tea": {"input_tokens": 9, "output_tokens": 2, "total_tokens": 11}}
    steps, _ = read(NATIVE, inspect_log(inspect_sample(events=[], model_usage=usage)))
    sources = [entry.source or {} for step in steps for entry in step.entries]
    assert [source["usage"]["input_tokens"] for source in sources if "usage" in source] == [9]


def test_a_side_context_that_does_not_continue_is_replaced() -> None:
    def ask(*texts: str) -> dict[str, object]:
        given = [{"role": "user", "content": text} for text in texts]
        return model_event(given, {"role": "assistant", "content": "C"}, {}, 1)

    events = [ask("one"), ask("two", "three")]
    steps, reading = read(NATIVE, inspect_log(inspect_sample(events=events)))
    assert [(step.type, len(step.entries)) for step in steps if step.agent] == [
        ("snapshot", 2),
        ("snapshot", 2),
        ("delta", 1),
    ]
    assert list(reading.sessions[0].tips) == ["", "model"]


def test_input_in_a_pool_is_expanded() -> None:
    event = model_event([], {"role": "assistant", "content": "C"}, {}, 1)
    event |= {"input": [], "input_refs": [[0, 1], [2, 3]]}
    pool = [{"role": "user", "content": text} for text in "abc"]
    sample = inspect_sample(events=[event], events_data={"messages": pool, "calls": []})
    steps, _ = read(NATIVE, inspect_log(sample))
    assert said(steps, "model") == [("user", "a"), ("user", "c"), ("assistant", "C")]


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({}, "completed"),
        ({"limit": {"type": "token", "limit": 9}}, "limit_token"),
        ({"error": {"message": "Oh"}}, "error"),
    ],
)
def test_outcome_is_that_of_the_sample(changes: dict[str, object], outcome: str) -> None:
    _, reading = read(NATIVE, inspect_log(inspect_sample(**changes)))
    assert reading.sessions[0].outcome == outcome


def test_scores_are_kept_with_their_numbers(tmp_path: Path) -> None:
    scores = {
        "grade": {
            "value": "P",
            "answer": "A",
            "explanation": "Half.",
            "metadata": {"strict": True},
        },
        "count": {"value": 3},
        "parts": {"value": {"a": 1}},
        "word": {"value": "fine"},
        "no score": None,
    }
    home = MemoryHome()
    home.add(tmp_path / "a.json", encode(inspect_log(inspect_sample(scores=scores))))
    rows = home.query("SELECT scorer, value, number, sample, answer, explanation FROM scores")
    assert rows == [
        ("grade", '"P"', 0.5, "1", "A", "Half."),
        ("count", "3", 3.0, "1", "", ""),
        ("parts", '{"a": 1}', None, "1", "", ""),
        ("word", '"fine"', None, "1", "", ""),
    ]
    [(metadata,)] = home.query("SELECT metadata FROM scores WHERE scorer = 'grade'")
    assert json.loads(metadata) == {"epoch": 1, "target": "Jill", "strict": True}


def test_events_of_other_kinds_are_counted() -> None:
    _, reading = read(NATIVE, inspect_log())
    assert reading.uninterpreted == {"event/state": 1}
    assert reading.lines == 5 + 9
    assert reading.used_lines == 5 + 8


@pytest.mark.parametrize("has_header", [True, False])
def test_archive_is_read_sample_by_sample(tmp_path: Path, has_header: bool) -> None:
    samples = {f"{number}_epoch_1": inspect_sample(number) for number in (1, 2, 3)}
    data = inspect_archive(samples, has_header=has_header)
    steps, reading = read(NATIVE, data)
    assert [session.session_id for session in reading.sessions] == [
        "sample-run-1",
        "sample-run-2",
        "sample-run-3",
    ]
    from_document, _ = read(NATIVE, inspect_log(*samples.values()))
    assert steps == from_document
    assert reading.notes == ([] if has_header else ["its evaluation was not completed"])
    assert reading.uninterpreted["member/summaries"] == 1
    report = MemoryHome().add(tmp_path / "a.eval", data)
    assert [session.session for session in report.sessions] == [
        session.session_id for session in reading.sessions
    ]


def test_samples_with_equal_ids_have_different_names() -> None:
    sample = inspect_sample()
    del sample["uuid"]
    _, reading = read(NATIVE, inspect_log(sample, {**sample, "epoch": 2}, sample))
    names = [session.session_id for session in reading.sessions]
    assert names == ["e-1-1-1", "e-1-1-2", "e-1-1-1-2"]


def _zstandard_archive(
    name: str, content: bytes, *, size: int | None = None, crc: int | None = None
) -> bytes:
    """Return an archive with a member that is compressed with Zstandard."""
    packed = zstandard.compress(content)
    size = len(content) if size is None else size
    crc = zlib.crc32(content) if crc is None else crc
    header = (20, 0, 93, 0, 0, crc, len(packed), size, len(name), 0)
    local = struct.pack("<4s5H3I2H", b"PK\x03\x04", *header) + name.encode() + packed
    entry = struct.pack("<4s6H3I5H2I", b"PK\x01\x02", 20, *header, 0, 0, 0, 0, 0) + name.encode()
    end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 1, 1, len(entry), len(local), 0)
    return local + entry + end


def test_members_may_be_compressed_with_zstandard() -> None:
    data = _zstandard_archive("samples/1_epoch_1.json", encode(inspect_sample()))
    steps, reading = read(NATIVE, data)
    assert said(steps)[1] == ("user", "Door 1?")
    assert reading.notes == ["it has no header: the task and its versions are unknown"]
    assert detect_runtime_format("a.eval", data) is NATIVE


def test_a_damaged_sample_is_reported_and_the_others_are_read() -> None:
    samples = {f"{number}_epoch_1": inspect_sample(number) for number in (1, 2)}
    data = inspect_archive(samples, method=zipfile.ZIP_STORED)
    _, reading = read(NATIVE, data.replace(b"Door 1?", b"Door x?", 1))
    assert [session.title for session in reading.sessions] == ["Door 2?"]
    [bad] = reading.bad
    assert bad.reason.startswith("samples/1_epoch_1.json: it is damaged")


def test_chunked_samples_are_counted_and_told() -> None:
    samples = {"1_epoch_1": inspect_sample(), "2_epoch_1/sample": {"id": 2}}
    _, reading = read(NATIVE, inspect_archive(samples))
    assert reading.notes == ["1 samples are stored in chunks, which are not read"]
    assert reading.uninterpreted["member/chunked sample"] == 1


def test_an_archive_that_unpacks_to_too_much_is_refused() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(3):
            archive.writestr(f"samples/{number}.json", b"0" * (40 << 20))
    with pytest.raises(FormatError, match="it is not read"):
        read(NATIVE, out.getvalue())


def test_a_member_that_unpacks_to_more_than_it_claims_is_not_read() -> None:
    content = encode(inspect_sample())
    for data in (
        _zstandard_archive("samples/1.json", content, size=10),
        _zstandard_archive("samples/1.json", content, size=len(content) + 1),
    ):
        with pytest.raises(FormatError, match="no samples that can be read"):
            read(NATIVE, data)


@pytest.mark.parametrize("size", [0, 3, 40, 400, -30])
def test_an_incomplete_archive_is_refused(size: int) -> None:
    data = inspect_archive({"1_epoch_1": inspect_sample()})[:size]
    with pytest.raises(FormatError):
        read(NATIVE, data)


@pytest.mark.parametrize("change", [{"samples": []}, {"samples": None}, {"samples": 3}])
def test_a_log_without_samples_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(FormatError, match="no samples"):
        read(NATIVE, {**inspect_log(), **change})


@pytest.mark.parametrize("value", [None, 7, "x", [], {}, [[1]], [{}], {"a": None}])
@pytest.mark.parametrize(
    "member",
    [
        "messages",
        "events",
        "attachments",
        "scores",
        "events_data",
        "input",
        "error",
        "limit",
        "uuid",
    ],
)
def test_members_of_a_wrong_kind_are_survived(member: str, value: object) -> None:
    _, reading = read(NATIVE, inspect_log(inspect_sample(**{member: value})))
    kept = sum(reading.uninterpreted.values())
    assert reading.lines == reading.used_lines + kept + len(reading.bad)


def test_files_are_recognized_by_their_beginning() -> None:
    assert detect_runtime_format("a.json", encode(inspect_log())[:9000]) is NATIVE
    archive = inspect_archive({"1_epoch_1": inspect_sample()})
    assert detect_runtime_format("a.eval", archive) is NATIVE
    assert detect_runtime_format("a.zip", archive) is None


def test_each_member_is_counted_once_if_the_header_is_damaged() -> None:
    data = inspect_archive({"1_epoch_1": inspect_sample()}, method=zipfile.ZIP_STORED)
    _, reading = read(NATIVE, data.replace(b'"status": "success"', b'"status": "s?ccess"'))
    [bad] = reading.bad
    assert bad.reason.startswith("header.json: it is damaged")
    kept = sum(reading.uninterpreted.values())
    assert reading.lines == reading.used_lines + kept + len(reading.bad)
    assert reading.sessions


def test_a_kind_that_is_no_valid_text_is_counted() -> None:
    message = {"role": "\ud800", "content": "?"}
    _, reading = read(NATIVE, inspect_log(inspect_sample(messages=[message])))
    assert reading.uninterpreted["message/?"] == 1


def test_equal_answers_belong_to_different_calls() -> None:
    answer = {"role": "assistant", "content": "Ho"}
    events = [
        model_event([], answer, {"input_tokens": count, "output_tokens": 1}, count)
        for count in (1, 2)
    ]
    steps, _ = read(NATIVE, inspect_log(inspect_sample(messages=[answer, answer], events=events)))
    entries = [entry for step in steps for entry in step.entries]
    assert [(entry.source or {})["usage"]["input_tokens"] for entry in entries] == [1, 2]


def test_a_member_with_another_checksum_is_not_read() -> None:
    data = _zstandard_archive("samples/1.json", encode(inspect_sample()), crc=7)
    with pytest.raises(FormatError, match="no samples that can be read"):
        read(NATIVE, data)
