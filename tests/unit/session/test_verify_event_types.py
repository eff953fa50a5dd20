"""`verify` names damage to an event of every type: removed, exchanged, shortened, duplicated."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from harken.core.events import KnownEvent, SessionStarted, encode_event, event_type
from harken.core.ids import MessageId
from harken.session.log.checksum import seal
from harken.session.verify import verify
from tests.cli.kit import Cli
from tests.unit.views.test_timeline_descriptions import EVENTS

KINDS = ("remove", "exchange", "shorten", "duplicate")


def event_lines() -> list[bytes]:
    """Return the lines of a log that has an event of each type."""
    started = SessionStarted(session_id="cafe", schema_version=2)
    others = [event for event, _ in EVENTS if not isinstance(event, SessionStarted)]
    lines, before = [], b""
    for number, event in enumerate([started, *others]):
        numbered = msgspec.structs.replace(
            event, message_id=MessageId(f"msg_{number:03d}"), time="2026-01-31T12:00:00.000000Z"
        )
        line, before = seal(before, encode_event(numbered))
        lines.append(line)
    assert {event_type(event) for event in (started, *others)} == {
        str(kind.__struct_config__.tag) for kind in get_args(KnownEvent)
    }
    return lines


def damage(lines: list[bytes], at: int, kind: str) -> list[bytes]:
    """Return the lines with damage at one of them."""
    before, line, after = lines[:at], lines[at], lines[at + 1 :]
    match kind:
        case "remove":
            return [*before, *after]
        case "exchange":
            return [*before, *after[:1], line, *after[1:]]
        case "shorten":
            return [*before, line[:20] + line[21:], *after]
        case _:
            return [*before, line, line, *after]


def iter_damaged(kind: str) -> Iterator[tuple[int, list[bytes]]]:
    """Yield the log with damage to each line.

    A log without its last line is a complete log, as it was before that event.
    """
    lines = event_lines()
    for at in range(len(lines) - (kind in ("remove", "exchange"))):
        yield at, damage(lines, at, kind)


def test_undamaged_log_has_no_findings(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"".join(event_lines()))
    assert verify(path) == []


@pytest.mark.req("D-02")
@pytest.mark.parametrize("kind", KINDS)
def test_damage_to_an_event_of_every_type_is_named(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "s.jsonl"
    for at, lines in iter_damaged(kind):
        path.write_bytes(b"".join(lines))
        findings = [finding.line for finding in verify(path)]
        assert findings, (at, kind)
        assert at + 1 <= findings[0] <= at + 2, (at, kind, findings)


@pytest.mark.req("D-02")
def test_commands_name_the_damaged_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARKEN_HOME", str(tmp_path))
    cli = Cli(tmp_path, capsys)
    path = tmp_path / "sessions" / "cafe.jsonl"
    path.parent.mkdir()
    path.write_bytes(b"".join(event_lines()))
    assert cli("sessions", "check", "cafe").code == 0
    for kind in KINDS:
        path.write_bytes(b"".join(damage(event_lines(), 7, kind)))
        for command in (("sessions", "check", "cafe"), ("store", "fsck")):
            result = cli(*command)
            assert result.code == 1, (kind, command)
            assert "cafe" in result.out, (kind, command)
