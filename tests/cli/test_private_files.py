"""All files of a home are readable by their owner only, whatever the umask is."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from harken.interactions.logger import InteractionLogger
from tests.cli.kit import Cli
from tests.unit.formats.transcript_kit import Transcript, text_block


@pytest.fixture
def open_umask() -> Iterator[None]:
    """Files are readable and writable by everybody, unless a program says otherwise."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.req("D-06")
@pytest.mark.usefixtures("open_umask")
def test_files_of_a_home_are_private(cli: Cli, script: str, tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.user("Who is at the door?")
    transcript.answer(text_block("Nobody."))
    (tmp_path / "a.jsonl").write_bytes(transcript.data)
    commands = (
        ("init",),
        ("chat", "--model", script, "--name", "cafe", "-p", "hello"),
        ("fork", "cafe", "--name", "branched"),
        ("import", tmp_path / "a.jsonl"),
        ("search", "door"),
        ("sessions", "compress", "branched"),
        ("serve", "--port", "0", "--idle-timeout", "1s"),
        ("otlp", "--port", "0", "--idle-timeout", "1s"),
        ("proxy", "--port", "0", "--idle-timeout", "1s"),
    )
    for command in commands:
        cli.ok(*command)
    with InteractionLogger(folder=cli.home) as log:
        log.list_threads()
    names = {path.name for path in cli.home.rglob("*")}
    assert names >= {"store.db", "facts.db", "index.db", "interactions.db", "cafe.jsonl"}
    readable = {
        str(path.relative_to(cli.home)): oct(stat.S_IMODE(path.stat().st_mode))
        for path in [cli.home, *cli.home.rglob("*")]
        if path.stat().st_mode & 0o077
    }
    assert readable == {}
