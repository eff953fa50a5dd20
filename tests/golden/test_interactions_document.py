"""docs/formats/interactions.md says what the code does: its examples are tried."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from harken.core import canonical
from harken.core.messages import message_hash
from harken.interactions.export.layout import encode_line
from harken.interactions.records import LoggedMessage, ThreadEntry, ThreadEventType
from harken.interactions.unit import split_message, to_message

DOCUMENT = Path(__file__).parents[2] / "docs" / "formats" / "interactions.md"
LINES = [
    line
    for fence in re.findall(r"^```json\n(.*?)^```$", DOCUMENT.read_text(), re.DOTALL | re.MULTILINE)
    for line in fence.splitlines()
]
MESSAGES = [line for line in LINES if "role" in json.loads(line)]
ROWS = [line for line in LINES if "eventType" in json.loads(line)]


@pytest.mark.req("S3-08", "S3-10")
@pytest.mark.parametrize("line", MESSAGES)
def test_message_example_round_trips_with_its_content_id(line: str) -> None:
    record = msgspec.convert(canonical.from_json(line.encode()), LoggedMessage)
    assert message_hash(to_message(record)) == record.id
    [unit] = split_message(to_message(record))
    model = None if record.metadata is None else record.metadata.model
    assert encode_line(unit.logged(record.timestamp, model)) == line.encode() + b"\n"


@pytest.mark.req("S3-12", "S3-14")
@pytest.mark.parametrize("line", ROWS)
def test_row_example_round_trips(line: str) -> None:
    row = msgspec.convert(canonical.from_json(line.encode()), ThreadEntry)
    assert encode_line(row) == line.encode() + b"\n"


@pytest.mark.req("S3-13")
def test_all_types_of_rows_are_in_the_document() -> None:
    assert len(MESSAGES) == 3
    assert len(ROWS) == 2
    assert all(f"`{kind.value}`" in DOCUMENT.read_text() for kind in ThreadEventType)
