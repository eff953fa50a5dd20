"""`harken view SESSION --follow`: what is new, group by group, until the session ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harken.cli.commands.view.conversation_text import ConversationPrinter, conversation_text
from harken.cli.commands.view.follow import PrintEvents, print_new_events, print_perspective
from harken.errors import NameNotFound
from harken.session.log.checksum import has_more
from harken.session.session import Session
from harken.views.viewer import SessionFollower, SessionViewer
from tests.cli.kit import HARKEN, Cli
from tests.forks import processes
from tests.session_kit import create_agent, log_answer, log_user_message
from tests.unit.views.log_builder import LogBuilder


def iter_group_ends(data: bytes) -> Iterator[int]:
    """Yield the offsets of the ends of groups."""
    end = 0
    for line in data.splitlines(keepends=True):
        end += len(line)
        if not has_more(line):
            yield end


@pytest.mark.parametrize("view", ["", "conversation", "dialog Jack Jill", "perspective Jill"])
def test_of_an_ended_session_it_shows_the_same_as_without_it(demo: Cli, view: str) -> None:
    followed = demo.ok("view", "demo", *view.split(), "--follow")
    assert followed.out == demo.ok("view", "demo", *view.split()).out
    assert followed.err == ""


@pytest.mark.parametrize("full", [False, True])
def test_a_conversation_is_the_same_when_its_groups_arrive_one_by_one(
    demo: Cli, tmp_path: Path, full: bool
) -> None:
    log = demo.sessions()[0]
    data, path = log.read_bytes(), tmp_path / "growing.jsonl"
    conversation, text = ConversationPrinter("demo", colour=False, full=full), ""
    first, *ends = [end for end in iter_group_ends(data) if b"agent_created" in data[:end]]
    path.write_bytes(data[:first])
    follower = SessionFollower(path)
    for end in [first, *ends]:
        path.write_bytes(data[:end])
        text += "".join(conversation.add(follower.read(), 80))
    assert follower.has_ended
    complete = "".join(conversation_text(SessionViewer(log), 80, colour=False, full=full))
    title, _, body = complete.partition("\n")
    assert "4 agents" in title
    assert text.partition("\n")[2] == body


def test_objects_are_printed_one_on_a_line(demo: Cli) -> None:
    for view in ("perspective Jill", "dialog Jack Jill"):
        out = demo.ok("view", "demo", *view.split(), "--follow", "--json").out
        rows = [json.loads(line) for line in out.splitlines()]
        assert rows == demo.ok("view", "demo", *view.split(), "--json").json
    lines = demo.ok("view", "demo", "--follow", "--json").out.splitlines()
    assert [json.loads(line) for line in lines] == demo.ok("view", "demo", "--json").json


def test_new_messages_are_printed_when_they_are_logged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed: list[str] = []
    with Session(tmp_path / "tea.jsonl") as session:

        def add_message(_wait_s: float) -> None:
            printed.append(capsys.readouterr().out)
            match len(printed):
                case 1:
                    create_agent(session)
                case 2:
                    log_user_message(session, "agent_001", "Tea?")
                case 3:
                    pass  # Nothing is new.
                case 4:
                    log_answer(session, "agent_001", "Yes.")
                case _:
                    session.end("test")

        def make(viewer: SessionViewer) -> PrintEvents:
            return print_perspective(viewer, session.agent("agent_001").id, as_json=False)

        print_new_events(SessionFollower(session.path), make, add_message)
    assert printed == ["", "", "[Heard]: Tea?\n", "", "[Said]: Yes.\n"]


def test_answer_is_printed_when_its_hook_has_decided(play: LogBuilder) -> None:
    guard = play.create_agent("Guard", by=play.root, relation="hook")
    follower = SessionFollower(play.session.path)
    conversation = ConversationPrinter("play", colour=False, holds_back=True)

    def read() -> str:
        return "".join(conversation.add(follower.read(), 80))

    read()
    answer = play.says(play.root, "It is 1234.")
    play.asks_hook(guard, "response", answer)
    assert read() == ""
    play.gives_verdict(guard, "response", answer, "REWRITE: It is redacted.")
    assert read().strip() == "hook Guard rewrites the answer"
    play.gives_answer(play.root, answer)
    assert read().strip() == "It is redacted."


def test_an_interrupt_ends_it(tmp_path: Path) -> None:
    """The session is written and resumed by this process."""
    with Session(tmp_path / "tea.jsonl") as session:
        agent = create_agent(session)
        log_user_message(session, agent, "Tea?")
        process = processes.start(
            [HARKEN, "view", session.path, "--follow"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "HARKEN_HOME": str(tmp_path / "h"), "PYTHONUNBUFFERED": "1"},
        )
        assert process.stderr is not None
        assert process.stderr.readline() == b"tea: following; Ctrl-C ends it\n"
        log_answer(session, agent, "Yes, with milk.")
        assert process.stdout is not None
        while b"Yes, with milk." not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out.strip(), err) == (0, b"", b"")


def test_it_says_that_no_process_writes_the_session(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Session(tmp_path / "tea.jsonl") as session:
        create_agent(session)

    def resume(_wait_s: float) -> None:
        assert capsys.readouterr().err == (
            "tea: no process writes it; following a resume; Ctrl-C ends it\n"
        )
        with Session.load(session.path) as resumed:
            resumed.end("test")

    print_new_events(SessionFollower(session.path), lambda _viewer: lambda _events: None, resume)


@pytest.fixture
def play(tmp_path: Path) -> Iterator[LogBuilder]:
    with LogBuilder(tmp_path) as play:
        yield play


def follow_agent(session: Session, name: str, wait: Callable[[float], None]) -> None:
    """Follow the perspective of the agent with this name."""

    def make(viewer: SessionViewer) -> PrintEvents:
        return print_perspective(viewer, viewer.resolve_agent(name), as_json=False)

    print_new_events(SessionFollower(session.path), make, wait)


def test_it_waits_for_an_agent_that_is_created_later(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    waits: list[str] = []
    with Session(tmp_path / "tea.jsonl") as session:
        create_agent(session, name="main")

        def continue_session(_wait_s: float) -> None:
            waits.append(capsys.readouterr().err)
            if len(waits) == 1:
                agent = create_agent(session, cause="msg_001", name="Ann")
                log_user_message(session, agent, "Tea?")
            else:
                session.end("test")

        follow_agent(session, "Ann", continue_session)
    hint = "tea: agent 'Ann' not found; existing agents: main (agent_001); waiting for it"
    assert waits == [f"{hint}; Ctrl-C ends it\n", ""]


def test_a_name_that_never_exists_is_an_error(tmp_path: Path) -> None:
    with Session(tmp_path / "tea.jsonl") as session:
        create_agent(session, name="main")
        with pytest.raises(NameNotFound, match="'Ann' not found"):
            follow_agent(session, "Ann", lambda _wait_s: session.end("test"))
    with pytest.raises(NameNotFound, match="'Ann' not found"):
        follow_agent(session, "Ann", lambda _wait_s: pytest.fail("it waited for nothing"))


def test_an_unknown_name_in_a_session_that_is_not_written_is_an_error_at_once(
    tmp_path: Path,
) -> None:
    with Session(tmp_path / "tea.jsonl") as session:
        create_agent(session, name="main")
    with pytest.raises(NameNotFound, match="'Ann' not found"):
        follow_agent(session, "Ann", lambda _wait_s: pytest.fail("no process writes it"))


def test_only_a_log_can_be_followed(cli: Cli, script: str) -> None:
    cli.ok("chat", "--model", script, "-p", "hello")
    commit = cli.ok("ctx", "log", "latest", "--json").json[0]["id"]
    assert "a commit, not a session" in cli.refused("view", commit, "--follow")


def test_the_option_stands_after_the_name_of_the_view(demo: Cli) -> None:
    error = demo.refused("view", "--follow", "demo", "dialog", "Jill")
    assert "put --follow after the view: dialog --follow" in error
