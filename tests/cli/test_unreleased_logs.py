"""Logs of schema version 1, which no release wrote: every command refuses them and changes nothing."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from harken.core import canonical
from harken.errors import LogVersionUnsupported
from harken.session.log.checksum import has_more, read_body, seal
from harken.session.log.compress import compress_log
from harken.session.log.file import LogFile
from harken.session.log.reader import find_mentioned_names
from harken.session.log.receive import receive_lines
from harken.session.log.tail import LogTail
from harken.session.purge import PurgeOptions, purge_log
from harken.session.rename import rename_log
from harken.session.session import Session
from harken.session.verify import verify
from harken.views.viewer import SessionViewer
from tests.cli.kit import Cli

GOLDEN = Path(__file__).parents[1] / "golden" / "demo.jsonl"
REASON = (
    "schema version 1 is not supported (written by a development version of Harken; "
    "no release wrote it)"
)
COMMANDS = {
    "view": ["view", "old.jsonl", "tree"],
    "chat": ["chat", "--resume", "old.jsonl", "-p", "hello"],
    "check": ["sessions", "check", "old.jsonl"],
    "repair": ["sessions", "repair", "old.jsonl", "--out", "new.jsonl"],
    "replay": ["chat", "--model", "replay:old.jsonl", "-p", "hello"],
    "stats": ["stats", "old.jsonl"],
    "fork": ["fork", "old.jsonl"],
    "rerun": ["rerun", "old.jsonl", "--at", "1"],
}


def old_log() -> bytes:
    """Return the log of the demo, sealed with schema version 1."""
    lines, before = [], b""
    for line in GOLDEN.read_bytes().splitlines(keepends=True):
        body = read_body(line).replace(b'"schema_version":2', b'"schema_version":1')
        sealed, before = seal(before, body, more=has_more(line))
        lines.append(sealed)
    return b"".join(lines)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "old.jsonl"
    path.write_bytes(old_log())
    return path


@pytest.mark.parametrize("command", COMMANDS)
def test_a_log_of_an_unreleased_version_is_refused_in_one_line(cli: Cli, command: str) -> None:
    path = Path("old.jsonl")
    path.write_bytes(old_log())
    text = cli.refused(*COMMANDS[command])
    assert f"old.jsonl: {REASON}" in text
    assert path.read_bytes() == old_log()
    assert [child.name for child in Path().iterdir()] == [path.name]
    assert cli.sessions() == []


def test_an_unreleased_log_is_not_imported(cli: Cli) -> None:
    path = Path("old.jsonl")
    path.write_bytes(old_log())
    ran = cli("import", path)
    assert (ran.code, ran.err) == (2, f"harken: old.jsonl: {REASON}\n")
    assert cli.sessions() == []


def test_other_sessions_are_listed_and_counted_beside_an_unreleased_log(demo: Cli) -> None:
    path = demo.home / "sessions" / "old.jsonl"
    path.write_bytes(old_log())
    listed = demo.ok("sessions").out
    assert "Let Jack and Jill meet" in listed
    assert "(unreadable: run `harken sessions check old`)" in listed
    assert "1 session\n" in demo.ok("stats").out
    assert REASON in demo("store", "fsck").out
    assert find_mentioned_names(path) == set(), "the collection of garbage reads any version"
    assert path.read_bytes() == old_log()


OPENINGS: dict[str, Callable[[Path], object]] = {
    "session": Session,
    "load": Session.load,
    "verify": verify,
    "viewer": lambda path: list(SessionViewer(path).events),
    "tail": lambda path: list(LogTail(path).iter_groups()),
    "compress": compress_log,
    "rename": lambda path: rename_log(path, "new"),
    "purge": lambda path: purge_log(LogFile(path), PurgeOptions(replace=lambda text: text)),
    "receive": lambda path: receive_lines(path.with_name("new.jsonl"), 0, path.read_bytes()),
}


@pytest.mark.parametrize("name", OPENINGS)
def test_everything_that_opens_a_log_refuses_it(old: Path, name: str) -> None:
    with pytest.raises(LogVersionUnsupported, match="no release wrote it") as refused:
        OPENINGS[name](old)
    assert (refused.value.found, refused.value.known) == (1, 2)
    assert old.read_bytes() == old_log()
    assert [child.name for child in old.parent.iterdir()] == ["old.jsonl"]


@pytest.mark.parametrize("name", ["session", "load", "verify", "viewer"])
def test_a_compressed_one_stays_compressed(old: Path, name: str) -> None:
    old.with_name("old.jsonl.gz").write_bytes(gzip.compress(old.read_bytes()))
    old.unlink()
    with pytest.raises(LogVersionUnsupported):
        OPENINGS[name](old)
    assert [child.name for child in old.parent.iterdir()] == ["old.jsonl.gz"]


def test_a_damaged_version_is_damage_and_can_be_repaired(tmp_path: Path, demo: Cli) -> None:
    [log] = demo.sessions()
    log.write_bytes(log.read_bytes().replace(b'"schema_version":2', b'"schema_version":1', 1))
    assert "checksum mismatch" in demo("sessions", "check", log).out
    demo.ok("sessions", "repair", log, "--out", tmp_path / "new.jsonl")
    assert verify(tmp_path / "new.jsonl") == []


def test_a_log_without_sums_stays_readable_whatever_version_it_states(old: Path) -> None:
    objects = [canonical.from_json(line) for line in old.read_bytes().splitlines()]
    for value in objects:
        del value["sum"]
    old.write_text("".join(json.dumps(value) + "\n" for value in objects))
    assert len(list(SessionViewer(old).events)) == len(objects)
