"""Bundles from the command line: made here, opened there, and gone on from."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import zipfile
from pathlib import Path
from random import Random

import pytest

from harken.testing.store import batch_of, commit_in
from tests.cli.kit import HARKEN, Cli, start
from tests.forks import processes

KEY = "sk-ant-" + "api03-" + "k1" * 20


@pytest.fixture
def talked(cli: Cli, script: str) -> Cli:
    """A home in which two chats were held."""
    cli.ok("chat", "--model", script, "-p", "make Ann")
    cli.ok("chat", "--model", script, "-p", f"hello {KEY}")
    return cli


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    return tmp_path / "elsewhere"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out.zip"


def home_of(folder: Path) -> list[str]:
    return ["--home", str(folder)]


def test_all_that_is_kept_goes_to_another_machine(
    talked: Cli, script: str, elsewhere: Path, out: Path
) -> None:
    before = talked.ok("ctx", "log", "--all", "--json").json
    made = talked.ok("store", "bundle", "create", "-o", out, "--no-redact")
    assert made.out.startswith(f"{out}: {len(before)} commits, 2 sessions, ")
    assert "credentials not redacted: anthropic-key (1)" in made.err
    ran = talked.ok("store", "bundle", "open", out, *home_of(elsewhere))
    assert (
        ran.out == f"{len(before)} commits, {len(before)} of them new; 2 sessions, 2 of them new\n"
    )
    assert f"chat --from-commit {before[0]['id'][:16]} --home {elsewhere}" in ran.err
    after = talked.ok("ctx", "log", "--all", "--json", *home_of(elsewhere)).json
    assert {row["id"]: row["summary"] for row in after} == {
        row["id"]: row["summary"] for row in before
    }
    logs = {path.name: path.read_bytes() for path in (elsewhere / "sessions").iterdir()}
    assert logs == {path.name: path.read_bytes() for path in talked.sessions()}
    assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o700
    for path in (elsewhere / "store.db", *(elsewhere / "sessions").iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    resumed = talked.ok("chat", "--resume", "latest", "-p", "hello", *home_of(elsewhere))
    assert "Hi there." in resumed.out


def test_a_session_goes_with_its_commits_and_a_commit_with_those_before_it(
    talked: Cli, elsewhere: Path, out: Path
) -> None:
    first, second = talked.sessions()
    made = talked.ok("store", "bundle", "create", first.stem, "-o", out, "--json").json
    assert [one["name"] for one in made["manifest"]["sessions"]] == [f"sessions/{first.name}"]
    sessions = {row["session_id"] for row in talked.ok("ctx", "log", "--all", "--json").json}
    talked.ok("store", "bundle", "open", out, *home_of(elsewhere))
    came = talked.ok("ctx", "log", "--all", "--json", *home_of(elsewhere)).json
    assert len(sessions) == 2
    assert {row["session_id"] for row in came} == {first.stem}
    tip = talked.ok("ctx", "log", "-n", "1", "--json").json[0]["id"]
    other = out.with_name("other.zip")
    made = talked.ok("store", "bundle", "create", tip[:12], "-o", other, "--json").json
    assert made["manifest"]["tips"] == [tip]
    assert made["manifest"]["sessions"] == []
    assert second.exists()


@pytest.mark.req("D-06")
def test_credentials_are_redacted_unless_one_says_otherwise(
    talked: Cli, elsewhere: Path, out: Path
) -> None:
    made = talked.ok("store", "bundle", "create", "-o", out)
    assert "credentials redacted: anthropic-key (1)" in made.err
    with zipfile.ZipFile(out) as bundle:
        assert not any(b"k1k1k1" in bundle.read(name) for name in bundle.namelist())
    talked.ok("store", "bundle", "open", out, *home_of(elsewhere))
    told = talked.ok("ctx", "log", "--all", "--json", *home_of(elsewhere)).json
    said = [talked.ok("ctx", "cat", row["id"], *home_of(elsewhere)).out for row in told]
    assert any("hello [redacted anthropic-key]" in text for text in said)
    assert talked.ok("store", "fsck", *home_of(elsewhere)).code == 0
    assert KEY in talked.ok("ctx", "cat", talked.ok("ctx", "log", "--json").json[0]["id"]).out


def test_a_dry_run_checks_and_takes_nothing(talked: Cli, elsewhere: Path, out: Path) -> None:
    talked.ok("store", "bundle", "create", "-o", out)
    number = len(talked.ok("ctx", "log", "--all", "--json").json)
    ran = talked.ok("store", "bundle", "open", out, "--dry-run", *home_of(elsewhere))
    assert ran.out.splitlines()[0] == f"{number} commits, {number} of them new"
    assert len(ran.out.splitlines()) == 3
    assert not elsewhere.exists()
    row = talked.ok("store", "bundle", "open", out, "--dry-run", "--json").json
    assert (row["new_commits"], row["manifest"]["commits"]) == (0, number)


def test_opened_twice_nothing_changes_and_names_that_are_taken_are_told(
    talked: Cli, elsewhere: Path, out: Path
) -> None:
    talked.ok("store", "bundle", "create", "-o", out)
    again = talked.ok(
        "store", "bundle", "open", out
    )  # here the logs are others: they are not redacted
    [told] = [line for line in again.out.splitlines() if "was imported as" in line]
    assert told.endswith("-2")
    before = {path.name: path.read_bytes() for path in talked.sessions()}
    assert len(before) == 3
    assert (
        "0 of them new; 2 sessions, 0 of them new" in talked.ok("store", "bundle", "open", out).out
    )
    assert {path.name: path.read_bytes() for path in talked.sessions()} == before
    rows = talked.ok("store", "bundle", "open", out, "--json").json["sessions"]
    assert [row["is_new"] for row in rows] == [False, False]


def test_a_damaged_log_is_left_out_and_the_exit_code_says_so(talked: Cli, out: Path) -> None:
    [path] = [path for path in talked.sessions() if b"Ann" in path.read_bytes()]
    path.write_bytes(path.read_bytes().replace(b"Ann", b"Bnn"))
    ran = talked("store", "bundle", "create", "-o", out)
    assert (ran.code, ran.out.count("1 session,")) == (1, 1)
    assert f"skipped: {path}: " in ran.err


def test_what_cannot_be_done_is_said_in_a_line(talked: Cli, out: Path, tmp_path: Path) -> None:
    assert "not found" in talked.refused("store", "bundle", "create", "ctx-0000", "-o", out)
    assert "session or commit" in talked.refused("store", "bundle", "create", "none", "-o", out)
    out.write_text("x")
    assert "exists; choose another name" in talked.refused("store", "bundle", "create", "-o", out)
    assert "not a complete bundle" in talked.refused("store", "bundle", "open", out)
    assert "No such file" in talked.refused("store", "bundle", "open", tmp_path / "none.zip")
    assert out.read_text() == "x"
    assert sorted(path.name for path in talked.home.iterdir()) == ["sessions", "store.db"]


def test_without_a_name_the_file_has_that_of_the_moment(talked: Cli) -> None:
    talked.ok("store", "bundle", "create")
    [file] = Path().glob("*.zip")
    assert file.name.startswith("harken_20")


def test_an_empty_home_has_nothing_to_give(cli: Cli, out: Path) -> None:
    assert "no commits and no sessions" in cli.refused("store", "bundle", "create", "-o", out)
    assert not out.exists()


def test_one_that_is_interrupted_leaves_nothing(cli: Cli, out: Path, elsewhere: Path) -> None:
    """Ctrl-C while a bundle is made, and while it is opened: the store is whole, and goes on."""
    from harken.store.sqlite.store import SqliteStore

    cli.home.mkdir()
    store = SqliteStore(cli.home / "store.db")
    parent = None
    for at in range(30):
        batch = batch_of(Random(at).randbytes(50_000).hex(), parent=parent, second=at)
        store.write(batch)
        parent = commit_in(batch)
    store.close()
    before = sorted(out.parent.iterdir())
    interrupt(
        cli.home, ["store", "bundle", "create", "-o", str(out)], out.parent, ".out.zip.*/store.db"
    )
    assert sorted(out.parent.iterdir()) == before
    cli.ok("store", "bundle", "create", "-o", out)
    interrupt(elsewhere, ["store", "bundle", "open", str(out)], elsewhere, ".bundle-*/store.db")
    assert not [path for path in elsewhere.iterdir() if path.name.startswith(".")]
    cli.ok("store", "bundle", "open", out, *home_of(elsewhere))
    assert start(elsewhere, "store", "fsck").returncode == 0
    assert len(cli.ok("ctx", "log", "--all", "--json", *home_of(elsewhere)).json) == 30


def interrupt(home: Path, arguments: list[str], folder: Path, sign: str) -> None:
    """Run a command and interrupt it as soon as a file like this is there."""
    ran = processes.start(
        [HARKEN, *arguments],
        env={**os.environ, "HARKEN_HOME": str(home)},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    while not list(folder.glob(sign)):
        assert ran.poll() is None, "it was too fast to be interrupted"
    ran.send_signal(signal.SIGINT)
    _, err = ran.communicate(timeout=30)
    assert (ran.returncode, err.strip()) == (130, b"harken: interrupted")
