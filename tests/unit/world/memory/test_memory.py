"""The tool `memory`: notes of agents and their entries in the log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harken.agents.runtime import AgentRuntime
from harken.core.events import MemoryOperation
from harken.session.log.reader import iter_events
from harken.world.local_world import LocalWorld
from harken.world.memory.base import MemoryHit, MemoryKind, MemoryNotFound
from harken.world.memory.notes import MAX_NOTE_BYTES, NotesMemory
from harken.world.memory.tool import memory_tool
from harken.world.tool import ToolContext
from tests.agent_kit import Stage, call, call_message, open_stage, script_model


def call_memory(folder: Path, *uses: dict[str, Any], long_term: Any = None) -> Stage:
    """Let an agent make one memory call each. The results are `c0`, `c1`, ..."""
    tool = memory_tool(long_term or NotesMemory(folder / "notes"))
    lines: list[Any] = [
        call_message(call("memory", f"c{n}", **item)) for n, item in enumerate(uses)
    ]
    model = script_model(main=[*lines, "Done."])
    folder.mkdir(exist_ok=True)
    agent_stage = open_stage(
        folder, model, runtime=AgentRuntime(model=model, world=LocalWorld([tool]))
    )
    agent_stage.ask("Ann likes tea.")
    return agent_stage


def memory_results(agent_stage: Stage) -> list[str]:
    return [row["content"] for row in agent_stage.select_lines(role="tool")]


def logged_events(agent_stage: Stage) -> list[MemoryOperation]:
    return [event for event in iter_events(agent_stage.log) if isinstance(event, MemoryOperation)]


@pytest.mark.req("S4-51", "S3-15")
def test_note_is_written_read_found_and_logged(tmp_path: Path) -> None:
    agent_stage = call_memory(
        tmp_path,
        {"operation": "write", "path": "people/ann.md", "text": "Ann\nlikes tea."},
        {"operation": "read", "path": "people/ann"},
        {"operation": "query", "query": "ANN tea"},
        {"operation": "append", "path": "people/ann.md", "text": "And cake."},
        {"operation": "list"},
    )
    assert memory_results(agent_stage) == [
        "Kept as people/ann.md.",
        "Ann\nlikes tea.",
        "- people/ann.md: Ann",
        "Kept as people/ann.md.",
        "people/ann.md",
    ]
    assert (tmp_path / "notes" / "people" / "ann.md").read_text() == "Ann\nlikes tea.\nAnd cake.\n"
    description = [
        (event.memory_type, event.operation, event.file_path, event.query)
        for event in logged_events(agent_stage)
    ]
    assert description == [
        ("LTM", "WRITE", "people/ann.md", None),
        ("LTM", "READ", "people/ann", None),
        ("LTM", "QUERY", None, "ANN tea"),
        ("LTM", "WRITE", "people/ann.md", None),
        ("LTM", "QUERY", None, None),
    ]
    wrote, _, query, _, listed_result = logged_events(agent_stage)
    assert (wrote.content_preview, query.result_count, listed_result.result_count) == (
        "Ann likes tea.",
        1,
        1,
    )
    causes = [
        row["message_id"]
        for row in agent_stage.select_lines(role="assistant")
        if "tool_calls" in row
    ]
    assert [event.cause for event in logged_events(agent_stage)] == causes


def test_long_text_is_previewed(tmp_path: Path) -> None:
    agent_stage = call_memory(tmp_path, {"operation": "write", "path": "a", "text": "tea " * 1000})
    assert len(logged_events(agent_stage)[0].content_preview or "") == 100


def test_notes_survive_the_session(tmp_path: Path) -> None:
    notes = NotesMemory(tmp_path / "notes")
    call_memory(tmp_path / "one", {"operation": "write", "path": "a", "text": "x"}, long_term=notes)
    agent_stage = call_memory(
        tmp_path / "two", {"operation": "read", "path": "a.md"}, long_term=notes
    )
    assert memory_results(agent_stage) == ["x"]


@pytest.mark.parametrize(
    "path",
    [
        "../out.md",
        "/etc/passwd",
        "a/../../out",
        "",
        "  ",
        ".git/config",
        "a//b",
        "~/x",
        "a\0b",
        "x" * 300,
    ],
)
def test_no_name_escapes_the_folder(tmp_path: Path, path: str) -> None:
    for operation in ("read", "write", "append"):
        agent_stage = call_memory(
            tmp_path / operation, {"operation": operation, "path": path, "text": "x"}
        )
        [row] = agent_stage.select_lines(role="tool")
        assert row["is_error"] is True
        assert row["content"].startswith("Error: ")
        assert logged_events(agent_stage) == []
        assert [
            entry_path
            for entry_path in (tmp_path / operation).rglob("*.md")
            if entry_path.is_file()
        ] == []


def test_no_symlink_escapes_the_folder(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (tmp_path / "secret.md").write_text("tea for two")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "other.md").write_text("tea for three")
    (notes / "link.md").symlink_to(tmp_path / "secret.md")
    (notes / "folder").symlink_to(tmp_path / "more")
    agent_stage = call_memory(
        tmp_path,
        {"operation": "read", "path": "link.md"},
        {"operation": "write", "path": "link.md", "text": "mine"},
        {"operation": "read", "path": "folder/other.md"},
        {"operation": "query", "query": "tea"},
        {"operation": "list"},
    )
    answer = memory_results(agent_stage)
    assert all("is outside" in item for item in answer[:3])
    assert answer[3:] == ["No matches; try fewer words.", "No notes yet."]
    assert (tmp_path / "secret.md").read_text() == "tea for two"


def test_invalid_operation_is_reported(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "large.md").write_bytes(b"x" * (MAX_NOTE_BYTES + 1))
    (notes / "pipe.md").mkdir()
    (notes / "odd.md").write_bytes(b"caf\xe9")
    agent_stage = call_memory(
        tmp_path,
        {"operation": "read", "path": "nowhere"},
        {"operation": "read", "path": "large.md"},
        {"operation": "append", "path": "large.md", "text": "x"},
        {"operation": "read", "path": "pipe.md"},
        {"operation": "write", "path": "a", "text": "x" * (MAX_NOTE_BYTES + 1)},
        {"operation": "query", "query": " "},
        {"operation": "read"},
        {"operation": "forget", "path": "a"},
        {"operation": "read", "path": "odd.md"},
    )
    *failed, unusual = memory_results(agent_stage)
    assert all(text.startswith("Error: ") for text in failed)
    assert "note nowhere.md not found; existing notes: large.md, odd.md" in failed[0]
    assert unusual == "caf\ufffd"
    assert (notes / "large.md").stat().st_size == MAX_NOTE_BYTES + 1


def test_notes_are_readable_only_by_their_owner(tmp_path: Path) -> None:
    call_memory(tmp_path, {"operation": "write", "path": "a/b", "text": "x"})
    assert (tmp_path / "notes" / "a" / "b.md").stat().st_mode & 0o777 == 0o600


@pytest.mark.req("S4-51")
def test_transcript_memory_finds_compacted_messages(tmp_path: Path) -> None:
    agent_stage = call_memory(
        tmp_path,
        {"operation": "query", "query": "likes TEA", "term": "short"},
        {"operation": "read", "path": "msg_003", "term": "short"},
        {"operation": "write", "path": "plan", "text": "cake", "term": "short"},
        {"operation": "append", "path": "plan", "text": "tea", "term": "short"},
        {"operation": "read", "path": "plan", "term": "short"},
        {"operation": "list", "term": "short"},
        {"operation": "read", "path": "msg_999", "term": "short"},
    )
    answer = memory_results(agent_stage)
    assert answer[0] == "- msg_003: Ann likes tea."
    assert answer[1:6] == ["Ann likes tea.", "Kept as plan.", "Kept as plan.", "cake\ntea", "plan"]
    assert "existing notes: plan" in answer[6]
    assert {event.memory_type for event in logged_events(agent_stage)} == {"STM"}
    assert not (tmp_path / "notes").exists()


def test_resumed_session_has_the_same_memory(tmp_path: Path) -> None:
    agent_stage = call_memory(
        tmp_path, {"operation": "write", "path": "plan", "text": "cake", "term": "short"}
    )
    reads = call_message(call("memory", "d0", operation="read", path="plan", term="short"))
    tool = memory_tool(NotesMemory(tmp_path / "notes"))
    lines: list[Any] = [None, None, reads, "Done."]
    resumed = agent_stage.resume(script_model(main=lines), [tool])
    resumed.ask("What was the plan?")
    assert memory_results(resumed)[-1] == "cake"


class CustomMemory:
    """A memory strategy of another package."""

    kind: MemoryKind = "LTM"

    def read(self, path: str, caller: ToolContext) -> str:
        raise MemoryNotFound("no bell")

    def write(self, path: str, text: str, caller: ToolContext) -> None:
        self.text = text

    def query(self, words: str, limit: int, caller: ToolContext) -> Sequence[MemoryHit]:
        return [MemoryHit("bell", "ding dong")]

    def list(self, caller: ToolContext) -> Sequence[str]:
        return ["bell"]


@pytest.mark.req("S4-51")
def test_strategy_can_be_replaced_without_changes_for_agents(tmp_path: Path) -> None:
    agent_stage = call_memory(
        tmp_path,
        {"operation": "append", "path": "bell", "text": "ding"},
        {"operation": "query", "query": "what"},
        long_term=CustomMemory(),
    )
    assert memory_results(agent_stage) == ["Kept as bell.", "- bell: ding dong"]
    assert [event.operation for event in logged_events(agent_stage)] == ["WRITE", "QUERY"]
