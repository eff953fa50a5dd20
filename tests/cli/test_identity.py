"""The identity of recordings: the principal, the template and the task of a session."""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from harken.config.identity import load_identity
from harken.context import CommitIdentity
from harken.core.commits import Commit
from harken.errors import ConfigError
from harken.interactions import InteractionLogger
from harken.store.memory import MemoryStore
from harken.store.sqlite.store import SqliteStore
from tests.cli.kit import Cli
from tests.cli.test_proxy import proxy
from tests.cli.test_run import Client, a_run, conversation
from tests.proxy_kit import run_provider
from tests.unit.capture.live.client_lines import SESSION
from tests.unit.formats.transcript_kit import Transcript, text_block

OPTIONS = ("--as", "alice", "--template", "reviewer", "--ticket", "tkt-1a", "--thread", "$t:9")


def read_origin(commit: Commit) -> tuple[str, ...]:
    return commit.principal, commit.template, commit.machine, commit.ticket_id, commit.thread_id


def read_commits(home: Path) -> list[Commit]:
    """Return the commits of a home, oldest first."""
    with closing(SqliteStore(home / "store.db")) as store:
        names = store.newest_commits(100)[::-1]
        return [store.commits([name])[name].commit for name in names]


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client(tmp_path)


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    lines = Transcript()
    lines.user("Is the cafe open?")
    lines.answer(text_block("It is."))
    path = tmp_path / "projects" / "-cafe" / "a.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(lines.data)
    return path


@pytest.mark.req("S2-02")
def test_run_commits_name_principal_template_machine_ticket_and_thread(client: Client) -> None:
    a_run(client)
    assert client.run(*OPTIONS, "--", "claude", "-p", "Hello")[0] == 0
    commits = read_commits(client.home)
    expected = ("alice", "reviewer", platform.node(), "tkt-1a", "$t:9")
    assert [read_origin(commit) for commit in commits] == [expected] * 3
    assert {commit.session_id for commit in commits} == {f"claude:{SESSION}"}


def test_run_reads_its_identity_from_the_environment_and_options_take_precedence(
    client: Client,
) -> None:
    a_run(client)
    environ = {
        "HARKEN_PRINCIPAL": "bob",
        "HARKEN_TEMPLATE": "author",
        "HARKEN_TICKET": "tkt-2",
        "HARKEN_THREAD": "t2",
    }
    client.run("--ticket", "tkt-3", "--", "claude", "-p", "Hello", environ=environ)
    origins = {read_origin(commit) for commit in read_commits(client.home)}
    assert origins == {("bob", "author", platform.node(), "tkt-3", "t2")}


def test_the_default_principal_is_the_git_identity_of_the_working_folder(client: Client) -> None:
    a_run(client)
    for command in (["init", "-q"], ["config", "user.email", "ann@example.org"]):
        subprocess.run(["git", *command], cwd=client.folder, check=True)
    client.run("--", "claude", "-p", "Hello")
    assert {commit.principal for commit in read_commits(client.home)} == {"ann@example.org"}


def test_without_an_identity_a_session_is_its_own_principal(client: Client) -> None:
    a_run(client)
    client.run("--", "claude", "-p", "Hello")
    assert {commit.principal for commit in read_commits(client.home)} == {f"claude:{SESSION}"}


def test_a_second_run_of_a_session_continues_it_for_another_principal_too(client: Client) -> None:
    a_run(client)
    client.run("--as", "alice", "--", "claude", "-p", "Hello")
    last = read_commits(client.home)[-1]
    client.script("claude", f"{client.lines('lines', conversation())}\nexit 0")
    client.run("--as", "alice", "--", "claude", "-p", "Hello again")
    assert read_commits(client.home)[3].parent == last.id


def test_a_principal_with_a_slash_is_refused(cli: Cli, transcript: Path) -> None:
    assert "contains a slash" in cli.refused("import", "--as", "team/alice", transcript)
    with pytest.raises(ConfigError, match="contains a slash"):
        load_identity({}, {"HARKEN_PRINCIPAL": "a/b"})


@pytest.mark.parametrize("command", [["import"], ["watch", "--once"]])
def test_imported_commits_have_the_identity_of_the_options(
    cli: Cli, transcript: Path, command: list[str]
) -> None:
    cli.ok(*command, *OPTIONS, transcript)
    machine = "" if command == ["import"] else platform.node()
    (commit,) = read_commits(cli.home)
    assert read_origin(commit) == ("alice", "reviewer", machine, "tkt-1a", "$t:9")
    # A session that is already in the store is not imported again for another principal.
    cli.ok("import", "--as", "bob", transcript)
    assert [commit.id] == [commit.id for commit in read_commits(cli.home)]


def test_sessions_of_one_principal_stay_apart(cli: Cli, transcript: Path) -> None:
    other = Transcript(session="5e551011-0000-4000-8000-00000000000b")
    other.user("Is the bar open?")
    other.answer(text_block("It is not."))
    (transcript.parent / "b.jsonl").write_bytes(other.data)
    cli.ok("import", "--as", "alice", transcript.parent)
    rows = cli.ok("sessions", "--json").json
    assert len({row["session"] for row in rows}) == 2
    assert {row["runtime"] for row in rows} == {"claude"}


@pytest.fixture(scope="module")
def provider_url() -> Iterator[str]:
    with run_provider() as url:
        yield url


def test_commits_of_the_proxy_have_the_identity_of_its_run(
    provider_url: str, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    with proxy(home, provider_url, *OPTIONS) as running:
        running.ask("What is on the fire?")
        running.until("session")
        running.end()
    origins = {read_origin(commit) for commit in read_commits(home)}
    assert origins == {("alice", "reviewer", platform.node(), "tkt-1a", "$t:9")}


def test_commits_of_a_wrapped_client_have_the_identity_of_the_logger(
    provider_url: str, tmp_path: Path
) -> None:
    identity = CommitIdentity(principal="alice", template="reviewer", ticket_id="tkt-1a")
    store = MemoryStore()
    body = {"model": "fake", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    with InteractionLogger(folder=tmp_path, store=store, identity=identity) as logger:
        with logger.wrap(httpx.Client(base_url=provider_url)) as wrapped:
            wrapped.post("/v1/messages", content=json.dumps(body).encode())
        thread = logger.start_thread()
    commits = [stored.commit for stored in store.commits(store.newest_commits()).values()]
    assert thread
    assert {read_origin(commit) for commit in commits} == {("alice", "reviewer", "", "tkt-1a", "")}


def test_a_subagent_appends_its_name_to_the_principal() -> None:
    identity = CommitIdentity(principal="alice", template="reviewer")
    assert identity.origin("claude:5e55", "ann", template="scout").principal == "alice/ann"
    assert identity.origin("claude:5e55", "ann").template == ""
    assert CommitIdentity().origin("claude:5e55", "ann").principal == "claude:5e55/ann"


@pytest.mark.req("S2-02")
def test_chat_commits_name_principal_ticket_and_thread(cli: Cli, script: str) -> None:
    options = ("--as", "alice", "--ticket", "tkt-1a", "--thread", "$t:9")
    cli.ok("chat", "--model", script, "-p", "make Ann", *options)
    origins = {read_origin(commit) for commit in read_commits(cli.home)}
    assert all(origin[2:] == (platform.node(), "tkt-1a", "$t:9") for origin in origins)
    assert {origin[0].partition("/")[0] for origin in origins} == {"alice"}


@pytest.mark.req("S2-02")
def test_the_default_principal_of_a_chat_is_the_identity_of_git(
    cli: Cli, script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(["git", "config", "user.email", "ann@example.org"], check=True)
    cli.ok("chat", "--model", script, "-p", "make Ann")
    names = {commit.principal.partition("/")[0] for commit in read_commits(cli.home)}
    assert names == {"ann@example.org"}
