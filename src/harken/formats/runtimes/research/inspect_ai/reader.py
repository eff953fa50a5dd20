"""Logs of Inspect AI: `.json` documents of version 2, and `.eval` archives.

Each sample of each epoch is a session. An archive is read sample by sample.

Source: docs/formats/inspect-ai.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from harken.core import canonical
from harken.errors import FormatError
from harken.formats.json_records import Record, get_object, get_objects, get_text
from harken.formats.runtimes.base import ImportStep, ReadReport, RuntimeFormat, SessionFile
from harken.formats.runtimes.json_lines import read_document
from harken.formats.runtimes.read_point import BadLine
from harken.formats.runtimes.research.documents import add_unique
from harken.formats.runtimes.research.inspect_ai.archive import (
    MAGIC,
    Archive,
    MemberUnreadable,
    open_archive,
)
from harken.formats.runtimes.research.inspect_ai.sample import SampleReader
from harken.formats.runtimes.steps import StepNumbers

NAME = "inspect-ai-v2"
_BEGINNING_PATTERN = re.compile(rb'\s*\{\s*"version"\s*:\s*\d+\s*,')
_FIRST_MEMBERS = (b"header.json", b"_journal/start.json", b"start.json", b"samples/")
_MEMBER_NAME_OFFSET = 30
_UNSAFE_PATTERN = re.compile(r"[^\w.-]+")
_MAX_ID_CHARS = 60


def is_session_file(path: str, beginning: bytes) -> bool:
    """Whether a file is a log, in either form."""
    if beginning.startswith(MAGIC):
        first = beginning[_MEMBER_NAME_OFFSET : _MEMBER_NAME_OFFSET + 40]
        return path.endswith(".eval") and first.startswith(_FIRST_MEMBERS)
    is_like = b'"eval"' in beginning and b'"task"' in beginning and b'"run_id"' in beginning
    return bool(_BEGINNING_PATTERN.match(beginning)) and is_like


def iter_steps(source: SessionFile, reading: ReadReport) -> Iterator[ImportStep]:
    """Yield the steps of all samples. Raises FormatError."""
    if next(iter(source.chunks()), b"").startswith(MAGIC):
        with open_archive(source, NAME) as archive:
            yield from _read_archive(archive, reading)
        return
    document = read_document(source, reading, NAME)
    reading.lines = 0
    samples = get_objects(document, "samples")
    if not samples:
        raise FormatError(NAME, "it has no samples")
    log = _LogReader(reading, get_object(document, "eval"))
    for sample in samples:
        yield from log.read_sample(sample)


class _LogReader(msgspec.Struct):
    """Reads the samples of a log."""

    reading: ReadReport
    spec: Record
    """The member `eval`."""
    numbers: StepNumbers = msgspec.field(default_factory=StepNumbers)
    _ids: set[str] = msgspec.field(default_factory=set)

    def __post_init__(self) -> None:
        """Describe the file."""
        packages = get_object(self.spec, "packages")
        self.reading.version = get_text(packages, "inspect_ai")
        self.reading.session_id = get_text(self.spec, "eval_id") or get_text(self.spec, "run_id")
        self.reading.title = get_text(self.spec, "task")

    def read_sample(self, sample: Record) -> Iterator[ImportStep]:
        """Yield the steps of a sample."""
        report = ReadReport(session_id=self._name_session(sample))
        self.reading.sessions.append(report)
        yield from SampleReader(sample, report, self.reading, self.numbers).steps()

    def _name_session(self, sample: Record) -> str:
        """Return the sample's own id of its run, or one of the log, the sample and the epoch."""
        parts = [self.reading.session_id, str(sample.get("id")), str(sample.get("epoch"))]
        name = get_text(sample, "uuid") or "-".join(parts)
        name = _UNSAFE_PATTERN.sub("_", name)[:_MAX_ID_CHARS]
        return add_unique(name, self._ids)


def _read_archive(archive: Archive, reading: ReadReport) -> Iterator[ImportStep]:
    members = {member.filename: member for member in archive.members}
    header: Record = {}
    for name in ("header.json", "_journal/start.json", "start.json"):
        if name in members and not header:
            header = _read_object(archive, name, reading) or {}
            if header:
                reading.lines += 1
                reading.used_lines += 1
    log, chunked = _LogReader(reading, get_object(header, "eval")), 0
    if not header:
        reading.notes.append("it has no header: the task and its versions are unknown")
    elif "header.json" not in members and "results.json" not in members:
        reading.notes.append("its evaluation was not completed")
    for name in members:
        directory, _, rest = name.partition("/")
        if directory != "samples":
            if name not in ("header.json", "_journal/start.json", "start.json"):
                reading.lines += 1
                reading.count_uninterpreted(f"member/{directory.removesuffix('.json')}")
        elif "/" in rest:
            reading.lines += 1
            chunked += rest.endswith("/sample.json")
            reading.count_uninterpreted("member/chunked sample")
        else:
            sample = _read_object(archive, name, reading)
            if sample is not None:
                yield from log.read_sample(sample)
    if chunked:
        reading.notes.append(f"{chunked} samples are stored in chunks, which are not read")
    if not reading.sessions:
        raise FormatError(NAME, "it has no samples that can be read")


def _read_object(archive: Archive, name: str, reading: ReadReport) -> Record | None:
    """Return the object in a member. Return None, after a report, if there is none."""
    member = archive.zip.getinfo(name)
    try:
        value: Any = canonical.from_json(archive.read_member(member))
        if not isinstance(value, dict):
            raise MemberUnreadable("it is not a JSON object")
        return value
    except (MemberUnreadable, ValueError) as error:
        reading.lines += 1
        reason = f"{name[:60]}: {error}"[:120]
        reading.bad.append(BadLine(reading.lines, member.header_offset, reason))
        return None


NATIVE = RuntimeFormat(
    name=NAME,
    runtime="inspect",
    is_session_file=is_session_file,
    steps=iter_steps,
    copies_histories=False,
)
