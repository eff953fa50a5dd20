"""The tool `memory`: what agents remember, and what the log says of it."""

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


def remember(folder: Path, *uses: dict[str, Any], long_term: Any = None) -> Stage:
    """Let an agent use its memory, a call each; its results are `c0`, `c1`, ..."""
    tool = memory_tool(long_term or NotesMemory(folder / "notes"))
    lines: list[Any] = [call_message(call("memory", f"c{n}", **one)) for n, one in enumerate(uses)]
    model = script_model(main=[*lines, "Done."])
    folder.mkdir(exist_ok=True)
    made = open_stage(folder, model, runtime=AgentRuntime(model=model, world=LocalWorld([tool])))
    made.ask("Ann likes tea.")
    return made


def results(made: Stage) -> list[str]:
    return [row["content"] for row in made.select_lines(role="tool")]


def logged(made: Stage) -> list[MemoryOperation]:
    return [one for one in iter_events(made.log) if isinstance(one, MemoryOperation)]


@pytest.mark.req("S4-51", "S3-15")
def test_what_is_written_is_read_and_found_again_and_logged(tmp_path: Path) -> None:
    made = remember(
        tmp_path,
        {"operation": "write", "path": "people/ann.md", "text": "Ann\nlikes tea."},
        {"operation": "read", "path": "people/ann"},
        {"operation": "query", "query": "ANN tea"},
        {"operation": "append", "path": "people/ann.md", "text": "And cake."},
        {"operation": "list"},
    )
    assert results(made) == [
        "Kept as people/ann.md.",
        "Ann\nlikes tea.",
        "- people/ann.md: Ann",
        "Kept as people/ann.md.",
        "people/ann.md",
    ]
    assert (tmp_path / "notes" / "people" / "ann.md").read_text() == "Ann\nlikes tea.\nAnd cake.\n"
    told = [(one.memory_type, one.operation, one.file_path, one.query) for one in logged(made)]
    assert told == [
        ("LTM", "WRITE", "people/ann.md", None),
        ("LTM", "READ", "people/ann", None),
        ("LTM", "QUERY", None, "ANN tea"),
        ("LTM", "WRITE", "people/ann.md", None),
        ("LTM", "QUERY", None, None),
    ]
    wrote, _, asked, _, listed = logged(made)
    assert (wrote.content_preview, asked.result_count, listed.result_count) == (
        "Ann likes tea.",
        1,
        1,
    )
    causes = [
        row["message_id"] for row in made.select_lines(role="assistant") if "tool_calls" in row
    ]
    assert [one.cause for one in logged(made)] == causes


def test_a_long_text_is_previewed(tmp_path: Path) -> None:
    made = remember(tmp_path, {"operation": "write", "path": "a", "text": "tea " * 1000})
    assert len(logged(made)[0].content_preview or "") == 100


def test_notes_last_beyond_the_session(tmp_path: Path) -> None:
    notes = NotesMemory(tmp_path / "notes")
    remember(tmp_path / "one", {"operation": "write", "path": "a", "text": "x"}, long_term=notes)
    made = remember(tmp_path / "two", {"operation": "read", "path": "a.md"}, long_term=notes)
    assert results(made) == ["x"]


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
def test_no_name_leads_out_of_the_folder(tmp_path: Path, path: str) -> None:
    for operation in ("read", "write", "append"):
        made = remember(tmp_path / operation, {"operation": operation, "path": path, "text": "x"})
        [row] = made.select_lines(role="tool")
        assert row["is_error"] is True
        assert row["content"].startswith("Error: ")
        assert logged(made) == []
        assert [one for one in (tmp_path / operation).rglob("*.md") if one.is_file()] == []


def test_no_link_leads_out_of_the_folder(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (tmp_path / "secret.md").write_text("tea for two")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "other.md").write_text("tea for three")
    (notes / "link.md").symlink_to(tmp_path / "secret.md")
    (notes / "folder").symlink_to(tmp_path / "more")
    made = remember(
        tmp_path,
        {"operation": "read", "path": "link.md"},
        {"operation": "write", "path": "link.md", "text": "mine"},
        {"operation": "read", "path": "folder/other.md"},
        {"operation": "query", "query": "tea"},
        {"operation": "list"},
    )
    said = results(made)
    assert all("is outside" in one for one in said[:3])
    assert said[3:] == ["No matches; try fewer words.", "No notes yet."]
    assert (tmp_path / "secret.md").read_text() == "tea for two"


def test_what_cannot_be_done_is_told(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "large.md").write_bytes(b"x" * (MAX_NOTE_BYTES + 1))
    (notes / "pipe.md").mkdir()
    (notes / "odd.md").write_bytes(b"caf\xe9")
    made = remember(
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
    *failed, odd = results(made)
    assert all(one.startswith("Error: ") for one in failed)
    assert "note nowhere.md not found; existing notes: large.md, odd.md" in failed[0]
    assert odd == "caf\ufffd"
    assert (notes / "large.md").stat().st_size == MAX_NOTE_BYTES + 1


def test_notes_are_for_their_owner_only(tmp_path: Path) -> None:
    remember(tmp_path, {"operation": "write", "path": "a/b", "text": "x"})
    assert (tmp_path / "notes" / "a" / "b.md").stat().st_mode & 0o777 == 0o600


@pytest.mark.req("S4-51")
def test_the_transcript_is_a_memory_also_of_what_was_compacted_away(tmp_path: Path) -> None:
    made = remember(
        tmp_path,
        {"operation": "query", "query": "likes TEA", "term": "short"},
        {"operation": "read", "path": "msg_003", "term": "short"},
        {"operation": "write", "path": "plan", "text": "cake", "term": "short"},
        {"operation": "append", "path": "plan", "text": "tea", "term": "short"},
        {"operation": "read", "path": "plan", "term": "short"},
        {"operation": "list", "term": "short"},
        {"operation": "read", "path": "msg_999", "term": "short"},
    )
    said = results(made)
    assert said[0] == "- msg_003: Ann likes tea."
    assert said[1:6] == ["Ann likes tea.", "Kept as plan.", "Kept as plan.", "cake\ntea", "plan"]
    assert "existing notes: plan" in said[6]
    assert {one.memory_type for one in logged(made)} == {"STM"}
    assert not (tmp_path / "notes").exists()


def test_a_resumed_session_remembers_the_same(tmp_path: Path) -> None:
    made = remember(
        tmp_path, {"operation": "write", "path": "plan", "text": "cake", "term": "short"}
    )
    reads = call_message(call("memory", "d0", operation="read", path="plan", term="short"))
    tool = memory_tool(NotesMemory(tmp_path / "notes"))
    lines: list[Any] = [None, None, reads, "Done."]
    again = made.resume(script_model(main=lines), [tool])
    again.ask("What was the plan?")
    assert results(again)[-1] == "cake"


class Bells:
    """A strategy of somebody else."""

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
def test_the_strategy_can_be_exchanged_and_no_agent_knows(tmp_path: Path) -> None:
    made = remember(
        tmp_path,
        {"operation": "append", "path": "bell", "text": "ding"},
        {"operation": "query", "query": "what"},
        long_term=Bells(),
    )
    assert results(made) == ["Kept as bell.", "- bell: ding dong"]
    assert [one.operation for one in logged(made)] == ["WRITE", "QUERY"]
