"""docs/formats/session-log.md says what the code does: its examples, tables and hashes are tried.

The page is taken apart by its headings. What stands in a fence is run, decoded or hashed; what stands
in a table is compared with the members of the class that it describes.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from harken.core import canonical
from harken.core import events as ev
from harken.core.event_types.message_parser import parse_message
from harken.core.ids import MessageId, Origin
from harken.core.messages import (
    ContentPart,
    FunctionCall,
    Message,
    ToolCall,
    extend_context_hash,
    message_hash,
    part_hash,
)
from harken.llm.base import request_hash, tools_hash
from harken.session.fold import fold
from harken.session.invariants import check_event
from harken.session.log.checksum import is_valid_line
from harken.session.segments import resolve_context
from harken.session.state import SessionState

DOCUMENT = Path(__file__).parents[2] / "docs" / "formats" / "session-log.md"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def _sections() -> dict[str, str]:
    """Return heading -> the text from there to the next heading."""
    text = DOCUMENT.read_text(encoding="utf-8")
    parts = re.split(r"^#+ (.+)$", FENCE.sub(_without_hashes, text), flags=re.MULTILINE)
    return {
        name.strip("`"): body.replace("\0", "#")
        for name, body in zip(parts[1::2], parts[2::2], strict=True)
    }


def _without_hashes(fence: re.Match[str]) -> str:
    return fence[0].replace("#", "\0")


SECTIONS = _sections()


def fences(section: str, language: str) -> list[str]:
    """Return what stands in the fences of a section."""
    return [body for kind, body in FENCE.findall(SECTIONS[section]) if kind == language]


def lines(section: str, index: int = 0) -> list[bytes]:
    """Return the lines of a section's JSON fence."""
    return fences(section, "json")[index].encode().splitlines()


def rows(section: str) -> dict[str, list[str]]:
    """Return the rows of a section's tables whose first cell begins with a name in backticks."""
    table_rows = re.findall(r"^\| `([^`]+)`[^|]*\|(.*)\|$", SECTIONS[section], re.MULTILINE)
    return {name: [cell.strip() for cell in cells.split("|")] for name, cells in table_rows}


def own_fields(kind: type[msgspec.Struct]) -> dict[str, bool]:
    """Return the members of a struct, those of every event left out -> whether it is required."""
    common = {field.name for field in msgspec.structs.fields(ev.EventBase)}
    return {
        field.encode_name: field.required
        for field in msgspec.structs.fields(kind)
        if not (issubclass(kind, ev.EventBase) and field.name in common)
    }


def test_headings_are_exactly_the_event_types() -> None:
    headings = [name for name in SECTIONS if f"### `{name}`\n" in DOCUMENT.read_text()]
    assert headings == list(ev.EVENT_TYPES)


@pytest.mark.parametrize("name", ev.EVENT_TYPES)
def test_event_example_round_trips_byte_for_byte(name: str) -> None:
    (line,) = lines(name)
    event = ev.decode_event(line)
    assert isinstance(event, ev.EVENT_TYPES[name])
    assert event.unknown is None
    assert event.message_id
    assert event.time
    assert ev.encode_event(event) == line


@pytest.mark.parametrize("name", ev.EVENT_TYPES)
def test_the_table_of_an_event_has_all_its_members_and_no_others(name: str) -> None:
    required = {member: cells[1] == "required" for member, cells in rows(name).items()}
    assert required == own_fields(ev.EVENT_TYPES[name])


@pytest.mark.parametrize("name", ev.EVENT_TYPES)
def test_each_event_documents_its_writing_and_folding(name: str) -> None:
    text = SECTIONS[name]
    assert re.search(r"^(A \*birth\*\. )?Written ", text, re.MULTILINE)
    assert len(re.findall(r"^Fold: ", text, re.MULTILINE)) == 1


def test_common_members_table_is_complete() -> None:
    common = {field.encode_name for field in msgspec.structs.fields(ev.EventBase)}
    assert set(rows("Events")) == common - {"~unknown"} | {"event_type", "more", "sum"}


def test_the_schema_version_is_the_one_of_the_document() -> None:
    assert f"*Format document. Schema version {ev.SCHEMA_VERSION}.*" in DOCUMENT.read_text()


def test_every_kind_of_part_has_a_row_with_its_members() -> None:
    kinds = {str(kind.__struct_config__.tag): own_fields(kind) for kind in get_args(ContentPart)}
    table = rows("Content")
    assert {kind: re.findall(r"`(\w+)`", cells[0]) for kind, cells in table.items()} == {
        kind: list(fields) for kind, fields in kinds.items()
    }
    required = {name for fields in kinds.values() for name, needed in fields.items() if needed}
    assert required == {"text", "kind", "data", "id"}


def test_calls_and_usage_have_all_their_members_in_a_table() -> None:
    required = {name: cells[1] == "required" for name, cells in rows("Tool calls").items()}
    assert required == own_fields(ToolCall)
    assert set(own_fields(FunctionCall)) <= _named(rows("Tool calls")["function"][2])
    assert set(own_fields(ev.Usage)) == _named(rows("llm_response")["usage"][2])
    assert set(own_fields(Origin)) == _named(rows("session_started")["origin"][2])


def _named(text: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", text))


def test_every_member_of_a_segment_is_in_its_table() -> None:
    forms = [
        _named(line.split("|")[1]) for line in SECTIONS["Segments"].splitlines() if "| `" in line
    ]
    assert set().union(
        *(form for form in forms if not form & {"msg_004", "msg_008", "msg_014"})
    ) == set(own_fields(ev.Segment))


def test_every_member_of_a_message_is_named() -> None:
    assert _named(SECTIONS["Messages"]) >= set(Message.__struct_fields__)


def test_the_three_lines_verify() -> None:
    before = b""
    for line in lines("Lines"):
        assert is_valid_line(before, line + b"\n")
        before = line[-18:-2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Hold cafe.jsonl and a `b3sum` that does what the real one does."""
    (tmp_path / "cafe.jsonl").write_bytes(b"".join(line + b"\n" for line in lines("Lines")))
    program = tmp_path / "b3sum"
    program.write_text(f"#!{sys.executable}\n{B3SUM}")
    program.chmod(0o755)
    return tmp_path


B3SUM = """
import sys
from blake3 import blake3
arguments = sys.argv[1:]
assert "--no-names" in arguments
at = arguments.index("--length") + 1 if "--length" in arguments else 0
print(blake3(sys.stdin.buffer.read()).hexdigest(length=int(arguments[at]) if at else 32))
"""


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "example", [*fences("Lines", "sh")[:1], *fences("Golden values", "sh")], ids=["sum", "hashes"]
)
def test_shell_commands_print_the_documented_hashes(example: str, folder: Path) -> None:
    expected = re.findall(r"^# ([0-9a-f]+)$", example, re.MULTILINE)
    process = run(["sh", "-c", example], folder)
    assert (process.stdout.split(), process.stderr) == (expected, "")
    assert expected


def test_a_shell_finds_the_lines_that_do_not_verify(folder: Path) -> None:
    script = fences("Lines", "sh")[1]
    assert run(["sh", "-c", script], folder).stdout == ""
    log = folder / "cafe.jsonl"
    log.write_text(log.read_text().replace('"Hi"', '"Ho"'))
    assert run(["sh", "-c", script], folder).stdout == log.read_text().splitlines(keepends=True)[2]


def test_python_finds_a_line_that_does_not_verify(folder: Path) -> None:
    (script,) = fences("Lines", "python")
    assert run([sys.executable, "-c", script], folder).returncode == 0
    log = folder / "cafe.jsonl"
    log.write_text(log.read_text().replace("agent_001", "agent_002", 1))
    assert "AssertionError" in run([sys.executable, "-c", script], folder).stderr


def golden_values() -> list[dict[str, Any]]:
    return [
        canonical.from_json(line)
        for index in range(len(fences("Golden values", "json")))
        for line in lines("Golden values", index)
    ]


@pytest.mark.parametrize("value", golden_values())
def test_golden_value_equals_the_computed_value(value: Mapping[str, Any]) -> None:
    match value:
        case {"part": part}:
            digest = part_hash(part)
        case {"message": message}:
            digest = message_hash(parse_message(message))
        case {"context": messages}:
            digest = ""
            for message in messages:
                digest = extend_context_hash(digest, parse_message(message))
        case {"tools": tools}:
            digest = tools_hash(tools)
        case {"request": request}:
            digest = request_hash(
                request["context"], request.get("tools"), request.get("parameters")
            )
        case _:
            digest = "nothing that has a hash"
    assert digest == value["hash"]


def test_there_is_a_golden_value_of_every_kind() -> None:
    assert {next(iter(value)) for value in golden_values()} == {
        "part",
        "message",
        "context",
        "tools",
        "request",
    }


def test_every_domain_line_is_in_the_table() -> None:
    domains = {
        canonical.PART_DOMAIN,
        canonical.MESSAGE_DOMAIN,
        canonical.CONTEXT_DOMAIN,
        canonical.TOOLS_DOMAIN,
        canonical.REQUEST_DOMAIN,
    }
    domain_names = set(re.findall(r"\| `(harken\.\w+\.v1)` \|", SECTIONS["Identity"]))
    assert domain_names == {domain.decode().rstrip("\n") for domain in domains}


def example_session() -> list[ev.Event]:
    start = ev.SessionStarted(session_id="cafe")
    start.message_id = MessageId("msg_000")
    return [start, *map(ev.decode_event, lines("Segments"))]


def test_the_segments_are_the_only_ones_that_the_writer_takes() -> None:
    state = SessionState()
    for event in example_session():
        check_event(state, event)
        fold(state, event)


def test_the_contexts_are_rebuilt_from_the_segments_alone() -> None:
    session = example_session()
    requests = {e.message_id: e for e in session if isinstance(e, ev.LlmRequest)}
    entries = {e.message_id: e for e in session if isinstance(e, ev.TranscriptEntry)}
    table = {name: _ids(cells[0]) for name, cells in rows("Segments").items() if name in requests}
    assert len(table) == 3
    for name, request in requests.items():
        messages = resolve_context(request, requests, entries)
        assert [getattr(message, "message_id", None) for message in messages] == table[name]
        context_hash = ""
        for message in messages:
            context_hash = extend_context_hash(context_hash, message)
        assert (len(messages), context_hash) == (request.count, request.context_hash)


def _ids(text: str) -> list[str]:
    return re.findall(r"`(msg_\d+)`", text)


def test_internal_links_of_the_page_resolve() -> None:
    anchors = {re.sub(r"[^\w-]", "", name.lower().replace(" ", "-")) for name in SECTIONS}
    linked = set(re.findall(r"\]\(#([\w-]+)\)", DOCUMENT.read_text()))
    assert linked <= anchors
    assert linked


def test_json_fences_hold_json() -> None:
    for section, text in SECTIONS.items():
        for language, body in FENCE.findall(text):
            if language == "json":
                assert all(json.loads(line) for line in body.splitlines()), section
