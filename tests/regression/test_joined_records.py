"""Transcripts with a byte order mark, or with several records on one line, are read.

What happened: a transcript that a Windows editor had saved was "no kind that anybody reads", and of
`{...}{...}` on one line, which two writers or a crash leave, every record was lost. Why: a line was
one JSON value or nothing. Now: a line that is not one value is split into its records and its
damage; the damage alone is reported, and the bytes come back as they were.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from harken.capture.files.importer import Importer
from harken.capture.files.report import Report
from harken.capture.files.sources import iter_files
from harken.context.materialize import materialize
from harken.core.commits import ArtifactRef, CommitId
from harken.core.messages import text_of
from harken.formats.runtimes.base import SourceLine
from harken.formats.runtimes.joined_records import split_records
from harken.index.catalogue import Catalogue
from harken.store.memory import MemoryStore
from tests.unit.formats.transcript_kit import Transcript, text_block

BOM = b"\xef\xbb\xbf"
SAID = ["Hello", "Hi.", "Tea?", "No."]


def claude() -> list[bytes]:
    made = Transcript()
    for question, answer in (SAID[:2], SAID[2:]):
        made.user(question)
        made.answer(text_block(answer))
    return made.data.splitlines()


def codex() -> list[bytes]:
    def item(at: int, role: str, words: str) -> dict[str, object]:
        kind = "output_text" if role == "assistant" else "input_text"
        content = [{"type": kind, "text": words}]
        payload = {"type": "message", "role": role, "content": content}
        return {
            "timestamp": f"2026-01-31T12:00:0{at}Z",
            "type": "response_item",
            "payload": payload,
        }

    head = {"id": "019f17a5-0000-7000-8000-000000000001", "cwd": "/w", "cli_version": "0.142.2"}
    records: list[dict[str, object]] = [
        {"timestamp": "2026-01-31T12:00:00Z", "type": "session_meta", "payload": head}
    ]
    for at, words in enumerate(SAID):
        records.append(item(at + 1, "assistant" if at % 2 else "user", words))
    return [json.dumps(record).encode() for record in records]


def joined_in_twos(lines: Sequence[bytes]) -> bytes:
    return b"".join(b"".join(lines[at : at + 2]) + b"\n" for at in range(0, len(lines), 2))


LAYOUTS: dict[str, tuple[Callable[[Sequence[bytes]], bytes], int]] = {
    "a byte order mark": (lambda lines: BOM + b"\n".join(lines) + b"\n", 0),
    "a mark on every line": (lambda lines: b"".join(BOM + one + b"\n" for one in lines), 0),
    "two on a line": (joined_in_twos, 0),
    "all on one line": (b"".join, 0),
    "a space between": (lambda lines: b" ".join(lines) + b"\n", 0),
    "CRLF and blank lines": (lambda lines: BOM + b"\r\n\r\n".join(lines) + b"\r\n\r\n", 0),
    "a torn one behind": (lambda lines: b"\n".join(lines) + lines[-1][:40], 1),
    "a torn one before": (
        lambda lines: b"\n".join(lines[:-1]) + b"\n" + lines[-1][:60] + lines[-1],
        1,
    ),
    "NUL bytes at the end": (lambda lines: b"\n".join(lines) + b"\n" + b"\0" * 4096, 1),
    "NUL bytes after a record": (lambda lines: b"\n".join(lines) + b"\0" * 4096, 1),
    "NUL bytes in the middle": (
        lambda lines: lines[0] + b"\n" + b"\0" * 99 + b"\n".join(lines[1:]) + b"\n",
        1,
    ),
}


def imported(path: Path) -> tuple[Report, MemoryStore]:
    store = MemoryStore()
    (done,) = Importer(store, Catalogue(None)).run(list(iter_files(path)))
    return done.report, store


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("records", [claude, codex])
def test_every_record_is_read_and_every_byte_comes_back(
    records: Callable[[], list[bytes]], layout: str, tmp_path: Path
) -> None:
    written, bad = LAYOUTS[layout]
    lines = records()
    path = tmp_path / "a.jsonl"
    path.write_bytes(written(lines))
    report, store = imported(path)
    said = materialize(store, CommitId(report.tips[0].ctx)).messages
    assert [text_of(one.content) for one in said] == SAID
    assert report.bad_lines == bad, report.bad
    assert report.lines == len(lines) + bad + report.kept.get("blank", 0) + report.kept.get(
        "empty", 0
    )
    assert store.raw(ArtifactRef(report.raw or "")) == path.read_bytes()


@pytest.mark.parametrize("records", [claude, codex])
def test_the_commits_are_those_of_the_file_with_a_line_for_each(
    records: Callable[[], list[bytes]], tmp_path: Path
) -> None:
    plain, joined = tmp_path / "plain.jsonl", tmp_path / "joined.jsonl"
    plain.write_bytes(b"\n".join(records()) + b"\n")
    joined.write_bytes(BOM + joined_in_twos(records()))
    assert imported(plain)[0].tips == imported(joined)[0].tips


def test_a_joined_file_that_is_too_large_to_hold_is_read_the_same(tmp_path: Path) -> None:
    made = Transcript()
    for at in range(90):
        made.user(f"{at} {'x' * 100_000}")
        made.answer(text_block(f"Answer {at}"))
    path = tmp_path / "a.jsonl"
    path.write_bytes(
        joined := b"".join(
            one if at % 3 else one + b"\n" for at, one in enumerate(made.data.splitlines())
        )
    )
    assert len(joined) > 8 * 1024 * 1024
    report, store = imported(path)
    said = [text_of(m.content) for m in materialize(store, CommitId(report.tips[0].ctx)).messages]
    assert [one for one in said if one.startswith("Answer")] == [f"Answer {n}" for n in range(90)]
    assert report.bad_lines == 0


def test_an_object_inside_a_torn_record_is_not_taken_for_a_record() -> None:
    torn = b'{"type":"user","message":{"type":"text","uuid":"x"},"time'
    (part,) = split_records(SourceLine(7, 100, torn), "torn")
    assert (part.reason, part.line.start) == ("torn", 100)
    parts = split_records(SourceLine(7, 100, torn + b'{"type":"user"}'), "torn")
    assert [(part.line.data, part.reason) for part in parts] == [
        (torn, "torn"),
        (b'{"type":"user"}', ""),
    ]


def test_a_line_of_nothing_but_open_brackets_is_damage_at_once() -> None:
    (part,) = split_records(SourceLine(1, 0, b'{"type":' * 200_000), "nested too deeply")
    assert part.reason == "nested too deeply"


def test_a_part_of_a_rollout_has_no_name_that_stands_for_the_session(tmp_path: Path) -> None:
    lines = codex()
    part = tmp_path / "019f17a5.jsonl"
    part.write_bytes(b"\n".join(lines[3:]) + b"\n" + lines[0] + b"\n" + lines[1] + b"\n")
    report, _ = imported(part)
    assert report.session.startswith("fragment-")
    part.write_bytes(lines[1][50:] + b"\n" + b"\n".join(lines[2:]) + b"\n")
    report, store = imported(part)
    assert (report.format, report.bad_lines) == ("codex-v1", 1)
    said = materialize(store, CommitId(report.tips[0].ctx)).messages
    assert [text_of(one.content) for one in said] == SAID[1:]
