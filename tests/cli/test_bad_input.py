"""What a person can get wrong, or a disk: one line that says what to do, exit code 2, nothing lost."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harken.core.event_types.spec import AgentSpec
from harken.session.session import Session
from harken.session.verify import verify
from tests.cli.kit import SCRIPT, Cli, one_line, start

DIALECTS = Path(__file__).parents[1] / "fixtures" / "dialects"

NEWER = {
    "event_type": "session_started",
    "message_id": "msg_000",
    "time": "2031-01-31T12:00:00.000000Z",
    "session_id": "later",
    "schema_version": 99,
}


def bad_file(kind: str) -> Path:
    """Make something in this folder that is no log that can be used."""
    path = Path("bad.jsonl")
    if kind == "folder":
        path.mkdir()
    elif kind != "missing":
        contents = {
            "empty": b"",
            "binary": bytes(range(256)) * 64,
            "text": b"Dear diary,\n",
            "newer": json.dumps(NEWER).encode() + b"\n",
        }
        path.write_bytes(contents[kind])
    return path


KINDS = {
    "missing": "bad.jsonl: session log not found; `harken sessions` lists sessions",
    "empty": "bad.jsonl: is empty: it has no event; start a new session",
    "folder": "bad.jsonl: is a folder; name a session log (a .jsonl file)",
    "binary": "bad.jsonl: not a session log",
    "text": "bad.jsonl: not a session log: the first line is not a JSON object",
    "newer": (
        "bad.jsonl: schema version 99 is not supported (this Harken supports up "
        "to 2); upgrade Harken"
    ),
}

COMMANDS = {
    "view": ["view", "bad.jsonl", "tree"],
    "chat": ["chat", "--resume", "bad.jsonl", "-p", "hello"],
    "check": ["sessions", "check", "bad.jsonl"],
    "repair": ["sessions", "repair", "bad.jsonl", "--out", "new.jsonl"],
    "replay": ["chat", "--model", "replay:bad.jsonl", "-p", "hello"],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_is_no_log_is_refused_and_left_as_it_is(
    cli: Cli, command: str, kind: str
) -> None:
    path = bad_file(kind)
    before = path.read_bytes() if path.is_file() else None
    assert KINDS[kind] in cli.refused(*COMMANDS[command])
    assert (path.read_bytes() if path.is_file() else None) == before
    assert [child.name for child in Path().iterdir()] == ([path.name] if path.exists() else [])
    assert cli.sessions() == []


def test_an_older_log_is_not_resumed_but_how_to_is_said(cli: Cli) -> None:
    old = Path("old.jsonl")
    shutil.copy(DIALECTS / "s0.jsonl", old)
    before = old.read_bytes()
    text = cli.refused("chat", "--resume", old, "-p", "hello")
    assert f"`harken sessions repair {old.absolute()} --out NEW`" in text
    assert old.read_bytes() == before


@pytest.mark.parametrize(
    "arguments",
    [["view", "demo", "tree"], ["chat", "--resume", "demo", "-p", "go on"]],
    ids=["view", "chat"],
)
def test_a_damaged_log_is_named_with_line_and_byte_and_what_to_do(
    demo: Cli, arguments: list[str]
) -> None:
    [log] = demo.sessions()
    damaged = log.read_bytes().replace(b"cafe", b"cave", 1)
    log.write_bytes(damaged)
    text = demo.refused(*arguments)
    assert "corrupted at line 3, byte " in text
    assert "`harken sessions check`" in text
    assert "`harken sessions repair`" in text
    assert log.read_bytes() == damaged


def test_resuming_an_unknown_session_lists_those_that_exist(demo: Cli) -> None:
    assert demo.refused("chat", "--resume", "dmeo", "-p", "go on") == (
        "session or commit 'dmeo' not found; existing sessions or commits: demo"
    )


def test_there_may_be_no_session_to_continue(cli: Cli) -> None:
    text = cli.refused("chat", "--continue", "-p", "hello")
    assert "no sessions; `harken demo` creates one" in text


@pytest.mark.parametrize(
    ("model", "text"),
    [
        ("gpt-9", "model 'gpt-9' not found; a model is `scripted:FILE` (rules in YAML)"),
        ("scripted:", "model 'scripted:' not found; a model is"),
        ("replay:", "model 'replay:' not found; a model is"),
        ("scripted:none.yaml", "none.yaml: cannot be read (No such file or directory); name a"),
        ("scripted:.", "cannot be read (Is a directory); name a YAML file"),
        ("scripted:bad.yaml", "bad.yaml, line 2: a rule has no key 'anser'; it has agent, "),
        ("scripted:worse.yaml", "worse.yaml, line 3: not YAML: "),
        (
            "replay:nobody",
            "session or commit 'nobody' not found; existing sessions or commits: demo",
        ),
        ("replay:no/such.jsonl", "no/such.jsonl: session log not found; `harken sessions`"),
    ],
)
def test_a_model_that_cannot_be_used_is_told_before_anything_is_made(
    demo: Cli, model: str, text: str
) -> None:
    Path("bad.yaml").write_text("rules:\n  - anser: Hi\n")
    Path("worse.yaml").write_text("rules:\n  - answer: Hi\n   - answer: Ho\n")
    before = demo.sessions()[0].read_bytes()
    assert text in demo.refused("chat", "--model", model, "-p", "hello")
    assert text in demo.refused("chat", "--resume", "demo", "--model", model, "-p", "hello")
    assert [path.read_bytes() for path in demo.sessions()] == [before]


def test_a_new_session_needs_a_model(cli: Cli) -> None:
    assert "no model configured: pass --model NAME" in cli.refused("chat", "-p", "hello")


def test_a_model_that_is_gone_is_told_before_anything_is_said(cli: Cli, script: str) -> None:
    cli.ok("chat", "--model", script, "-p", "hello")
    [log] = cli.sessions()
    before = log.read_bytes()
    path = Path(script.removeprefix("scripted:"))
    path.unlink()
    text = cli.refused("chat", "--continue", "-p", "hello")
    assert "cannot be read" in text
    assert "choose another model with --model" in text
    assert log.read_bytes() == before
    Path("other.yaml").write_text(SCRIPT)
    cli.ok("chat", "--continue", "--model", "scripted:other.yaml", "-p", "hello")


def test_a_hook_that_only_a_program_knows_is_told_before_anything_is_said(
    cli: Cli, script: str
) -> None:
    cli.ok("chat", "--model", script, "-p", "hello")
    [log] = cli.sessions()
    with Session(log) as session:
        root = session.agent("agent_001")
        hook = session.allocate_agent_id()
        spec = AgentSpec(kind="somebodys")
        session.log_agent_created(hook, root.birth, "guard", relation="hook", spec=spec)
    before = log.read_bytes()
    text = cli.refused("chat", "--continue", "-p", "hello")
    assert text.startswith("registered agent class 'somebodys' not found")
    assert "resume with the program that registers it" in text
    assert log.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["frobnicate"], "No such command 'frobnicate'; see `harken --help`"),
        (["--frob"], "No such option '--frob'; see `harken --help`"),
        (["store"], None),
        (
            ["sessions", "frob"],
            ("commands: check, repair, compress, decompress, rename; see `harken sessions --help`"),
        ),
        (["sessions", "check"], "Missing argument 'SESSION'; see `harken sessions check --help`"),
        (["chat", "--resume"], "--resume without a session needs a terminal to show a list"),
        (["chat", "--resume", "x", "--continue"], "--resume and --continue cannot be combined"),
        (["demo", "extra"], "unexpected extra argument (extra); see `harken demo --help`"),
    ],
)
def test_a_command_line_that_is_wrong_says_what_there_is(
    cli: Cli, arguments: list[str], text: str | None
) -> None:
    if text is None:
        assert "Usage: harken store" in cli(*arguments).err
    else:
        assert text in cli.refused(*arguments)


@pytest.mark.parametrize("command", ["sessions", "demo", "stats"])
def test_device_as_home_is_refused(cli: Cli, command: str) -> None:
    text = "/dev/null: not a folder; choose another home with --home or HARKEN_HOME"
    assert cli.refused("--home", "/dev/null", command) == text
    assert cli.refused(command, "--home", "/dev/null") == text


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["chat", "--memory", "/dev/null", "-p", "hello"], "'/dev/null' is not a folder"),
        (
            ["rerun", "demo", "--at", "3", "--permission", "all"],
            "--permission is for live tools: add --live",
        ),
    ],
)
def test_value_that_would_have_no_effect_is_refused(
    demo: Cli, arguments: list[str], text: str
) -> None:
    assert text in demo.refused(*arguments)


def test_permission_rule_for_an_unknown_tool_is_reported(cli: Cli, script: str) -> None:
    cli.home.mkdir()
    rules = ["bsh(git status*)", "main:Read", "fetch", "wake_me", "task", "mcp__docs__*", "*", "r*"]
    (cli.home / "config.toml").write_text(f"[permissions]\nallow = {rules}\n")
    ran = cli.ok("chat", "--model", script, "-p", "hello")
    assert [line for line in ran.err.splitlines() if "permission rule" in line] == [
        "permission rule 'bsh(git status*)': there is no tool 'bsh'; did you mean 'bash'?",
        "permission rule 'main:Read': there is no tool 'Read'; did you mean 'read'?",
    ]


def test_missing_folder_below_a_project_is_not_trusted(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Be kind.")
    missing = tmp_path / "nope"
    assert cli.refused("trust", missing, "--yes") == f"{missing}: no such folder"
    assert cli.refused("trust", missing, "--dry-run") == f"{missing}: no such folder"


@pytest.mark.parametrize("home", ["below-a-file/home", "/proc/no/home"])
def test_a_home_that_cannot_be_made_is_refused(
    cli: Cli, script: str, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    Path("below-a-file").write_text("I am no folder")
    monkeypatch.setenv("HARKEN_HOME", home)
    for arguments in (["demo"], ["chat", "--model", script, "-p", "hello"]):
        text = cli.refused(*arguments)
        assert text.startswith(f"{home}: the home folder cannot be created: ")
        assert text.endswith("choose another with --home or HARKEN_HOME")
    assert Path("below-a-file").read_text() == "I am no folder"


def test_a_folder_that_cannot_be_written_is_refused(cli: Cli, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "sessions").mkdir(parents=True)
    (home / "sessions").chmod(0o500)
    if os.geteuid() == 0:
        (home / "sessions").rmdir()
        (home / "sessions").symlink_to("/proc")
    text = cli.refused("demo")
    assert "demo.jsonl: write failed: " in text


@pytest.fixture
def holder(demo: Cli) -> Iterator[int]:
    """Another process that has the demo's log open for writing; its pid."""
    code = (
        "import sys; from harken.session.session import Session; s = Session(sys.argv[1]); "
        "print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, demo.sessions()[0]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process.pid
        process.communicate()


def test_a_log_that_another_process_holds_is_refused_with_its_pid(demo: Cli, holder: int) -> None:
    before = demo.sessions()[0].read_bytes()
    text = demo.refused("chat", "--resume", "demo", "-p", "go on")
    assert f"locked by process {holder}, which writes it; end that process, or use" in text
    assert demo.sessions()[0].read_bytes() == before
    demo.ok("view", "demo", "tree")  # looking is allowed
    demo.ok("sessions", "check", "demo")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 512 KB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount a small disk")
    command = ["mount", "-t", "tmpfs", "-o", "size=512k,mode=700", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody mount")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def fill(folder: Path, *, spare: int) -> Path:
    """Fill a disk but for some bytes; return the file that fills it."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    os.truncate(filler, filler.stat().st_size - spare)
    return filler


@pytest.mark.parametrize("spare", [0, 4096, 8192])
def test_a_full_disk_loses_nothing_and_the_session_goes_on_when_there_is_room(
    small_disk: Path, script: str, spare: int
) -> None:
    begun = start(small_disk, "chat", "--model", script, "-p", "hello")
    assert begun.returncode == 0
    [log] = (small_disk / "sessions").glob("*.jsonl")
    before = log.read_bytes()
    filler = fill(small_disk, spare=spare)
    ran = start(small_disk, "chat", "--continue", stdin=f"hello {'x' * 3000}\n" * 10)
    assert ran.returncode == 2
    text = one_line(ran.stderr.decode().splitlines(keepends=True)[-1])
    assert "write failed: " in text
    assert "free disk space" in text  # whichever had no room first, the log or the store
    acknowledged = ran.stdout.decode().count("Hi there.")
    filler.unlink()
    again = start(small_disk, "chat", "--continue", "-p", "hello")
    assert (again.returncode, again.stdout) == (0, b"Hi there.\n"), again
    assert log.read_bytes().startswith(before)
    assert verify(log) == []
    assert log.read_text().count('"content":"Hi there."') >= 1 + acknowledged + 1


def test_a_disk_without_room_for_a_new_session_is_told(small_disk: Path, script: str) -> None:
    (small_disk / "sessions").mkdir()
    fill(small_disk, spare=0)
    ran = start(small_disk, "chat", "--model", script, "-p", "hello")
    assert ran.returncode == 2
    assert "free disk space or repair the disk" in one_line(ran.stderr.decode())


def test_an_output_that_takes_nothing_is_told(demo: Cli) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("there is no /dev/full here")
    command = f"{Path(sys.executable).with_name('harken')} view demo raw >{full}"
    ran = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "No space left" in one_line(ran.stderr)


@pytest.mark.parametrize("command", [("chat", "-p", "hello"), ("models",), ("trust",)])
def test_a_working_folder_that_is_gone_is_told(cli: Cli, command: tuple[str, ...]) -> None:
    Path.cwd().rmdir()
    assert cli.refused(*command).startswith(
        "the working folder was deleted or moved; change to an existing folder"
    )
