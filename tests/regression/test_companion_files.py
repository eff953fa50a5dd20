"""Files beside a transcript are kept, and outputs that were moved out of it belong to their calls.

What happened: Claude Code writes large outputs to `tool-results/`, and what a subagent is to
`agent-*.meta.json`; both had no reader and were lost when the client removed them. Why: a
file was a transcript or nothing. Now: each is kept byte for byte, a result names the artifact with
its whole output, a subagent has its type and task; no name and no link leads out of the folder.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from harken.capture.files.companions import iter_companions
from harken.capture.files.importer import Importer
from harken.capture.files.report import ImportResult
from harken.capture.files.sources import iter_files
from harken.context.commit_content import read_entries
from harken.core.commits import ArtifactRef, CommitId
from harken.index.catalogue import Catalogue
from harken.store.memory import MemoryStore
from tests.cli.kit import Cli
from tests.unit.formats.transcript_kit import Transcript, text_block, tool_use_block

SESSION = "5e551011-0000-4000-8000-000000000001"
WHOLE = "line\n" * 20_000
SAVED = "<persisted-output>\nOutput too large (97.7KB). Full output saved to: {}\n\nPreview (first 2KB):\nline\n...\n</persisted-output>"
REMOTE = r"C:\Users\Jill A\.claude\projects\p\{}\tool-results\b5.txt"


def write(path: Path, data: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


class Project:
    """A project of Claude Code, with one session, and what is imported of it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store = folder, MemoryStore()
        self.session = folder / SESSION
        self.outputs = self.session / "tool-results"

    def talk(self, *results: str) -> Path:
        """Write a transcript in which one command has each of these results."""
        made = Transcript(SESSION)
        made.user("Look at it.")
        for at, words in enumerate(results):
            made.answer(tool_use_block(f"toolu_{at}", command="ls"))
            made.result(f"toolu_{at}", words)
        made.answer(text_block("Done."))
        return write(self.folder / f"{SESSION}.jsonl", made.data)

    def run(self, path: Path | None = None) -> dict[str, ImportResult]:
        files = list(iter_files(path or self.folder))
        done = Importer(self.store, Catalogue(None)).run(files)
        return {Path(one.report.source).name: one for one in done}

    def raw(self, one: ImportResult) -> bytes:
        return self.store.raw(ArtifactRef(one.report.raw or ""))

    def linked(self, tip: ImportResult) -> list[dict[str, Any] | None]:
        """Return what each result says of its output."""
        chain = [*self.store.chain(CommitId(tip.report.tips[0].ctx))][::-1]
        entries = read_entries(self.store, chain)
        return [(e.source or {}).get("output") for e in entries if e.message.role == "tool"]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "projects" / "-home-jill")


def test_a_result_names_the_artifact_with_its_whole_output(project: Project) -> None:
    transcript = project.talk(
        SAVED.format(REMOTE.format(SESSION)),
        "Error: result (90,000 characters) exceeds maximum allowed tokens. Output has been saved "
        f"to /h/{SESSION}/tool-results/mcp-x-1.txt.\nFormat: Plain text",
        "short",
        "not moved",
    )
    write(project.outputs / "b5.txt", WHOLE)
    write(project.outputs / "mcp-x-1.txt", "x" * 90_000)
    write(project.outputs / "toolu_2.txt", "short")
    done = project.run(transcript)  # the file alone: what belongs to it comes with it
    linked = project.linked(done[transcript.name])
    assert [one and (one["file"], one["bytes"]) for one in linked] == [
        ("b5.txt", 100_000),
        ("mcp-x-1.txt", 90_000),
        ("toolu_2.txt", 5),
        None,
    ]
    assert linked[0] is not None
    assert project.store.raw(ArtifactRef(linked[0]["artifact"])) == WHOLE.encode()
    assert linked[0]["artifact"] == done["b5.txt"].report.raw
    project.store.collect([], now="2100-01-01T00:00:00Z", grace_s=0)
    assert project.store.raw(ArtifactRef(linked[0]["artifact"])) == WHOLE.encode()


def test_an_output_that_looks_like_a_transcript_is_an_output(project: Project) -> None:
    transcript = project.talk("see b1.txt")
    write(project.outputs / "b1.txt", transcript.read_bytes())
    done = project.run()
    assert (done["b1.txt"].report.format, done["b1.txt"].report.belongs_to) == (None, SESSION)
    assert project.raw(done["b1.txt"]) == transcript.read_bytes()


def test_names_and_links_do_not_lead_out_of_the_folder(project: Project, tmp_path: Path) -> None:
    secret = write(tmp_path / "secret.txt", "the secret")
    write(tmp_path / "projects" / "-home-jill" / "other" / "tool-results" / "b9.txt", "another's")
    transcript = project.talk(
        SAVED.format(secret),
        SAVED.format("../../../secret.txt"),
        SAVED.format(f"/h/{SESSION}/tool-results/link.txt"),
        SAVED.format("../other/tool-results/b9.txt"),
        SAVED.format("tool-results/\0"),
        SAVED.format(".."),
    )
    write(project.outputs / "b1.txt", "mine")
    (project.outputs / "link.txt").symlink_to(secret)
    (project.outputs / "folder").symlink_to(tmp_path)
    (project.session / "linked").symlink_to(tmp_path)
    os.mkfifo(project.outputs / "pipe.txt")
    done = project.run()
    assert project.linked(done[transcript.name]) == [None] * 6
    assert done["link.txt"].report.raw is None
    assert "link" in done["link.txt"].report.reason
    kept = {project.raw(one) for one in done.values() if one.report.raw}
    assert b"the secret" not in kept
    assert {path.name for path in iter_companions(transcript)} == {"b1.txt"}


def test_a_linked_folder_of_outputs_is_not_read(project: Project, tmp_path: Path) -> None:
    transcript = project.talk(SAVED.format("/x/tool-results/b5.txt"))
    write(tmp_path / "elsewhere" / "b5.txt", "the secret")
    project.session.mkdir()
    project.outputs.symlink_to(tmp_path / "elsewhere")
    done = project.run(transcript)
    assert project.linked(done[transcript.name]) == [None]
    assert list(done) == [transcript.name]


def subagent(project: Project, agent: str = "a1b2") -> Path:
    made = Transcript(SESSION, shared={"isSidechain": True, "agentId": agent})
    made.user("Compare them.")
    made.answer(text_block("They are the same."))
    return write(project.session / "subagents" / f"agent-{agent}.jsonl", made.data)


def test_a_subagent_has_its_type_and_its_task(cli: Cli, project: Project) -> None:
    project.talk("fine")
    path = subagent(project)
    meta = {"agentType": "Explore", "description": "Compare the \x1b[31mtwo", "worktreePath": "/w"}
    write(path.with_suffix(".meta.json"), json.dumps(meta))
    rows = [
        json.loads(line) for line in cli.ok("import", project.folder, "--json").out.splitlines()
    ]
    row = next(one for one in rows if one["source"] == str(path))
    assert (row["agent_type"], row["task"]) == ("Explore", "Compare the \x1b[31mtwo")
    shown = cli.ok("view", f"claude:{SESSION}", "tree").out
    assert "Explore" in shown
    assert "Compare the" in shown
    assert "\x1b" not in shown
    (listed,) = cli.ok("sessions", "--json").json
    assert [(one["agent"], one["type"]) for one in listed["subagents"]] == [("a1b2", "Explore")]
    commit = cli.ok("ctx", "show", row["tips"][0]["ctx"], "--json").json
    assert commit["template"] == "Explore"


def test_what_nobody_reads_is_kept_where_it_belongs_to_a_session(project: Project) -> None:
    project.talk("fine")
    journal = '{"type":"started","key":"v2:1","agentId":"a1"}\n'
    write(project.session / "subagents" / "workflows" / "wf_1" / "journal.jsonl", journal)
    write(project.session / "workflows" / "journal.jsonl", journal * 2)
    write(project.session / "subagents" / "agent-a1b2.meta.json", "no JSON")
    write(project.folder / "notes.txt", "Buy tea.")
    write(project.folder / "data" / "x.txt", "A set of data")
    write(project.folder / "data.jsonl", '{"no": "transcript"}\n')
    done = project.run()
    kept = {name: one.report.belongs_to for name, one in done.items() if one.report.belongs_to}
    assert kept == {"journal.jsonl": SESSION, "agent-a1b2.meta.json": SESSION}
    assert project.raw(done["agent-a1b2.meta.json"]) == b"no JSON"
    for name in ("notes.txt", "x.txt", "data.jsonl"):
        assert (done[name].report.raw, done[name].report.is_unknown) == (None, True)


def test_a_file_that_is_no_transcript_brings_nothing_along(project: Project) -> None:
    for name in ("data.jsonl", "events.jsonl"):
        path = write(project.folder / name, '{"no": "transcript"}\n')
        write(project.folder / "data" / "x.txt", "a set of data")
        assert list(iter_companions(path)) == []
        assert list(project.run(path)) == [name]


def test_a_large_output_is_kept_and_named_alike(project: Project) -> None:
    transcript = project.talk(SAVED.format("/x/tool-results/b5.txt"))
    write(project.outputs / "b5.txt", b"0123456789\n" * 1_000_000)
    done = project.run(transcript)
    assert project.raw(done["b5.txt"]) == b"0123456789\n" * 1_000_000
    (linked,) = project.linked(done[transcript.name])
    assert linked is not None
    assert linked["artifact"] == done["b5.txt"].report.raw


def test_a_followed_session_keeps_what_belongs_to_it(cli: Cli, project: Project) -> None:
    project.talk(SAVED.format("/x/tool-results/b5.txt"))
    write(project.outputs / "b5.txt", WHOLE)
    cli.ok("watch", "--once", project.folder.parent)
    rows = [
        json.loads(line) for line in cli.ok("import", project.folder, "--json").out.splitlines()
    ]
    raw = next(row["raw"] for row in rows if row["source"].endswith("b5.txt"))
    cli.ok("cat", raw, "-o", str(project.folder / "whole"))
    assert (project.folder / "whole").read_text() == WHOLE
