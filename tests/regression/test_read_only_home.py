"""A home that cannot be written.

`sessions`, `stats`, `search` and the views of imported sessions ended with "cannot be used (attempt to
write a readonly database)", on a read-only mount or in another user's home. The indexes were opened for
writing. Now they are copied into memory, brought up to date there, and forgotten with the command.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.kit import HARKEN, Cli
from tests.unit.formats.transcript_kit import Transcript, text_block

READERS = (
    ("sessions", "--json"),
    ("stats", "--json", "--utc"),
    ("search", "--json", "tea"),
)


def without_privileges() -> list[str]:
    """Return a command that runs another one without the privileges of root, which ignore modes."""
    if os.geteuid():
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("root writes everywhere, and there is no setpriv")
    return [setpriv, "--inh-caps=-all", "--bounding-set=-all"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `harken` as a process that cannot write the home."""
    return subprocess.run(
        [*without_privileges(), HARKEN, *arguments],
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


@pytest.fixture
def imported(cli: Cli, tmp_path: Path) -> Iterator[Cli]:
    """A home with an imported session; its modes are put back afterwards."""
    transcript = Transcript()
    transcript.user("Tea or coffee?")
    transcript.answer(text_block("Tea, please."))
    (tmp_path / "a.jsonl").write_bytes(transcript.data)
    cli.ok("import", tmp_path / "a.jsonl")
    yield cli
    for path in (cli.home, *cli.home.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)


def protect(home: Path) -> dict[Path, bytes]:
    """Take away the right to write a home; return its files."""
    for path in home.rglob("*"):
        path.chmod(0o500 if path.is_dir() else 0o400)
    home.chmod(0o500)
    return {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}


def test_a_read_only_home_is_read_as_any_other(imported: Cli) -> None:
    expected = {command: imported.ok(*command).out for command in READERS}
    view = imported.ok("view", "claude:5e551011", "perspective", "main").out
    before = protect(imported.home)
    for command in READERS:
        ran = run(*command)
        assert (ran.returncode, ran.stdout) == (0, expected[command]), ran.stderr
    ran = run("view", "claude:5e551011", "perspective", "main")
    assert (ran.returncode, ran.stdout) == (0, view), ran.stderr
    assert before == protect(imported.home)


def test_a_read_only_home_without_facts_is_indexed_in_memory(imported: Cli) -> None:
    expected = imported.ok(*READERS[2]).out
    (imported.home / "facts.db").unlink()
    protect(imported.home)
    assert run(*READERS[2]).stdout == expected
    assert not (imported.home / "facts.db").exists()
    assert run("store", "fsck").returncode == 0
