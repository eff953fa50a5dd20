"""`harken remote`, `clone`, `pull` and `push --all`, with a service that is a process of its own."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from harken.session.session import Session, SessionOptions
from tests.cli.kit import Cli
from tests.cli.test_serve import serving
from tests.session_kit import log_user_message

KEY = "AKIAQ7WZX5T2MN3BVC4D"
VIEWS = (
    ("sessions", "--json"),
    ("ctx", "log", "--json"),
    ("ctx", "branch", "--json"),
    ("ticket", "list", "--json"),
    ("stats", "--json"),
    ("store", "fsck"),
    ("view", "demo"),
    ("search", "cafe"),
    ("store", "retain", "--json"),
)


def answers(cli: Cli, home: Path) -> list[str]:
    """Return the answers of a home to questions about all that it has."""
    rows = []
    for words in VIEWS:
        ran = cli(*words, "--home", home)
        rows.append(f"{words} {ran.code} {ran.out}".replace(str(home), "HOME"))
    return rows


def fill(cli: Cli) -> None:
    """Write sessions, commits, labels, branches and tickets."""
    cli.ok("demo", "--home", cli.home)
    cli.ok("chat", "--home", cli.home, "--model", "scripted:demo", "-p", "A cafe, please.")
    cli.ok("ticket", "create", "Try the cafe", "--home", cli.home)
    tip = json.loads(cli.ok("ctx", "log", "--json", "--home", cli.home).out)[0]["id"]
    cli.ok("ctx", "label", tip, "good", "--home", cli.home)
    cli.ok("ctx", "branch", "main", tip, "--home", cli.home)
    cli.ok("store", "retain", tip, "--pin", "--home", cli.home)


@pytest.mark.req("D-06")
def test_a_clone_answers_as_the_origin(cli: Cli, tmp_path: Path) -> None:
    fill(cli)
    there, copy = tmp_path / "there", tmp_path / "copy"
    with serving(there, "--socket", str(tmp_path / "run" / "s")) as (_, url):
        cli.ok("remote", "add", "origin", url, "--home", cli.home)
        assert "2 with new content" in cli.ok("push", "--all", "--home", cli.home).out
        assert "0 with new content" in cli.ok("push", "--all", "--home", cli.home).out
        plan = cli.ok("clone", url, copy)
        assert "2 sessions" in plan.out
        assert "everything is up to date" in cli.ok("pull", "--home", copy).out
        assert answers(cli, copy) == answers(cli, there)
        views = [row for row in answers(cli, cli.home) if "sessions" not in row[:12]]
        assert [row for row in answers(cli, copy) if "sessions" not in row[:12]] == views
        assert cli.ok("ctx", "show", "origin/main", "--home", copy).out
        cli.ok("demo", "--home", copy)
        dry = cli.ok("push", "--all", "--dry-run", "--home", copy)
        assert "to be pushed" in dry.out
        cli.ok("push", "--all", "--home", copy)
        row = cli.ok("pull", "--json", "--home", cli.home).json
        assert [log["session"] for log in row["sessions"]] == ["demo-2"]
        lazy = tmp_path / "lazy"
        cli.ok("clone", "--lazy", url, lazy)
        assert cli.ok("ctx", "log", "--json", "--home", lazy).json == (
            cli.ok("ctx", "log", "--json", "--home", cli.home).json
        )
        chat = [log for log in answers(cli, lazy) if log.startswith("('view'")]
        assert chat == [log for log in answers(cli, cli.home) if log.startswith("('view'")]
        again = cli.ok("clone", url, copy)
        assert "up to date" in again.out
        assert "has content already" in cli.refused("clone", "unix:elsewhere", cli.home)


def test_remotes_are_named_and_their_tokens_are_private(cli: Cli, tmp_path: Path) -> None:
    home, token = ("--home", cli.home), "t" * 43
    file = tmp_path / "token"
    file.write_text(token)
    file.chmod(0o644)
    url = "http://127.0.0.1:9"
    assert "token" in cli.refused("remote", "add", "a", url, "--token-file", file, *home)
    file.chmod(0o600)
    ran = cli.ok("remote", "add", "a", url, "--token-file", file, *home)
    assert token not in ran.out + ran.err
    saved = cli.home / "remotes" / "a" / "token"
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600
    assert cli.ok("remote", "list", "--json", *home).json == [
        {"name": "a", "url": url, "has_token": True}
    ]
    assert "exists" in cli.refused("remote", "add", "a", url, *home)
    assert "cannot be reached" in cli.refused("pull", "a", *home)
    saved.chmod(0o644)
    assert "token" in cli.refused("pull", "a", *home)
    cli.ok("remote", "remove", "a", *home)
    assert not saved.exists()
    for name, address, reason in [
        ("../evil", url, "cannot name a remote"),
        ("b", f"http://user:{token}@127.0.0.1:9", "do not put a token"),
        ("b", f"http://127.0.0.1:9/?token={token}", "do not put a token"),
        ("b", "ftp://127.0.0.1", "not the address"),
        ("b", "http://evil\x1b[31m", "unprintable"),
    ]:
        text = cli.refused("remote", "add", name, address, *home)
        assert reason in text
        assert token not in text
    assert "remote 'origin' not found" in cli.refused("pull", *home)
    assert "not the address" in cli.refused("pull", "nowhere", *home)
    assert not (cli.home / "evil").exists()


def test_names_from_a_remote_are_shown_escaped(cli: Cli, tmp_path: Path) -> None:
    cli.ok("demo", "--home", tmp_path / "there")
    (tmp_path / "there" / "sessions" / "evil\x1b[31m.jsonl").write_text("{}\n")
    with serving(tmp_path / "there", "--socket", str(tmp_path / "run" / "s")) as (_, url):
        for words in (("clone", url, cli.home), ("pull", "--json", "--home", cli.home)):
            ran = cli(*words)
            assert ran.code == 1
            assert "evil" in ran.err + ran.out
            assert "\x1b" not in ran.err + ran.out
    assert [path.name for path in cli.sessions()] == ["demo.jsonl"]


def test_a_home_that_refuses_credentials_pulls_none(cli: Cli, tmp_path: Path) -> None:
    there = tmp_path / "there"
    cli.ok("chat", "--home", there, "--model", "scripted:demo", "-p", f"Use {KEY} in a cafe.")
    cli.home.mkdir(exist_ok=True)
    (cli.home / "config.toml").write_text('redact = "store"\n')
    with serving(there, "--socket", str(tmp_path / "run" / "s")) as (_, url):
        ran = cli("pull", url, "--home", cli.home)
        assert ran.code in (1, 2)
        assert KEY not in ran.out + ran.err
        assert "Traceback" not in ran.err
    assert KEY.encode() not in b"".join(
        path.read_bytes() for path in cli.home.rglob("*") if path.is_file()
    )


def test_a_lazy_clone_reads_from_afar_and_pushes_its_own(cli: Cli, tmp_path: Path) -> None:
    there, lazy = tmp_path / "there", tmp_path / "lazy"
    fill_chat(cli, there)
    with serving(there, "--socket", str(tmp_path / "run" / "s")) as (_, url):
        cli.ok("clone", "--lazy", url, lazy)
        stored = (lazy / "store.db").stat().st_size
        tip = cli.ok("ctx", "log", "--json", "--home", lazy).json[0]["id"]
        assert "cafe" in cli.ok("ctx", "cat", tip, "--home", lazy).out
        assert stored < (there / "store.db").stat().st_size
        fill_chat(cli, lazy, "--from-commit", tip)
        cli.ok("push", "--all", "--home", lazy)
        assert "up to date" in cli.ok("pull", "--home", lazy).out
        new = cli.ok("ctx", "log", "--json", "--home", lazy).json[0]["id"]
    assert new != tip
    assert cli.ok("ctx", "cat", new, "--home", there).out
    assert cli("store", "fsck", "--home", there).code == 0


def fill_chat(cli: Cli, home: Path, *options: str) -> None:
    """Write a session with commits."""
    prompt = "Let Jack and Jill meet in a cafe."
    cli("chat", "--home", home, "--model", "scripted:demo", "-p", prompt, *options)


def test_what_differs_is_reported(cli: Cli, tmp_path: Path) -> None:
    cli.ok("demo", "--home", cli.home)
    there, copy = tmp_path / "there", tmp_path / "copy"
    with serving(there, "--socket", str(tmp_path / "run" / "s")) as (_, url):
        cli.ok("push", "--all", url, "--home", cli.home)
        cli.ok("clone", url, copy)
        log = copy / "sessions" / "demo.jsonl"
        lines = log.read_bytes().splitlines(keepends=True)
        log.write_bytes(b"".join(lines[:-1]))
        assert "demo: 1 line" in cli.ok("pull", "demo", "--home", copy).out
        for home, text in ((cli.home, "here"), (copy, "there")):
            path = home / "sessions" / "demo.jsonl"
            session = Session.load(path, options=SessionOptions(durability="none"))
            log_user_message(session, "agent_001", text)
            session.close()
        cli.ok("push", "--all", url, "--home", cli.home)
        before = log.read_bytes()
        ran = cli("pull", "--home", copy)
        assert (ran.code, ran.err.count("\n")) == (1, 1)
        assert "diverged: session demo" in ran.err
        assert cli("pull", "--json", "--home", copy).json["problems"][0]["relation"] == "diverged"
        assert log.read_bytes() == before
        assert cli("push", "--all", "--home", copy).code == 1
        assert "session on the remote" in cli.refused("pull", "nobody", "--home", copy)
