"""The ids of messages cover all content of a transcript.

Two session files that differ anywhere in their content have messages with different ids, also if
they differ in a member that no version of the runtime has. The members that stand outside are
listed. Each member comes back in a session that is written for the same runtime.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.core.messages import message_hash
from harken.formats.json_records import equal_json
from harken.formats.runtimes.base import NewSessionInfo, ReadReport, read_conversation
from tests.property.transcript_samples import SAMPLES, Record, Sample
from tests.unit.formats.native_kit import open_source

from .test_messages import JSON

Path = tuple[str | int, ...]
NEW = NewSessionInfo(
    id="5e551011-0000-4000-8000-000000000001", folder="/w", time="2026-01-31T12:00:00.000000Z"
)
EMPTY: tuple[Any, ...] = (None, [], {}, "")
each_sample = pytest.mark.parametrize("name", SAMPLES)


def encode(records: list[Record]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def read_ids(sample: Sample, data: bytes) -> list[str]:
    """Return the ids of all messages of a file, in all its steps."""
    steps = sample.native.steps(open_source(data), ReadReport())
    return [message_hash(entry.message) for step in steps for entry in step.entries]


def iter_nodes(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield all values inside a value, and itself."""
    yield path, value
    if isinstance(value, dict | list):
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from iter_nodes(inner, (*path, name))


def replace_at(value: Any, path: Path, new: Any) -> Any:
    if not path:
        return new
    value = copy.deepcopy(value)
    holder = value
    for name in path[:-1]:
        holder = holder[name]
    holder[path[-1]] = new
    return value


def changed(leaf: Any) -> Any:
    match leaf:
        case bool():
            return not leaf
        case int() | float():
            return leaf + 1
        case str():
            return leaf + "~"
        case None:
            return "~"
    return ["~"] if leaf == [] else {"~": 1}


def content_nodes(sample: Sample) -> Iterator[tuple[int, Path, str, Any]]:
    """Yield each value in the content of a sample: its record, its path, its name, itself."""
    for index, record in enumerate(sample.records):
        for start in sample.content(record):
            root: Any = record
            for name in start:
                root = root[name]
            for path, value in iter_nodes(root):
                dotted = ".".join("*" if isinstance(name, int) else name for name in path)
                yield index, (*start, *path), dotted, value


def with_change(sample: Sample, index: int, path: Path, new: Any) -> bytes:
    records = [*sample.records]
    records[index] = replace_at(records[index], path, new)
    return encode([*sample.head, *records])


def is_outside(sample: Sample, dotted: str) -> bool:
    """Whether a path is bookkeeping, or an object of nothing else."""
    paths = [dotted, f"{dotted}.x"]
    return any(fnmatchcase(path, pattern) for path in paths for pattern in sample.bookkeeping)


@each_sample
def test_each_value_of_the_content_is_in_the_identity_or_is_listed(name: str) -> None:
    sample = SAMPLES[name]
    ids = read_ids(sample, encode([*sample.head, *sample.records]))
    outside = set()
    for index, path, dotted, value in content_nodes(sample):
        if isinstance(value, dict | list) and value:
            continue
        if read_ids(sample, with_change(sample, index, path, changed(value))) == ids:
            outside.add(dotted)
    assert {dotted for dotted in outside if not is_outside(sample, dotted)} == set()
    assert [p for p in sample.bookkeeping if not any(fnmatchcase(d, p) for d in outside)] == []


@each_sample
def test_unknown_member_is_in_the_identity_and_is_written_again(name: str) -> None:
    sample = SAMPLES[name]
    ids = read_ids(sample, encode([*sample.head, *sample.records]))
    assert sample.native.writes
    for index, path, dotted, value in content_nodes(sample):
        if not isinstance(value, dict) or is_outside(sample, dotted):
            continue
        data = with_change(sample, index, path, {**value, "x_new": {"a": [1, None], "b": None}})
        changed_ids = read_ids(sample, data)
        assert changed_ids != ids, (index, path)
        entries = read_conversation(sample.native.steps, data)
        written = sample.native.writes(entries, NEW)
        assert read_ids(sample, written) == changed_ids, (index, path)
        assert b'"x_new":{"a":[1,null],"b":null}' in written.replace(b"\\", b""), (index, path)


@each_sample
@given(data=st.data())
def test_any_other_content_has_other_ids(name: str, data: st.DataObject) -> None:
    """Except that an empty value may mean the same as an absent one."""
    sample = SAMPLES[name]
    nodes = [
        node
        for node in content_nodes(sample)
        if not is_outside(sample, node[2]) and node[2] not in sample.names
    ]
    index, path, dotted, value = data.draw(st.sampled_from(nodes))
    new = data.draw(JSON.filter(lambda new: new not in EMPTY and not equal_json(new, value)))
    ids = read_ids(sample, with_change(sample, index, path, value))
    assert read_ids(sample, with_change(sample, index, path, new)) != ids, dotted
