"""Import of files: deterministic commits, and no repeated reads or writes."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from harken.capture.files import file_reader
from harken.capture.files.importer import Importer
from harken.capture.files.report import ImportProgress, ImportResult
from harken.capture.files.sources import iter_files
from harken.context.commit_content import read_entries
from harken.context.materialize import materialize, select_commits
from harken.core.commits import ArtifactRef, CommitId
from harken.core.messages import text_of
from harken.index.catalogue import Catalogue
from harken.store.base import WriteBatch
from harken.store.memory import MemoryStore
from tests.unit.formats.runtimes.opencode.test_reader import TALK, write_database
from tests.unit.formats.transcript_kit import (
    Transcript,
    text_block,
    tool_result_block,
    tool_use_block,
)


class Desk:
    """A folder with transcripts, a store and a catalogue."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store, self.catalogue = folder, MemoryStore(), Catalogue(None)
        self.clock = 1_000_000_000

    def write(self, name: str, data: bytes | Transcript) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.data)
        self.clock += 1
        os.utime(path, (self.clock, self.clock))
        return path

    def run(self, path: Path | None = None) -> dict[str, ImportResult]:
        files = list(iter_files(path or self.folder))
        results = list(Importer(self.store, self.catalogue).run(files))
        return {Path(result.report.source).name: result for result in results}

    def read_texts(self, ctx: str) -> list[str]:
        messages = materialize(self.store, CommitId(ctx)).messages
        return [text_of(message.content) for message in messages]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "sessions")


def talk(*texts: str, session: str = "5e551011-0000-4000-8000-000000000001") -> Transcript:
    transcript = Transcript(session)
    for words in ("Hello", *texts):
        transcript.user(words)
        transcript.answer(text_block(f"You said {words}."), id=f"msg_{words}")
    return transcript


def tip(result: ImportResult, index: int = 0) -> str:
    return result.report.tips[index].ctx


def test_import_creates_commits_and_keeps_the_raw_bytes(desk: Desk) -> None:
    path = desk.write("a.jsonl", talk("Tea?"))
    result = desk.run()["a.jsonl"]
    assert desk.read_texts(tip(result)) == ["Hello", "You said Hello.", "Tea?", "You said Tea?."]
    assert (result.report.format, result.report.lines, result.report.bad_lines) == (
        "claude-code-v1",
        4,
        0,
    )
    raw = ArtifactRef(result.report.raw or "")
    assert desk.store.raw(raw) == path.read_bytes()
    assert desk.store.retention() == {}
    desk.store.collect([], now="2100-01-01T00:00:00Z", grace_s=0)
    assert desk.store.raw(raw) == path.read_bytes()


def test_commit_has_time_and_principal_but_no_machine_details(desk: Desk) -> None:
    desk.write("a.jsonl", talk())
    ctx = CommitId(tip(desk.run()["a.jsonl"]))
    commit = desk.store.commits([ctx])[ctx].commit
    assert commit.principal == "claude:5e551011-0000-4000-8000-000000000001"
    assert commit.session_id == "claude:5e551011-0000-4000-8000-000000000001"
    assert (commit.checkpoint, commit.machine) == ("import", "")
    assert commit.created_at == "2026-01-31T12:00:02.000000Z"


def test_import_on_another_machine_creates_the_same_commits(desk: Desk, tmp_path: Path) -> None:
    second_desk = Desk(tmp_path / "another machine")
    for each_desk in (desk, second_desk):
        each_desk.write("a.jsonl" if each_desk is desk else "b.jsonl", talk("Tea?"))
    assert tip(desk.run()["a.jsonl"]) == tip(second_desk.run()["b.jsonl"])


def test_import_skips_unchanged_files(desk: Desk) -> None:
    path = desk.write("a.jsonl", talk())
    first = desk.run()["a.jsonl"]
    path.chmod(0)
    second_result = desk.run()["a.jsonl"]
    assert (second_result.is_unchanged, second_result.new) == (True, 0) or os.geteuid() != 0
    assert second_result.report == first.report or os.geteuid() != 0


def test_import_of_a_grown_file_adds_only_new_commits(desk: Desk) -> None:
    desk.write("a.jsonl", talk("Tea?"))
    before = desk.run()["a.jsonl"]
    desk.write("a.jsonl", talk("Tea?", "Cake?"))
    after = desk.run()["a.jsonl"]
    assert (after.is_unchanged, after.new, after.report.commits) == (False, 1, 3)
    ctx = CommitId(tip(after))
    assert desk.store.commits([ctx])[ctx].commit.parent == tip(before)


def test_import_reads_a_file_with_equal_size_and_time_but_another_end(desk: Desk) -> None:
    desk.write("a.jsonl", talk("Tea?"))
    desk.run()
    desk.clock -= 1
    desk.write("a.jsonl", talk("Tea!"))
    assert desk.run()["a.jsonl"].new == 1


def test_copy_made_by_a_resume_shares_the_repeated_history(desk: Desk) -> None:
    desk.write("a.jsonl", talk("Tea?"))
    copy = talk("Tea?", "Cake?", session="c0b70000-0000-4000-8000-000000000002")
    for record in copy.records:
        record["timestamp"] = record["timestamp"].replace("2026-01-31", "2026-02-01")
    desk.write("b.jsonl", copy)
    first, second = desk.run().values()
    assert (first.new, second.new, second.report.commits) == (2, 1, 3)
    ctx = CommitId(tip(second))
    assert desk.store.commits([ctx])[ctx].commit.parent == tip(first)


def test_equal_texts_in_two_sessions_have_separate_histories(desk: Desk) -> None:
    other_transcript = talk(session="c0b70000-0000-4000-8000-000000000002")
    other_transcript.records[1]["message"]["id"] = "another response"
    desk.write("a.jsonl", talk())
    desk.write("b.jsonl", other_transcript)
    first, second = desk.run().values()
    assert tip(first) != tip(second)


def agents(session: str) -> tuple[Transcript, Transcript]:
    main = Transcript(session)
    main.user("Ask Ann.")
    main.answer(tool_use_block("c1", "Task"))
    main.user([tool_result_block("c1", "done")], toolUseResult={"agentId": "ann"})
    main.answer(text_block("Ann is there."))
    subagent = Transcript(session, shared={"isSidechain": True, "agentId": "ann"})
    subagent.user("You are Ann.")
    subagent.answer(text_block("I am."))
    return main, subagent


@pytest.mark.parametrize("name", ["agent-ann.jsonl", "0.jsonl"])
def test_subagent_file_starts_at_its_spawning_call(desk: Desk, name: str) -> None:
    """The order of the two files does not matter."""
    main, subagent = agents("5e551011-0000-4000-8000-000000000001")
    desk.write(name, subagent)
    desk.write("main.jsonl", main)
    results = desk.run()
    (first,) = select_commits(desk.store, CommitId(tip(results[name])))
    history = desk.store.chain(CommitId(tip(results["main.jsonl"])))
    assert first.commit.parent == history[-1].id
    assert first.commit.type == "snapshot"
    assert first.commit.principal == "claude:5e551011-0000-4000-8000-000000000001/ann"
    assert results[name].report.tips[0].agent == "ann"


def test_subagent_is_read_again_when_its_parent_is_imported_later(desk: Desk) -> None:
    main, subagent = agents("5e551011-0000-4000-8000-000000000001")
    desk.write("agent-ann.jsonl", subagent)
    alone = desk.run()["agent-ann.jsonl"]
    assert desk.store.chain(CommitId(tip(alone)))[-1].commit.parent is None
    assert desk.run()["agent-ann.jsonl"].is_unchanged
    desk.write("main.jsonl", main)
    desk.run()
    agent_result = desk.run()["agent-ann.jsonl"]
    assert not agent_result.is_unchanged
    assert desk.store.chain(CommitId(tip(agent_result)))[-1].commit.parent is None
    assert len(desk.store.chain(CommitId(tip(agent_result)))) == 2
    assert desk.run()["agent-ann.jsonl"].is_unchanged


def test_tips_list_main_conversation_then_agents_then_branches(
    desk: Desk,
) -> None:
    transcript = Transcript()
    transcript.user("Ask Ann.")
    call_number = transcript.answer(tool_use_block("c1", "Task", prompt="You are Ann."))
    transcript.user("You are Ann.", parent=None, isSidechain=True, agentId="ann")
    transcript.user("Never mind.", parent=call_number)
    transcript.user("Go on.", parent=call_number)
    desk.write("a.jsonl", transcript)
    result = desk.run()["a.jsonl"]
    assert [tip_.agent for tip_ in result.report.tips] == ["main", "ann", "main"]
    assert desk.read_texts(tip(result))[-1] == "Go on."
    assert desk.read_texts(tip(result, 2))[-1] == "Never mind."


def test_unreadable_content_is_reported_without_an_error(desk: Desk) -> None:
    desk.write("picture.png", b"\x89PNG....")
    desk.write("empty.jsonl", b"")
    results = desk.run()
    assert results["picture.png"].report.reason == "unknown format"
    assert (results["picture.png"].report.format, results["picture.png"].report.raw) == (None, None)
    assert results["empty.jsonl"].report.reason == "it is empty"
    assert desk.store.raw(ArtifactRef(results["empty.jsonl"].report.raw or "")) == b""
    assert all(result.is_unchanged for result in desk.run().values())


@pytest.mark.req("S2-60")
def test_file_that_only_resembles_a_format_is_stored_as_bytes(desk: Desk) -> None:
    data = b'{"type": "x", "sessionId": "y"}\n'
    desk.write("a.jsonl", data)
    report = desk.run()["a.jsonl"].report
    assert report.format is None
    assert "no record of a transcript" in report.reason
    assert desk.store.raw(ArtifactRef(report.raw or "")) == data


def test_invalid_lines_are_reported_with_their_positions(desk: Desk) -> None:
    good = talk().data
    desk.write("a.jsonl", good + b"{torn")
    report = desk.run()["a.jsonl"].report
    assert (report.lines, report.bad_lines) == (3, 1)
    assert (report.bad[0].line, report.bad[0].byte) == (3, len(good))


def test_missing_file_is_reported_and_others_are_read(desk: Desk) -> None:
    desk.write("a.jsonl", talk())
    removed_path = desk.write("b.jsonl", talk("Tea?"))
    files = list(iter_files(desk.folder))
    removed_path.unlink()
    results = list(Importer(desk.store, desk.catalogue).run(files))
    assert sorted(bool(result.report.reason) for result in results) == [False, True]


def test_large_file_read_from_the_store_gives_the_same_commits(desk: Desk, tmp_path: Path) -> None:
    transcript = talk("Tea?")
    transcript.records[0]["padding"] = "x" * (file_reader.MAX_IN_MEMORY_BYTES + 1)
    small = Desk(tmp_path / "small")
    small.write("a.jsonl", talk("Tea?"))
    path = desk.write("a.jsonl", transcript)
    result = desk.run()["a.jsonl"]
    assert tip(result) == tip(small.run()["a.jsonl"])
    raw = b"".join(desk.store.read_chunks(ArtifactRef(result.report.raw or "")))
    assert raw == path.read_bytes()


def test_file_with_a_non_utf8_name_is_read_and_recognized(desk: Desk) -> None:
    desk.write("a.jsonl", talk())
    unusual_path = Path(os.fsdecode(os.fsencode(desk.folder) + b"/caf\xe9.jsonl"))
    try:
        (desk.folder / "a.jsonl").rename(unusual_path)
    except OSError:
        pytest.skip("this file system takes no such name")
    (result,) = desk.run().values()
    assert result.report.source.endswith("caf\\udce9.jsonl")
    assert desk.read_texts(tip(result))[0] == "Hello"
    (second_result,) = desk.run().values()
    assert second_result.is_unchanged


def test_import_reports_progress(desk: Desk) -> None:
    files = [desk.write(f"{index}.jsonl", talk(str(index))) for index in range(3)]
    progress: list[ImportProgress] = []
    listed_files = list(iter_files(desk.folder))
    list(Importer(desk.store, desk.catalogue).run(listed_files, progress.append))
    size = sum(path.stat().st_size for path in files)
    assert progress[-1] == ImportProgress(3, 3, size, size)


class FullStore(MemoryStore):
    """A store that has no room for commits."""

    def write(self, batch: WriteBatch) -> None:
        if batch.commits:
            raise OSError("no space left")
        super().write(batch)


def test_file_of_a_failed_write_does_not_count_as_read(desk: Desk, tmp_path: Path) -> None:
    desk.write("a.jsonl", talk())
    index = tmp_path / "index.db"
    catalogue = Catalogue(index)
    with pytest.raises(OSError, match="no space"):
        list(Importer(FullStore(), catalogue).run(list(iter_files(desk.folder))))
    catalogue.close()
    results = list(Importer(desk.store, Catalogue(index)).run(list(iter_files(desk.folder))))
    assert [result.is_unchanged for result in results] == [False]


def test_catalogue_newer_than_its_store_is_ignored(desk: Desk) -> None:
    desk.write("a.jsonl", talk())
    desk.run()
    desk.store = MemoryStore()
    result = desk.run()["a.jsonl"]
    assert (result.is_unchanged, result.new) == (False, 1)
    assert desk.read_texts(tip(result))[0] == "Hello"


def test_sources_of_entries_are_stored(desk: Desk) -> None:
    desk.write("a.jsonl", talk())
    ctx = CommitId(tip(desk.run()["a.jsonl"]))
    _, answer = read_entries(desk.store, select_commits(desk.store, ctx))
    assert (answer.source or {})["usage"] == {"input_tokens": 10, "output_tokens": 1}


def test_names_in_a_file_are_never_used_as_paths(desk: Desk) -> None:
    transcript = Transcript(shared={"sessionId": "../../../etc/passwd\ud800" + "x" * 9999})
    transcript.user("Hello")
    desk.write("a.jsonl", transcript)
    report = desk.run()["a.jsonl"].report
    assert len(report.session) == 500
    assert sorted(path.name for path in desk.folder.rglob("*")) == ["a.jsonl"]


def test_unusual_values_round_trip_through_the_store(desk: Desk) -> None:
    transcript = talk()
    transcript.records[1]["message"]["usage"] = {"n": 10**400, "\ud800": 1e300, "deep": [[[None]]]}
    transcript.records[1]["message"]["content"] += [
        tool_use_block("c1", "odd", at=2**70, text="\ud800")
    ]
    transcript.user("lone \ud800 surrogate")
    desk.write("a.jsonl", transcript)
    result = desk.run()["a.jsonl"]
    entries = read_entries(desk.store, select_commits(desk.store, CommitId(tip(result))))
    assert (entries[1].source or {})["usage"]["n"] == 10**400
    assert entries[2].message.content == "lone \ud800 surrogate"


@pytest.mark.parametrize("digits", [4000, 5000, 100_000])
def test_integers_of_any_length_are_imported(desk: Desk, digits: int) -> None:
    transcript = talk()
    data = transcript.data.replace(b'"output_tokens": 1', b'"output_tokens": 1' + b"0" * digits)
    desk.write("a.jsonl", data)
    report = desk.run()["a.jsonl"].report
    assert report.lines == 2
    assert desk.run()["a.jsonl"].is_unchanged


def test_database_content_in_the_wal_is_imported(desk: Desk) -> None:
    desk.folder.mkdir()
    path = write_database(desk.folder / "opencode.db", {"ses_1": {}}, {"ses_1": TALK})
    with closing(sqlite3.connect(path)) as live:
        live.execute("PRAGMA journal_mode=WAL")
        live.execute("PRAGMA wal_autocheckpoint=0")
        for number, words in enumerate(("late", "later")):
            message = (f"msg_{8 + number}", "ses_1", 9 + number, json.dumps({"role": "user"}))
            live.execute("INSERT INTO message VALUES (?,?,?,?)", message)
            part = json.dumps({"type": "text", "text": words})
            row = (f"prt_z{number}", message[0], "ses_1", part)
            live.execute("INSERT INTO part VALUES (?,?,?,?)", row)
            live.commit()
            before = path.read_bytes()
            result = desk.run()["opencode.db"]
            assert desk.read_texts(result.report.tips[0].ctx)[-1] == words
            assert path.read_bytes() == before
            assert desk.run()["opencode.db"].is_unchanged
