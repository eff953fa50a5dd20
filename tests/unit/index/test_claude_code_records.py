"""Every type of record in a transcript of Claude Code, from the file to the statistics."""

from __future__ import annotations

import json
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from harken.analytics.overview import overview
from harken.analytics.scope import Scope
from harken.capture.live.claude_code import parse_claude_line
from harken.capture.live.stream_commits import StreamCommits
from harken.context.materialize import materialize
from harken.core.commits import ArtifactRef, CommitId
from harken.core.messages import Message, ThinkingPart, text_of
from harken.formats.runtimes.claude_code.writer import write_transcript
from harken.store.imported_files import read_imported_files
from tests.unit.capture.live.client_lines import Stream, words
from tests.unit.formats.transcript_kit import (
    Transcript,
    encode_lines,
    read_transcript,
    text_block,
    thinking_block,
    tool_use_block,
)
from tests.unit.index.index_kit import Imports

MODEL = "claude-sonnet-4-20250514"
TOKENS: dict[str, Any] = {
    "inputTokens": 12,
    "outputTokens": 34,
    "cacheReadInputTokens": 56,
    "cacheCreationInputTokens": 78,
}
SYSTEM = ("init", "context_truncated", "microcompact_boundary")


def add_answer(transcript: Transcript, *blocks: dict[str, Any], **members: Any) -> str:
    """Add an answer with its model, tokens and cost outside of the message."""
    body = {"id": f"msg_{len(transcript.records):08d}", "role": "assistant", "content": [*blocks]}
    members = {"model": MODEL, "costUSD": 0.25, **TOKENS, **members}
    return transcript.add("assistant", message=body, **members)


def add_asides(transcript: Transcript) -> None:
    """Add records that are no conversation."""
    transcript.add("progress", data={"type": "bash_progress", "output": "an aside"})
    transcript.add("file-history-snapshot", messageId="x", snapshot={"note": "an aside"})
    transcript.add("queue-operation", operation="enqueue", content="an aside")
    for subtype in SYSTEM:
        transcript.add("system", subtype=subtype, content="an aside")


def all_types(*, has_asides: bool = True) -> Transcript:
    """Return a transcript with records of every type that the specification lists."""
    transcript = Transcript()
    transcript.add("summary", summary="Tea in the cafe", leafUuid="x")
    transcript.user("Is the cafe open?")
    if has_asides:
        add_asides(transcript)
    add_answer(transcript, thinking_block("I look."), text_block("A moment."), tool_use_block("c1"))
    transcript.result("c1", "open")
    if has_asides:
        transcript.user("an aside", isMeta=True)
    add_answer(transcript, text_block("It is."))
    transcript.add("result", subtype="error_max_turns", num_turns=2, total_cost_usd=0.5)
    if has_asides:
        transcript.add("weather", forecast="an aside")
    return transcript


def read_tip(imports: Imports) -> list[Message]:
    [name] = imports.store.newest_commits(1)
    return materialize(imports.store, CommitId(name), "root").messages


@pytest.mark.req("S2-70")
def test_every_type_of_record_is_read_or_kept(imports: Imports) -> None:
    transcript = all_types()
    imports.add_and_update("a.jsonl", transcript)
    messages = [message for message in read_tip(imports) if text_of(message.content) != "an aside"]
    assert [message.role for message in messages] == ["user", "assistant", "tool", "assistant"]
    answer = messages[1]
    assert isinstance(answer.content, list)
    assert isinstance(answer.content[0], ThinkingPart)
    assert (answer.content[0].text, text_of(answer.content)) == ("I look.", "A moment.")
    assert [call.id for call in answer.tool_calls or ()] == ["c1"]
    assert imports.rows("SELECT title, outcome FROM sessions") == [
        ("Tea in the cafe", "error_max_turns")
    ]
    counted = read_transcript(transcript).reading.uninterpreted
    labels = [f"system/{subtype}" for subtype in SYSTEM]
    labels += ["progress", "file-history-snapshot", "queue-operation", "summary", "weather"]
    assert counted == dict.fromkeys([*labels, "result/error_max_turns"], 1)


@pytest.mark.req("S2-70")
def test_model_tokens_and_cost_of_a_record_are_read(imports: Imports) -> None:
    imports.add_and_update("a.jsonl", all_types())
    columns = "model, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_usd"
    row = (MODEL, 12, 34, 56, 78, 0.25)
    assert imports.rows(f"SELECT {columns} FROM requests WHERE is_cost_told") == [row, row]


def test_usage_in_the_message_takes_precedence() -> None:
    transcript = Transcript()
    transcript.user("Tea?")
    transcript.answer(text_block("Tea."), costUSD=True, **{**TOKENS, "inputTokens": "many"})
    source = read_transcript(transcript).entries()[1].source or {}
    assert source["usage"] == {"input_tokens": 10, "output_tokens": 1}
    assert "cost_usd" not in source


def test_cost_is_written_back() -> None:
    entries = read_transcript(all_types()).entries()
    again = read_transcript(write_transcript(entries)).entries()
    assert [(entry.source or {}).get("cost_usd") for entry in again if entry.source] == [
        (entry.source or {}).get("cost_usd") for entry in entries
    ]


@pytest.mark.req("S2-75")
def test_records_that_are_no_conversation_are_only_in_the_raw_bytes(imports: Imports) -> None:
    transcript = all_types()
    imports.add_and_update("a.jsonl", transcript)
    [record] = [record for record in imports.catalogue.records() if b"a.jsonl" in record]
    [raw] = [file.raw for file in read_imported_files(imports.store).values()]
    assert raw.encode() in record
    assert (
        imports.store.raw(ArtifactRef(raw)) == transcript.data == encode_lines(transcript.records)
    )
    kinds = imports.rows("SELECT kind, count(*) FROM messages GROUP BY kind ORDER BY kind")
    assert kinds == [("prompt", 1), ("response", 2), ("system", 1), ("tool_result", 1)]
    asides = [message for message in read_tip(imports) if "an aside" in text_of(message.content)]
    assert len(asides) == 1, "the text of isMeta, which the model reads"


@pytest.mark.req("S2-75", "S2-78")
def test_records_that_are_no_conversation_count_nowhere(tmp_path: Path) -> None:
    figures = []
    for has_asides in (False, True):
        folder = tmp_path / str(has_asides)
        folder.mkdir()
        imports = Imports(folder)
        imports.add_and_update("a.jsonl", all_types(has_asides=has_asides))
        figures.append(overview(imports.facts.database, Scope(), UTC))
    plain, with_asides = figures
    assert (plain.amplification.prompts, plain.amplification.responses) == (1, 2)
    assert with_asides.amplification == plain.amplification
    assert with_asides.outcomes[0].sessions == plain.outcomes[0].sessions == 1


@pytest.mark.req("S2-82")
@pytest.mark.parametrize("status", ["success", "error_max_turns", "error_max_budget_usd"])
def test_lifecycle_of_a_live_session_ends_with_its_metric(imports: Imports, status: str) -> None:
    stream = Stream()
    stream.init()
    stream.user("Is the cafe open?")
    stream.answer("msg_1", words("Let me look."))
    stream.add("system", subtype="compact_boundary", compact_metadata={"trigger": "auto"})
    stream.user("This session is being continued ...", isSynthetic=True)
    stream.answer("msg_2", words("It is."))
    stream.end(subtype=status, timestamp="2026-01-31T12:10:00.000Z")
    commits = StreamCommits(imports.store, "claude", lambda: 0)
    for line in stream.lines:
        commits.add(parse_claude_line(json.dumps(line).encode()))
    imports.update()
    [lifecycle] = overview(imports.facts.database, Scope(), UTC).sessions
    assert (lifecycle.outcome, lifecycle.compactions) == (status, 1)
    assert lifecycle.duration_s == 598.0, "from the prompt, two seconds after noon"


@pytest.mark.req("S2-82")
def test_lifecycle_of_an_imported_session_ends_with_its_result(imports: Imports) -> None:
    transcript = Transcript()
    transcript.user("Is the cafe open?")
    transcript.boundary(transcript.answer(text_block("It is.")))
    transcript.summary()
    transcript.answer(text_block("On it goes."))
    later = "2026-01-31T12:10:00.000Z"
    transcript.add("result", subtype="error_during_execution", timestamp=later)
    imports.add_and_update("a.jsonl", transcript)
    [lifecycle] = overview(imports.facts.database, Scope(), UTC).sessions
    assert (lifecycle.outcome, lifecycle.compactions) == ("error_during_execution", 1)
    assert lifecycle.duration_s == 599.0
