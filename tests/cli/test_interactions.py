"""`harken interactions`, `harken chat --interaction-logs` and `--memory`, `/replay`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from harken.chat.commands.base import run_command
from harken.errors import NameNotFound
from harken.interactions.logger import InteractionLogger
from harken.interactions.records import MemoryOpType, MemoryType, ThreadEventType
from harken.session.session import Session
from tests.cli.kit import Cli
from tests.session_kit import create_agent, log_user_message
from tests.unit.formats.transcript_kit import Transcript, text_block


@pytest.fixture
def talked(cli: Cli, script: str) -> Cli:
    """`harken` after a chat in which Ann was made."""
    cli.ok("chat", "--model", script, "-p", "make Ann")
    return cli


def stem(cli: Cli) -> str:
    return cli.sessions()[0].stem


def test_threads_are_listed(talked: Cli) -> None:
    lines = talked.ok("interactions", "list").out.splitlines()
    assert [line.split("  ")[1] for line in lines] == [
        f"{stem(talked)}/agent_001 (main)",
        f"{stem(talked)}/agent_003 (Ann)",
    ]
    assert lines[0].endswith("5 messages, 2 requests  make Ann")
    rows = talked.ok("interactions", "list", "--json", "--limit", "1").json
    assert [row["threadId"] for row in rows] == [f"{stem(talked)}/agent_001"]


def test_every_thread_that_can_be_shown_is_listed(talked: Cli, tmp_path: Path) -> None:
    transcript = Transcript()
    transcript.user("Tea?")
    transcript.answer(text_block("Green."))
    (tmp_path / "a.jsonl").write_bytes(transcript.data)
    talked.ok("import", tmp_path / "a.jsonl")
    (talked.home / "sessions" / "tea.jsonl.lock").touch()
    (talked.home / "sessions" / ".tea.jsonl.pid").touch()
    listed = [row["threadId"] for row in talked.ok("interactions", "list", "--json").json]
    sessions = {thread.rpartition("/")[0] for thread in listed}
    assert sessions == {stem(talked), "claude:5e551011-0000-4000-8000-000000000001"}
    for thread in listed:
        assert talked.ok("interactions", "show", thread).out
    for agent in talked.ok("view", stem(talked), "tree", "--json").json:
        name = f"{stem(talked)}/{agent['agent_id']}"
        assert bool(talked.ok("interactions", "show", name).out) == (name in listed)
    lines = talked.ok("interactions", "list").out.splitlines()
    assert sum("  imported, rebuilt  " in line for line in lines) == 1


def test_agent_that_only_used_its_memory_is_listed(cli: Cli) -> None:
    with InteractionLogger(folder=cli.home) as log:
        thread = log.start_thread("cafe")
        other = log.start_thread("cafe", name="Ann")
        log.log_memory_operation(other, MemoryType.LTM, MemoryOpType.READ, "notes.md")
    listed = [row["threadId"] for row in cli.ok("interactions", "list", "--json").json]
    assert sorted(listed) == [thread, other]
    log_file = cli.home / "sessions" / "cafe.jsonl"
    with InteractionLogger(folder=cli.home) as log, pytest.raises(NameNotFound) as refused:
        log.log_context_state("tea", [], ThreadEventType.LLM_REQUEST)
    assert str(refused.value).endswith("existing threads: cafe")
    assert log_file.is_file()


def test_where_nothing_is_nothing_is_listed_nor_made(cli: Cli) -> None:
    assert "No threads" in cli.ok("interactions", "list").err
    assert not cli.home.exists()


@pytest.mark.req("S3-16")
def test_a_thread_is_shown_row_by_row(talked: Cli) -> None:
    shown = talked.ok("interactions", "show", stem(talked)).out.splitlines()
    kinds = [line.split()[1] for line in shown]
    assert kinds[2:5] == ["LLM_REQUEST", "LLM_RESPONSE", "CONTEXT_REPLAYED"]
    assert "  user: make Ann" in shown[1]
    assert 'tool_call task: {"name"' in shown[3]
    ann = talked.ok("interactions", "show", f"{stem(talked)}/agent_003", "--json").out
    rows = [json.loads(line) for line in ann.splitlines()]
    assert [row["eventType"] for row in rows][-2:] == ["LLM_REQUEST", "LLM_RESPONSE"]
    assert talked.ok("interactions", "show", f"{stem(talked)}/Ann", "--json").out == ann
    new = talked.ok("interactions", "show", "latest", "--new").out
    assert "CONTEXT_REPLAYED" not in new
    by_file = talked.ok("interactions", "show", talked.sessions()[0])
    assert by_file.out.splitlines() == shown


def test_a_thread_that_is_not_there_is_one_line(talked: Cli) -> None:
    assert "session or commit 'tea/agent_001' not found" in talked.refused(
        "interactions", "show", "tea/agent_001"
    )
    said = talked.refused("interactions", "show", f"{stem(talked)}/agent_009")
    assert "agent 'agent_009' not found" in said
    assert "Ann (agent_003)" in said


@pytest.mark.req("S3-19")
def test_a_session_goes_out_and_comes_back(talked: Cli, tmp_path: Path) -> None:
    out = tmp_path / "out"
    said = talked.ok("interactions", "export", stem(talked), out, "--shard").out
    assert said.startswith(f"{out}: 2 threads, ")
    assert {one.name for one in out.iterdir()} == {"messages", "threads", "index.json"}
    other = Cli(tmp_path / "other", talked._capsys)
    ran = other.ok("--home", tmp_path / "other", "interactions", "import", out)
    assert ran.out == f"session {stem(talked)}, 2 threads\n"
    assert "interactions show" in ran.err
    rows = talked.ok("interactions", "show", stem(talked)).out
    shown = other.ok("interactions", "show", stem(talked), "--home", tmp_path / "other").out
    assert shown == rows
    again = other.ok("interactions", "import", out, "--home", tmp_path / "other", "--json").json
    assert again == [{"name": stem(talked), "threads": 2, "is_new": False}]
    tree = other.ok("view", stem(talked), "tree", "--home", tmp_path / "other").out
    assert "main" in tree
    assert "Ann" in tree


def test_what_is_exported_is_redacted(cli: Cli, script: str, tmp_path: Path) -> None:
    secret = "AKIAQ7WZX5T2MN3BVC4D"
    cli.ok("chat", "--model", script, "-p", f"hello {secret}")
    ran = cli.ok("interactions", "export", "latest", tmp_path / "out")
    assert "credentials redacted: aws-key-id (1)" in ran.err
    written = b"".join(one.read_bytes() for one in (tmp_path / "out").rglob("*.json*"))
    assert secret.encode() not in written
    ran = cli.ok("interactions", "export", "latest", tmp_path / "as-is", "--no-redact", "--json")
    assert "not redacted" in ran.err
    assert ran.json["credentials"] == {"aws-key-id": 1}


@pytest.mark.parametrize("harm", ["none", "no folder of it", "no JSON"])
def test_a_hostile_folder_is_one_line(talked: Cli, tmp_path: Path, harm: str) -> None:
    out = tmp_path / "out"
    if harm == "no folder of it":
        out.mkdir()
    elif harm == "no JSON":
        talked.ok("interactions", "export", "latest", out)
        next((out / "threads").iterdir()).write_text("\x1b[31m{")
    before = talked.sessions()
    line = talked.refused("interactions", "import", out)
    assert str(out) in line
    assert "\x1b" not in line
    assert talked.sessions() == before


@pytest.mark.req("S3-28")
def test_a_chat_exports_its_interactions(cli: Cli, script: str, tmp_path: Path) -> None:
    ran = cli.ok("chat", "--model", script, "-p", "hello", "--interaction-logs")
    assert "logs/interactions: 1 thread, 4 rows, 3 new messages" in ran.err
    assert Path("logs/interactions/index.json").is_file()
    shutil.rmtree("logs")
    logs = tmp_path / "my logs"
    cli.ok("chat", "--model", script, "-p", "hello", "--log-directory", logs)
    assert len(list((logs / "threads").iterdir())) == 1
    assert not Path("logs").exists()
    cli.ok("chat", "--model", script, "-p", "hello")
    assert not Path("logs").exists()


@pytest.mark.req("S3-28")
def test_a_chat_that_fails_exports_what_there_was(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "none.yaml").write_text("rules: []")
    model = f"scripted:{tmp_path / 'none.yaml'}"
    ran = cli("chat", "--model", model, "-p", "hello", "--log-directory", tmp_path / "logs")
    assert ran.code == 1
    rows = next((tmp_path / "logs" / "threads").iterdir()).read_text()
    assert '"eventType":"LLM_REQUEST"' in rows
    assert '"eventType":"LLM_RESPONSE"' not in rows


@pytest.mark.req("S4-51")
def test_a_chat_can_remember(cli: Cli, tmp_path: Path) -> None:
    script = tmp_path / "remember.yaml"
    script.write_text(
        "rules:\n"
        "  - pattern: likes tea\n"
        "    calls: [{memory: {operation: write, path: ann, text: Ann likes tea.}}]\n"
        "  - pattern: what does Ann\n"
        "    calls: [{memory: {operation: read, path: ann}}]\n"
        "  - answer: Yes.\n"
    )
    notes = tmp_path / "notes"
    chat = ("chat", "--model", f"scripted:{script}", "--permission", "all", "--memory", notes)
    cli.ok(*chat, "-p", "Ann likes tea.")
    assert (notes / "ann.md").read_text() == "Ann likes tea.\n"
    cli.ok(*chat, "-p", "what does Ann like?")
    shown = cli.ok("interactions", "show", "latest").out
    assert "MEMORY_READ" in shown
    assert "LTM, ann, Ann likes tea." in shown


class Told:
    """A talk that writes down what is said."""

    user_commands: Mapping[str, Any] = {}

    def __init__(self, session: Session) -> None:
        self.session, self.said = session, ""

    def print_text(self, text: str) -> None:
        self.said += text

    def lend(self, words: Sequence[str]) -> bool:
        return False


@pytest.mark.req("S3-28")
def test_a_past_session_is_replayed_in_a_chat(talked: Cli) -> None:
    past = stem(talked)
    with Session(talked.home / "sessions" / "now.jsonl") as session:
        log_user_message(session, create_agent(session, name="main"), "Hi")
        told = Told(session)
        assert run_command(told, f"/replay {past}")  # type: ignore[arg-type]
        assert "make Ann" in told.said
        told.said = ""
        assert run_command(told, "/replay nowhere")  # type: ignore[arg-type]
        assert "session or commit 'nowhere' not found" in told.said
        told.said = ""
        assert run_command(told, '/replay "')  # type: ignore[arg-type]
        assert "/replay: " in told.said
