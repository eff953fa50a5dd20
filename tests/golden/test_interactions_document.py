"""docs/formats/interactions.md says what the code does: its examples are tried."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from harken.core import canonical
from harken.core.messages import message_hash
from harken.interactions.export.layout import line_of
from harken.interactions.records import LoggedMessage, ThreadEntry, ThreadEventType
from harken.interactions.unit import message_of, units_of

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
def test_a_message_has_the_id_of_its_content_and_is_written_just_so(line: str) -> None:
    record = msgspec.convert(canonical.from_json(line.encode()), LoggedMessage)
    assert message_hash(message_of(record)) == record.id
    [unit] = units_of(message_of(record))
    model = None if record.metadata is None else record.metadata.model
    assert line_of(unit.logged(record.timestamp, model)) == line.encode() + b"\n"


@pytest.mark.req("S3-12", "S3-14")
@pytest.mark.parametrize("line", ROWS)
def test_a_row_is_written_just_so(line: str) -> None:
    row = msgspec.convert(canonical.from_json(line.encode()), ThreadEntry)
    assert line_of(row) == line.encode() + b"\n"


@pytest.mark.req("S3-13")
def test_all_types_of_rows_are_in_the_document() -> None:
    assert len(MESSAGES) == 3
    assert len(ROWS) == 2
    assert all(f"`{kind.value}`" in DOCUMENT.read_text() for kind in ThreadEventType)
