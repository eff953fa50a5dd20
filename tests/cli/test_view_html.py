"""`harken view SESSION --html FILE`: the command, the redaction, and the size of the file."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harken.cli.commands.view.html import SharedPage, build_page
from harken.config.home import Home
from harken.core.secrets.redaction import find_kind
from harken.session.session import Session
from tests.cli.kit import HARKEN, Cli
from tests.forks import processes
from tests.redaction_kit import ANTHROPIC, AWS, GITHUB
from tests.session_kit import (
    call_dict,
    create_agent,
    log_answer,
    log_request,
    log_response,
    log_tool_result,
    log_turn,
    log_user_message,
    session_options,
)
from tests.web_contents import read_contents, unpack_root

NOON_US = 1_770_000_000_000_000
HOME_PATH = "/home/ann/code"


def build(home: Path, name: str, **how: Any) -> SharedPage:
    """Return the page of a session, made at noon."""
    return build_page(Home(str(home)), name, clock=lambda: NOON_US, **how)


def write_secret_log(log: Path) -> None:
    """Write a session with credentials and home folders in each place."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with Session(log, options=session_options()) as session:
        agent = create_agent(session, relation="primary", name="main")
        log_user_message(session, agent, f"Use {AWS} in {HOME_PATH}/tea.")
        request = log_request(session, agent)
        arguments = json.dumps(
            {"path": f"{HOME_PATH}/tea.py", "env": {"password": "hunter2hunter2"}}
        )
        calls = [call_dict("c1", "look", arguments)]
        entry = session.log_transcript_entry(
            agent, {"role": "assistant", "content": f"I use {GITHUB}.", "tool_calls": calls}
        )
        log_response(session, agent, request, entry=entry)
        # The server cuts the text in the middle of the credential.
        log_tool_result(
            session, agent, "c1", "x" * (64 * 1024 - 20) + f" {ANTHROPIC} C:\\Users\\ann\\x"
        )
        request = log_request(session, agent)
        answer = log_answer(session, agent, f"Done: ~ was {HOME_PATH}; -home-ann-code.")
        log_response(session, agent, request, entry=answer)
        session.end("done")


@pytest.fixture
def secret_home(tmp_path: Path) -> Path:
    """A home with one session, `secret`."""
    write_secret_log(tmp_path / "home" / "sessions" / "secret.jsonl")
    return tmp_path / "home"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--full", "--html", "x.html"], "leave out --full"),
        (["--drafts", "--html", "x.html"], "leave out --drafts"),
        (["--follow", "--html", "x.html"], "leave out --follow"),
        (["--json", "--html", "x.html"], "leave out --json"),
        (["--no-redact"], "--no-redact requires --html FILE"),
        (["--html", "."], "is a directory"),
        (["--html", "missing/x.html"], "is not a folder"),
    ],
)
def test_options_without_a_meaning_are_refused(
    demo: Cli, arguments: list[str], reason: str
) -> None:
    assert reason in demo.refused("view", *arguments, "demo")
    assert not Path("x.html").exists()


def test_a_view_beside_the_page_is_refused(demo: Cli) -> None:
    assert "leave out tree" in demo.refused("view", "--html", "x.html", "demo", "tree")
    assert demo("view", "demo", "tree", "--html", "x.html").code == 2


def test_an_unknown_session_is_refused(demo: Cli) -> None:
    assert "nowhere" in demo.refused("view", "nowhere", "--html", "x.html")
    assert not Path("x.html").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device here is always full")
def test_a_failure_of_writing_names_the_file(demo: Cli) -> None:
    refusal = demo.refused("view", "demo", "--html", "/dev/full")
    assert "/dev/full: write failed: No space left on device" in refusal


def test_the_command_writes_the_file_and_reports_its_contents(demo: Cli) -> None:
    file = Path("demo.html")
    file.write_text("before")
    ran = demo.ok("view", "demo", "--html", file)
    assert re.fullmatch(r"demo\.html: [\d.]+ KB; open it in a browser\n", ran.out)
    assert re.search(r"^included: 4 agents, \d+ messages, \d+ model calls$", ran.err, re.MULTILINE)
    assert "redacted: none was recognized" in ran.err
    assert file.read_bytes().startswith(b"<!doctype html>")
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in Path().iterdir()] == ["demo.html"]


def test_the_page_goes_to_standard_output(secret_home: Path) -> None:
    command = [str(HARKEN), "view", "secret", "--html", "-", "--home", str(secret_home)]
    ran = processes.run(command, capture_output=True, check=True)
    assert ran.stdout.startswith(b"<!doctype html>")
    assert ran.stdout.endswith(b"</html>\n")
    assert b"redacted: anthropic-key (1), aws-key-id (1), github-token (1)" in ran.stderr


def test_a_log_elsewhere_and_a_commit_have_a_page(
    secret_home: Path, cli: Cli, tmp_path: Path
) -> None:
    log = tmp_path / "elsewhere.jsonl"
    log.write_bytes((secret_home / "sessions" / "secret.jsonl").read_bytes())
    cli.ok("view", log, "--html", "x.html")
    root = unpack_root(Path("x.html").read_bytes())
    assert root["session"]["session"]["name"] == "elsewhere"
    assert len(root["items"][0]["items"]) == 3


def test_no_credential_and_no_home_folder_is_in_the_file(secret_home: Path) -> None:
    page = build(secret_home, "secret")
    contents = read_contents(page.data)
    for text in (
        AWS,
        GITHUB,
        ANTHROPIC,
        ANTHROPIC[:12],
        "hunter2",
        "/home/ann",
        "Users",
        "-home-ann",
    ):
        assert text.encode() not in contents, text
        assert text.encode() not in page.data, text
    assert find_kind(contents) == ""
    assert b"~/code/tea" in contents
    assert page.redaction.homes.count == 1
    assert sum(page.redaction.credentials.kinds.values()) == 4
    # What models read is still as it was logged, but for the redaction.
    steps = unpack_root(page.data)["steps"]
    assert [step["details"]["is_intact"] for step in steps] == [True, True]
    about = unpack_root(page.data)["about"]
    assert about["redaction"]["credentials"] == page.redaction.credentials.kinds


def test_without_redaction_the_file_has_all_and_the_command_warns(secret_home: Path) -> None:
    page = build(secret_home, "secret", no_redact=True)
    contents = read_contents(page.data)
    for text in (AWS, GITHUB, ANTHROPIC, HOME_PATH):
        assert text.encode() in contents, text
    assert unpack_root(page.data)["about"]["redaction"] is None
    command = [
        str(HARKEN),
        "view",
        "secret",
        "--html",
        "-",
        "--no-redact",
        "--home",
        str(secret_home),
    ]
    ran = processes.run(command, capture_output=True, check=True)
    assert b"\nnot redacted: anthropic-key (1), aws-key-id (1), " in ran.stderr


def test_a_credential_in_an_id_is_refused(cli: Cli) -> None:
    log = cli.home / "sessions" / "odd.jsonl"
    log.parent.mkdir(parents=True)
    with Session(log, options=session_options()) as session:
        agent = create_agent(session, relation="primary", name="main")
        log_user_message(session, agent)
    odd = log.read_bytes().replace(b"agent_001", AWS.encode())
    log.write_bytes(re.sub(rb',"sum":"[^"]*"\}', b"}", odd))
    assert "use --no-redact" in cli.refused("view", "odd", "--html", "x.html")
    assert not Path("x.html").exists()


def test_the_events_before_damage_are_in_the_file_and_the_path_is_not(
    secret_home: Path, cli: Cli
) -> None:
    log = secret_home / "sessions" / "secret.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:3], b"damage\n", *lines[4:]]))
    ran = cli.ok("view", "secret", "--html", "x.html", "--home", secret_home)
    assert "the events after the damage are missing" in ran.err
    session = unpack_root(Path("x.html").read_bytes())["session"]
    assert (session["events"], session["damage"] is None) == (3, False)


def test_the_same_session_at_the_same_time_is_the_same_file(secret_home: Path) -> None:
    expected = build(secret_home, "secret").data
    assert build(secret_home, "secret").data == expected
    script = (
        "import sys; from tests.cli.test_view_html import build; from pathlib import Path; "
        "sys.stdout.buffer.write(build(Path(sys.argv[1]), 'secret').data)"
    )
    environ = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", script, str(secret_home)]
    assert subprocess.run(command, capture_output=True, check=True, env=environ).stdout == expected


def test_what_was_purged_is_not_in_the_file(secret_home: Path) -> None:
    assert b"Done: ~ was" in read_contents(build(secret_home, "secret").data)
    command = [str(HARKEN), "store", "purge", "--yes", "--home", str(secret_home)]
    processes.run(command, input=b"Done: ~ was\n", capture_output=True, check=True)
    contents = read_contents(build(secret_home, "secret").data)
    assert b"Done" not in contents
    assert b"[purged]" in contents


def test_a_session_with_twice_the_calls_is_about_twice_as_large(tmp_path: Path) -> None:
    sizes = []
    for turns in (125, 250):
        home = tmp_path / str(turns)
        (home / "sessions").mkdir(parents=True)
        log = home / "sessions" / "long.jsonl"
        with Session(log, options=session_options()) as session:
            agent = create_agent(session, relation="primary", name="main")
            for number in range(turns):
                log_turn(session, agent, number)
        contents = read_contents(build(home, "long").data)
        sizes.append(len(contents))
        assert len(contents) < 4 * log.stat().st_size
    assert sizes[1] < 2.2 * sizes[0]


def test_the_page_itself_is_below_a_size() -> None:
    web = Path(__file__).parents[2] / "src" / "harken" / "web"
    sizes = [(web / name).stat().st_size for name in ("share.js", "share.css", "licenses.txt")]
    assert sum(sizes) < 1_000_000
