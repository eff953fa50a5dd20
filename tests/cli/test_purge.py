"""A leaked key goes from everything that a home keeps."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pexpect
import pytest

from harken.session.repair import verify
from harken.store.sqlite.store import SqliteStore
from tests.cli.kit import HARKEN, Cli, Ran
from tests.forks import processes

KEY = "sk-live-0123456789abcdef"
SCRIPT = f"""\
rules:
  - pattern: log in
    answer: I log in with {KEY}.
  - pattern: the key is
    calls: [{{bash: {{command: "echo {KEY}"}}}}]
  - pattern: .
    answer: Done.
"""


@pytest.fixture
def leaked(cli: Cli, tmp_path: Path) -> Cli:
    """A home in which a key was said, answered, used in a tool, and typed."""
    script = tmp_path / "script.yaml"
    script.write_text(SCRIPT)
    model = f"scripted:{script}"
    cli.ok("chat", "--model", model, "-p", "please log in")
    cli.ok("chat", "--model", model, "--permission", "all", "-p", f"the key is {KEY}")
    (cli.home / "history").write_text(f"\n# 2026\n+the key is {KEY}\n")
    (cli.home / "outputs" / "x").mkdir(parents=True)
    (cli.home / "outputs" / "x" / "1.txt").write_text(f"it printed {KEY}\n")
    log = cli.sessions()[0]
    log.with_name(f"{log.name}.torn-7").write_bytes(b'{"content":"' + KEY.encode())
    return cli


def purge(cli: Cli, *arguments: str, text: str = KEY) -> Ran:
    command = [str(HARKEN), "store", "purge", "--home", str(cli.home), *arguments]
    done = processes.run(command, input=text, capture_output=True, text=True, check=False)
    return Ran(done.returncode, done.stdout, done.stderr)


def holding(home: Path) -> list[str]:
    """Return the files that hold the key as it is; what the store has, as it reads."""
    found = [
        path.name
        for path in home.rglob("*")
        if path.is_file() and KEY.encode() in path.read_bytes()
    ]
    store = SqliteStore(home / "store.db")
    found += [f"store: {t.name}" for t in store.iter_objects() if KEY.encode() in t.body]
    notes = (one.notes for one in store.commits(store.newest_commits(1000)).values())
    found += [f"summary: {one.summary}" for one in notes if KEY in one.summary]
    store.close()
    return found


def test_the_key_is_nowhere_and_the_sessions_go_on(leaked: Cli, tmp_path: Path) -> None:
    assert {"history", "1.txt"} <= {*holding(leaked.home)}
    done = purge(leaked, "--yes", "--reason", "it leaked")
    assert done.code == 0, done
    assert "Purged from" in done.out
    assert "Revoke the secret" in done.err
    assert KEY not in done.out + done.err
    assert holding(leaked.home) == []
    for log in leaked.sessions():
        assert verify(log) == []
    assert leaked.ok("store", "fsck").out.endswith("intact\n")
    told = "".join(leaked.ok("view", log.stem, "timeline").out for log in leaked.sessions())
    assert "I log in with [purged]." in told
    first = leaked.sessions()[0].stem
    leaked.ok("chat", "--resume", first, "--model", f"scripted:{tmp_path}/script.yaml", "-p", "ok")
    assert purge(leaked, "--yes").out == "The text was not found.\n"


def test_a_dry_run_lists_the_places_and_changes_nothing(leaked: Cli) -> None:
    before = sorted(holding(leaked.home))
    done = purge(leaked, "--dry-run")
    assert done.code == 0
    assert KEY not in done.out + done.err
    for place in ("transcript_entry", "part", "history", "1.txt", "summary", "torn-7"):
        assert place in done.out, place
    assert sorted(holding(leaked.home)) == before


def test_without_somebody_to_ask_nothing_is_done(leaked: Cli) -> None:
    before = sorted(holding(leaked.home))
    done = purge(leaked)
    assert (done.code, done.out) == (2, "")
    assert "--yes" in done.err
    assert sorted(holding(leaked.home)) == before


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ("", "stdin is empty"),
        ("abc", "must have at least"),
        ("[purged]", "which replaces purged text"),
        ("transcript_entry", "log's structure"),
    ],
)
def test_what_cannot_be_purged_is_refused_in_a_line(leaked: Cli, text: str, because: str) -> None:
    before = sorted(holding(leaked.home))
    done = purge(leaked, "--yes", text=text)
    assert (done.code, done.out) == (2, "")
    assert because in done.err
    assert done.err.count("\n") == 1
    assert sorted(holding(leaked.home)) == before


def test_a_file_of_the_persons_own_is_named_and_left(leaked: Cli) -> None:
    agents = leaked.home / "agents"
    agents.mkdir()
    (agents / "x.md").write_text(f"Use {KEY}.")
    done = purge(leaked, "--yes")
    assert done.code == 1
    assert f"still in {agents / 'x.md'}" in done.err
    assert holding(leaked.home) == ["x.md"]


def test_a_person_is_asked_and_the_key_is_not_shown(leaked: Cli) -> None:
    command = ["store", "purge", "--home", str(leaked.home)]
    for answer, stays in (("n", True), ("y", False)):
        terminal = pexpect.spawn(str(HARKEN), command, encoding="utf-8", timeout=30)
        screen = io.StringIO()
        terminal.logfile_read = screen
        terminal.expect("The text to remove:")
        terminal.sendline(KEY)
        terminal.expect(r"Purge it from \d+ places")
        terminal.sendline(answer)
        terminal.expect(pexpect.EOF)
        terminal.close()
        assert KEY not in screen.getvalue()
        assert bool(holding(leaked.home)) == stays
        assert terminal.exitstatus == (130 if stays else 0)


def test_the_text_is_never_an_argument(leaked: Cli) -> None:
    assert "Got unexpected extra argument" in leaked.refused("store", "purge", KEY)


def test_a_home_without_a_store_is_purged_too(cli: Cli, tmp_path: Path) -> None:
    cli.home.mkdir(parents=True, exist_ok=True)
    (cli.home / "history").write_text(f"+{KEY[:9]}\n+{KEY[9:]}\n")
    (cli.home / "history").chmod(0o600)
    done = purge(cli, "--yes", text=f"{KEY[:9]}\n{KEY[9:]}\n")
    assert done.code == 0, done
    assert (cli.home / "history").read_text() == "+[purged]\n"
    assert oct((cli.home / "history").stat().st_mode & 0o777) == "0o600"


def test_a_key_in_a_title_goes_and_imported_sessions_stay(cli: Cli, tmp_path: Path) -> None:
    said = {"role": "user", "content": f"the key is {KEY}"}
    ids = {"uuid": "a1", "parentUuid": None, "sessionId": "s1", "timestamp": "2026-01-01T00:00:00Z"}
    title = {"type": "summary", "summary": f"Key {KEY}", "leafUuid": "a1"}
    source = tmp_path / "x.jsonl"
    lines = [{"type": "user", "message": said, **ids}, title]
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    cli.ok("import", source)
    assert KEY.encode() in (cli.home / "index.db").read_bytes()
    assert purge(cli, "--yes").code == 0
    assert [path for path in cli.home.rglob("*") if holds(path)] == []
    assert cli.ok("store", "fsck").code == 0
    source.unlink()
    assert "Key [purged]" in cli.ok("sessions").out
    assert "the key is [purged]" in cli.ok("view", "s1", "timeline").out
    assert "Key [purged]" in cli.ok("stats", "s1").out
    assert [path for path in cli.home.rglob("*") if holds(path)] == []


def holds(path: Path) -> bool:
    return path.is_file() and KEY.encode() in path.read_bytes()
