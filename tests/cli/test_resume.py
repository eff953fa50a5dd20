"""`harken resume`: any conversation goes on in any client, from any message."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from harken.capture.resume.clients import RUNTIMES
from harken.formats.runtimes.registry import find_runtime_format
from harken.session.session import Session
from tests.cli.kit import Cli, start
from tests.toy_clients import install
from tests.unit.formats.native_kit import read_context, read_steps
from tests.unit.formats.transcript_kit import Transcript, text_block, tool_use_block

SESSION = "5e551011-0000-4000-8000-000000000001"


@pytest.fixture
def jill(cli: Cli, tmp_path: Path) -> Path:
    """The home of a person who runs clients."""
    home = tmp_path / "jill"
    cli.environ = {name: str(home / f".{name}") for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME")}
    cli.environ |= {"GEMINI_CLI_HOME": str(home), "PI_CODING_AGENT_DIR": str(home / ".pi")}
    return home


@pytest.fixture
def worked(tmp_path: Path) -> Path:
    folder = tmp_path / "the cafe"
    folder.mkdir()
    return folder


@pytest.fixture
def talk(cli: Cli, tmp_path: Path, worked: Path) -> Path:
    """A session of Claude Code, imported: 1 prompt, 2 call, 3 result, 4 answer, 5 prompt, 6 answer."""
    made = Transcript(SESSION, shared={"cwd": str(worked)})
    made.user("Is the cafe open?")
    made.answer(text_block("I look."), tool_use_block("t1", where="inside"))
    made.result("t1", "It is open.")
    made.answer(text_block("Yes."))
    made.user("And tea?")
    made.answer(text_block("Tea, too."))
    path = tmp_path / "talk.jsonl"
    path.write_bytes(made.data)
    cli.ok("import", path)
    return path


def said(file: Path, runtime: str) -> list[str]:
    """Return what is said in a session that was written."""
    native = find_runtime_format(runtime)
    assert native is not None
    steps, reading = read_steps(native, file)
    entries = read_context(steps, next(iter(reading.tips.values())))
    return [str(entry.message.content) for entry in entries]


def written(err: str) -> Path:
    """Return the file that a command says it wrote."""
    return Path(err.splitlines()[-1].partition(" in ")[2])


@pytest.mark.parametrize("runtime", [one for one in RUNTIMES if one != "opencode"])
@pytest.mark.usefixtures("jill", "talk")
def test_a_session_is_written_for_a_client_and_the_command_is_printed(
    cli: Cli, worked: Path, runtime: str
) -> None:
    ran = cli.ok("resume", SESSION, "--client", runtime, "--print")
    file = written(ran.err)
    assert f"working folder: {worked}" in ran.err
    (line,) = ran.out.splitlines()
    place, _, command = line.partition(" && ")
    assert shlex.split(place) == ["cd", str(worked)]
    words = shlex.split(command)
    assert words[0] == runtime
    assert words[-1][:8] in file.name or words[-1] == str(file)
    assert "Tea, too." in said(file, runtime)[-1]
    assert "all 6 messages are transferred\n" in ran.err


@pytest.mark.usefixtures("jill")
def test_the_session_that_it_was_stays_and_each_time_there_is_a_new_one(
    cli: Cli, talk: Path
) -> None:
    before = talk.read_bytes()
    files = {written(cli.ok("resume", talk, "--client", "claude", "--print").err) for _ in range(3)}
    assert len(files) == 3
    assert talk.read_bytes() == before


@pytest.mark.parametrize(
    ("at", "last"), [("4", "Yes."), ("-3", "Yes."), ("1", "Is the cafe open?")]
)
@pytest.mark.usefixtures("jill", "talk")
def test_it_goes_on_from_any_message(cli: Cli, at: str, last: str) -> None:
    ran = cli.ok("resume", SESSION, "--client", "claude", "--print", "--at", at)
    assert said(written(ran.err), "claude")[-1] == last


@pytest.mark.usefixtures("jill", "talk")
def test_a_message_has_the_number_that_ctx_cat_shows_and_its_native_id(cli: Cli) -> None:
    ctx = cli.ok("ctx", "log", "-n", "1", "--json").json[0]["id"]
    shown = cli.ok("ctx", "cat", ctx).out
    assert "#5 user\nAnd tea?" in shown
    for at in ("5", "5e551011-0000-4000-8000-000000000005"):
        ran = cli.ok("resume", ctx[:16], "--client", "codex", "--print", "--at", at)
        assert said(written(ran.err), "codex")[-1] == "And tea?"
    assert "message '7' not found; existing messages: 1 to 6" in cli.refused(
        "resume", ctx, "--client", "codex", "--print", "--at", "7"
    )


@pytest.mark.usefixtures("jill", "talk")
def test_it_works_where_it_is_told_else_where_the_session_did_else_here(
    cli: Cli, worked: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    options = ("resume", SESSION, "--client", "claude", "--print")
    told = cli.ok(*options, "--folder", other)
    assert told.out.startswith(f"cd {other} && claude --resume ")
    worked.rmdir()
    gone = cli.ok(*options)
    assert gone.out.startswith("claude --resume ")
    assert f"working folder: {Path.cwd()} ({worked} does not exist)" in gone.err


@pytest.mark.usefixtures("jill")
def test_a_folder_that_nothing_can_be_called_is_not_here(cli: Cli, tmp_path: Path) -> None:
    session = Transcript(shared={"cwd": "/" + "cafe" * 2000})
    session.user("Is the cafe open?")
    session.answer(text_block("It is."))
    file = tmp_path / "session.jsonl"
    file.write_bytes(session.data)
    cli.ok("import", file)
    ran = cli.ok("resume", file, "--client", "claude", "--print")
    assert ran.out.startswith("claude --resume ")


@pytest.mark.usefixtures("jill", "talk")
def test_a_model_is_passed_on(cli: Cli) -> None:
    ran = cli.ok("resume", SESSION, "--client", "claude", "--print", "--model", "claude-haiku-4-5")
    assert ran.out.endswith(" --model claude-haiku-4-5\n")


@pytest.mark.usefixtures("jill", "talk")
def test_a_folder_with_an_odd_name_stays_on_one_line(cli: Cli, tmp_path: Path) -> None:
    odd = tmp_path / "two\nlines\x1b[31m"
    odd.mkdir()
    ran = cli.ok("resume", SESSION, "--client", "pi", "--print", "--folder", odd)
    assert len(ran.out.splitlines()) == 1
    assert "\x1b" not in ran.out + ran.err
    assert r"two\x0alines\x1b[31m" in ran.out


@pytest.mark.usefixtures("talk")
def test_a_client_that_is_not_installed_says_how_to_get_it(cli: Cli) -> None:
    cli.environ = {"PATH": "/nowhere"}
    for runtime in RUNTIMES:
        text = cli.refused("resume", SESSION, "--client", runtime)
        assert f"`{runtime}` not found in PATH; install it with `npm install -g " in text


def test_what_there_is_not_is_told_in_one_line(cli: Cli, talk: Path) -> None:
    del talk
    assert "session or commit 'nothing' not found" in cli.refused(
        "resume", "nothing", "--client", "pi"
    )
    assert "not found" in cli.refused("resume", "ctx-00", "--client", "pi", "--print")
    assert "claude" in cli.refused("resume", SESSION, "--client", "nobody")


def called(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "called.json").read_text())
    return found


@pytest.mark.usefixtures("talk")
def test_the_client_takes_the_place_of_harken(cli: Cli, tmp_path: Path, worked: Path) -> None:
    """It gets arguments, folder, environment and terminal, and its exit code is passed on."""
    home = tmp_path / "jill"
    home.mkdir()
    programs = os.path.relpath(install(tmp_path / "bin", "claude", "deaf"))  # from here on
    environ = {
        "HOME": str(home),
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "CLAUDE_CONFIG_DIR": "",
    }
    ran = start(cli.home, "resume", SESSION, "--client", "claude", **environ)
    assert ran.returncode == 1
    assert ran.stderr.endswith(b"I do not hear you.\n")
    asked = called(home)
    assert asked["folder"] == asked["environ"]["PWD"] == str(worked)
    (_, session) = asked["words"]
    (file,) = (home / ".claude" / "projects").glob(f"*/{session}.jsonl")
    assert said(file, "claude")[-1] == "Tea, too."


@pytest.mark.usefixtures("jill", "talk")
def test_in_harken_it_is_a_chat_from_a_commit(cli: Cli, script: str, worked: Path) -> None:
    ran = cli.ok("resume", SESSION, "--client", "harken", "--print", "--at", "5")
    line = ran.out.strip()
    assert line.startswith(f"cd {shlex.quote(str(worked))} && ")
    words = shlex.split(line.partition(" && ")[2])
    assert words[-3:-1] == ["chat", "--from-commit"]
    assert cli.ok("ctx", "cat", words[-1]).out.rstrip().endswith("And tea?")
    cli.ok("chat", "--from-commit", words[-1], "--model", script, "-p", "hello")


@pytest.mark.usefixtures("jill")
def test_a_session_of_harken_goes_on_elsewhere_from_the_last_commit_of_its_first_agent(
    cli: Cli, script: str
) -> None:
    cli.ok("chat", "--model", script, "-p", "make Ann")
    (log,) = cli.sessions()
    for name in (log.stem, log.stem[:-2], "latest"):
        ran = cli.ok("resume", name, "--client", "claude", "--print")
        assert said(written(ran.err), "claude")[-1] == "Ann wants tea."


@pytest.mark.usefixtures("jill", "talk")
def test_a_session_of_harken_without_a_commit_goes_on_in_harken_only(cli: Cli) -> None:
    sessions = cli.home / "sessions"
    sessions.mkdir(exist_ok=True)
    Session(sessions / "empty.jsonl").close()
    said_ = cli.refused("resume", "empty", "--client", "claude", "--print")
    assert "has no commit" in said_
    assert "chat --resume empty" in said_


@pytest.mark.usefixtures("jill", "talk")
def test_the_latest_is_an_imported_session_where_there_is_none_of_harken(cli: Cli) -> None:
    ran = cli.ok("resume", "latest", "--client", "claude", "--print")
    assert said(written(ran.err), "claude")[-1] == "Tea, too."


def test_a_conversation_of_harken_goes_on_elsewhere(cli: Cli, jill: Path, script: str) -> None:
    cli.ok("chat", "--model", script, "-p", "make Ann")
    ctx = cli.ok("ctx", "log", "-n", "1", "--json").json[0]["id"]
    for runtime in ("claude", "codex"):
        ran = cli.ok("resume", ctx, "--client", runtime, "--print")
        file = written(ran.err)
        assert file.is_relative_to(jill)
        assert said(file, runtime)[-1] == "Ann wants tea."
