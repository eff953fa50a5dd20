"""Damaged files: valid lines are imported, the rest is reported, the bytes are stored.

Each line format is one row of a table; a document format is complete or refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harken.capture.files.importer import Importer
from harken.capture.files.report import ImportResult, Report
from harken.capture.files.sources import iter_files
from harken.context.commit_content import read_entries
from harken.context.materialize import select_commits
from harken.core.commits import ArtifactRef, CommitId
from harken.core.messages import text_of
from harken.index.catalogue import Catalogue
from harken.store.memory import MemoryStore
from tests.unit.capture.session_samples import STORIES, WORDS, lines

HOSTILE_NAME = "../../../etc/passwd\x00\n\x1b[31m\ud800/" + "x" * 900


@dataclass
class Case:
    """A damaged file and its expected import."""

    data: bytes
    texts: Sequence[str] = WORDS
    bad: int = 0
    parts: int = field(default=1)
    """How many conversations it falls into."""


def join_lines(lines_in: Sequence[bytes], end: bytes = b"\n") -> bytes:
    return b"".join(line + end for line in lines_in)


def with_line(format: str, *extra_lines: bytes) -> bytes:
    """Return the conversation with extra lines in the middle."""
    lines_in = lines(format)
    return join_lines([*lines_in[:4], *extra_lines, *lines_in[4:]])


def said_as(format: str, text: str, encoded: bytes | None = None) -> Case:
    """Return the conversation with another text, in the encoding of the line if it has one."""
    words = [*WORDS[:2], text if encoded is None else "<text>", *WORDS[3:]]
    data = join_lines(lines(format, words))
    if encoded is not None:
        data = data.replace(b"<text>", encoded)
    return Case(data, [*WORDS[:2], text, *WORDS[3:]])


def with_member(format: str, *members: str) -> bytes:
    """Return the conversation with raw members at the beginning of each line."""
    text = ",".join(members)
    return join_lines([b"{" + text.encode() + b"," + line[1:] for line in lines(format)])


def orphaned(format: str) -> Case:
    """Return the conversation without its third line: the next line has no parent."""
    lines_in = [line for line in lines(format) if WORDS[2].encode() not in line]
    return Case(join_lines(lines_in), [*WORDS[:2], *WORDS[3:]], parts=2)


DAMAGE: dict[str, Callable[[str], Case]] = {
    "nothing": lambda format: Case(join_lines(lines(format))),
    "a bad line": lambda format: Case(with_line(format, b'{"type": "us'), bad=1),
    "no objects": lambda format: Case(with_line(format, b"[1]", b"5", b'"x"', b"null"), bad=4),
    "NUL bytes": lambda format: Case(with_line(format, b"\0" * 4096), bad=1),
    "too deep": lambda format: Case(with_line(format, b'{"a":' * 9000 + b"1" + b"}" * 9000), bad=1),
    "UTF-16": lambda format: Case(with_line(format, '{"a": "é"}'.encode("utf-16"))),
    "a torn tail": lambda format: Case(join_lines(lines(format))[:-20], WORDS[:-1], bad=1),
    "no last newline": lambda format: Case(join_lines(lines(format))[:-1]),
    "blank lines": lambda format: Case(with_line(format, b"", b"   ", b"\t")),
    "CR LF": lambda format: Case(join_lines(lines(format), b"\r\n")),
    "Latin-1": lambda format: said_as(format, "caf\ufffd", b"caf\xe9"),
    "a line of 1 MB": lambda format: said_as(format, "tea " * 250_000),
    "a lone surrogate": lambda format: said_as(format, "a \ud800 b", b"a \\ud800 b"),
    "two halves": lambda format: said_as(format, "\U0001f600", b"\\ud83d\\ude00"),
    "large integers": lambda format: Case(with_member(format, f'"n":{2**70}', f'"m":-{10**400}')),
    "no numbers": lambda format: Case(with_member(format, '"n":NaN', '"m":1e999', '"o":-Infinity')),
    "duplicate keys": lambda format: Case(with_member(format, '"x":1', '"x":{"y":2}', '"type":7')),
    "hostile names": lambda format: Case(join_lines(lines(format, session=HOSTILE_NAME))),
    "an orphan parent": orphaned,
}
TREES = ("claude-code-v1", "pi-v3")
"""Formats whose lines name their parents."""
CASES = [
    (format, damage)
    for format in STORIES
    for damage in DAMAGE
    if DAMAGE[damage] is not orphaned or format in TREES
]


def imported(folder: Path, store: MemoryStore, catalogue: Catalogue) -> dict[str, ImportResult]:
    results = Importer(store, catalogue).run(list(iter_files(folder)))
    return {Path(result.report.source).name: result for result in results}


def conversations(report: Report, store: MemoryStore) -> list[list[str]]:
    """Return the texts of the commits of each tip."""
    return [
        [
            text_of(entry.message.content)
            for entry in read_entries(store, select_commits(store, CommitId(tip.ctx)))
        ]
        for tip in report.tips
    ]


@pytest.mark.parametrize(("format", "damage"), CASES)
def test_every_valid_line_is_imported_and_the_rest_reported(
    format: str, damage: str, tmp_path: Path
) -> None:
    case = DAMAGE[damage](format)
    folder, store = tmp_path / "files", MemoryStore()
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(case.data)
    report = imported(folder, store, Catalogue(None))["a.jsonl"].report
    assert (report.format, report.bad_lines) == (format, case.bad), report
    assert report.lines == case.data.count(b"\n") + (not case.data.endswith(b"\n"))
    assert all(0 < bad.line <= report.lines and bad.reason for bad in report.bad)
    assert store.raw(ArtifactRef(report.raw or "")) == case.data
    texts_by_tip = conversations(report, store)
    assert len(texts_by_tip) == case.parts
    assert sorted(text for tip_texts in texts_by_tip for text in tip_texts) == sorted(case.texts)
    if case.parts == 1:
        assert texts_by_tip == [[*case.texts]]
    assert [path.name for path in tmp_path.rglob("*")] == ["files", "a.jsonl"]


@pytest.mark.parametrize("format", STORIES)
def test_invalid_line_is_reported_with_line_number_and_offset(format: str, tmp_path: Path) -> None:
    before, *after = lines(format)
    (tmp_path / "a.jsonl").write_bytes(join_lines([before, b"{torn", *after]))
    report = imported(tmp_path, MemoryStore(), Catalogue(None))["a.jsonl"].report
    (bad,) = report.bad
    assert (bad.line, bad.byte) == (2, len(before) + 1)


@pytest.mark.parametrize("format", STORIES)
def test_file_growing_during_the_read_is_read_to_its_size_at_open(
    format: str, tmp_path: Path
) -> None:
    """The file is listed, then read with a partial last line, then completed."""
    data, path = join_lines(lines(format)), tmp_path / "a.jsonl"
    store, catalogue = MemoryStore(), Catalogue(None)
    cut_at = data.index(WORDS[2].encode())
    path.write_bytes(data[: cut_at - 200])
    files = list(iter_files(tmp_path))
    path.write_bytes(data[:cut_at])
    (first,) = Importer(store, catalogue).run(files)
    assert (first.report.bad_lines, conversations(first.report, store)) == (1, [[*WORDS[:2]]])
    path.write_bytes(data)
    os.utime(path, ns=(files[0].mtime_ns, files[0].mtime_ns))
    second = imported(tmp_path, store, catalogue)["a.jsonl"]
    assert (second.report.bad_lines, conversations(second.report, store)) == (0, [[*WORDS]])
    assert imported(tmp_path, store, catalogue)["a.jsonl"].is_unchanged


@pytest.mark.parametrize(
    "damage",
    [lambda data: data[:-9], lambda data: data.replace(b":", b"", 1), lambda _: b"\0" * 99],
)
def test_damaged_document_is_stored_as_bytes_and_reported(
    damage: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    head, *messages = STORIES["gemini-cli-v1"](WORDS, "5e55")
    data = damage(json.dumps({**head, "messages": messages}, indent=1).encode())
    (tmp_path / "a.json").write_bytes(data)
    store = MemoryStore()
    report = imported(tmp_path, store, Catalogue(None))["a.json"].report
    assert (report.format, report.tips) == (None, ())
    assert report.reason
    if report.raw is not None:
        assert store.raw(ArtifactRef(report.raw)) == data


def test_document_with_invalid_utf8_is_read(tmp_path: Path) -> None:
    head, *messages = STORIES["gemini-cli-v1"](["Tea?", "<text>"], "5e55")
    data = json.dumps({**head, "messages": messages}, indent=1).encode()
    (tmp_path / "a.json").write_bytes(data.replace(b"<text>", b"caf\xe9"))
    store = MemoryStore()
    report = imported(tmp_path, store, Catalogue(None))["a.json"].report
    assert conversations(report, store) == [["Tea?", "caf\ufffd"]]
