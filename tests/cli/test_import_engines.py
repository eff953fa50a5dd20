"""`harken import --on`: the same rows and bytes wherever files are read."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest

from harken.store.sqlite.store import SqliteStore
from tests.cli.kit import HARKEN, Cli
from tests.unit.executors.executor_kit import IS_RAY_INSTALLED, NEEDS_RAY
from tests.unit.formats.transcript_kit import Transcript, text_block

SECRET = "AKIAQ7WZX5T2MN3BVC4D"
ENGINES = [
    pytest.param(("--jobs", "2"), id="processes"),
    pytest.param(("--on", "ray", "--jobs", "2"), id="ray", marks=NEEDS_RAY),
]


@pytest.fixture
def histories(tmp_path: Path) -> Path:
    """Return a folder with more bytes than are read in one process, one credential, and a file
    that cannot be read."""
    folder = tmp_path / "projects"
    folder.mkdir()
    for number in range(4):
        transcript = Transcript(f"5e55101{number}-0000-4000-8000-000000000001")
        transcript.user(f"Is cafe {number} open?", padding="x" * 2_500_000)
        transcript.answer(text_block(f"Its key is {SECRET}."), id=f"msg_{number}")
        (folder / f"{number}.jsonl").write_bytes(transcript.data)
    (folder / "bad.jsonl").symlink_to(tmp_path / "folder")
    (tmp_path / "folder").mkdir()
    return folder


def imported(cli: Cli, home: Path, *arguments: str | Path) -> tuple[object, set[str]]:
    """Import into a home. Return the report, and the names of all objects in its store."""
    ran = cli("import", *arguments, "--json", "--home", home)
    with closing(SqliteStore(home / "store.db")) as store:
        return (ran.code, ran.out, ran.err), {stored.name for stored in store.iter_objects()}


@pytest.mark.parametrize("redact", ["export", "store"])
@pytest.mark.parametrize("options", ENGINES)
def test_rows_and_bytes_are_the_same_wherever_files_are_read(
    cli: Cli, histories: Path, tmp_path: Path, options: tuple[str, ...], redact: str
) -> None:
    homes = [tmp_path / "home-1", tmp_path / "home-2"]
    for home in homes:
        home.mkdir()
        (home / "config.toml").write_text(f'redact = "{redact}"\n')
    alone = imported(cli, homes[0], histories, "--jobs", "1")
    assert imported(cli, homes[1], histories, *options) == alone
    assert alone[0][1].count("\n") >= 4  # type: ignore[index]
    stored = cli.ok("search", SECRET, "--home", homes[1], "--json").out
    assert (SECRET in stored) == (redact == "export")


@pytest.mark.parametrize("options", ENGINES)
def test_an_interrupt_ends_all_processes(
    cli: Cli, histories: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    for number in range(40):
        (histories / f"more{number}.jsonl").write_bytes((histories / "1.jsonl").read_bytes())
    with subprocess.Popen(
        [HARKEN, "import", histories, *options, "--home", tmp_path / "home"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        while not (children := running_children(process.pid)):
            assert process.poll() is None
            time.sleep(0.02)
        time.sleep(0.2)
        os.killpg(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 130, out
    assert b"Traceback" not in out
    deadline = time.monotonic() + 10  # The processes of Ray end a moment after their main process.
    while any(map(is_running, children)):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def running_children(process: int) -> list[int]:
    """Return the child processes of a process."""
    path = Path(f"/proc/{process}/task/{process}/children")
    return [int(child) for child in path.read_text().split()] if path.exists() else []


def is_running(process: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(IS_RAY_INSTALLED, reason="Ray is installed here")
def test_a_missing_extra_is_one_line(cli: Cli, histories: Path) -> None:
    line = cli.refused("import", histories, "--on", "ray")
    assert "pip install 'harken[ray]'" in line


@NEEDS_RAY
def test_a_cluster_that_is_not_there_is_one_line(cli: Cli, histories: Path) -> None:
    line = cli.refused("import", histories, "--on", "ray:127.0.0.1:1")
    assert "no connection to a Ray cluster" in line


def test_an_unknown_engine_is_one_line(cli: Cli, histories: Path) -> None:
    assert "write local, ray, or ray:ADDRESS" in cli.refused("import", histories, "--on", "dask")
