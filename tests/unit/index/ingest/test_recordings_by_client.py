"""Recordings of Codex and Pi that are imported too: answers of several items, and no session id."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harken.recording.exchange import ClientHints
from tests.recording_kit import RecordedClient, open_recorder
from tests.two_sources_kit import IndexContent, read_rebuilt_index
from tests.unit.formats.transcript_kit import encode_lines
from tests.unit.index.index_kit import Imports

CODEX = "019f17a5-0000-7000-8000-000000000001"
ITEMS: list[dict[str, Any]] = [
    {"type": "reasoning", "id": "rs_01000000000000000001", "summary": []},
    {
        "type": "message",
        "id": "msg_0100000000000000001",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "I look."}],
    },
    {
        "type": "function_call",
        "id": "fc_01000000000000000001",
        "name": "shell",
        "arguments": "{}",
        "call_id": "call_0100000000000000001",
    },
]
PROMPT = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}


def record_codex(folder: Path) -> None:
    """Record a call of Codex, whose answer is three items."""
    hints = ClientHints(client="codex", session=CODEX, agent=CODEX)
    client = RecordedClient(
        open_recorder(folder), hints, protocol="openai-responses", path="/v1/responses"
    )
    id_ = client.begin({"model": "gpt", "instructions": "You are Codex.", "input": [PROMPT]})
    usage = {"input_tokens": 70, "output_tokens": 7}
    response = {"id": "resp_010000000000000001", "model": "gpt", "status": "completed"}
    client.end(id_, whole={**response, "object": "response", "output": ITEMS, "usage": usage})
    client.recorder.close()


def rollout() -> bytes:
    """Return the file of the same call, with the result that the recording lacks."""
    meta = {"id": CODEX, "timestamp": "2026-01-31T12:00:00.000Z", "cwd": "/cafe"}
    result = {
        "type": "function_call_output",
        "call_id": ITEMS[2]["call_id"],
        "output": "Process exited with code 1\nOutput:\nno",
    }
    lines = [
        {"type": "session_meta", "payload": {**meta, "cli_version": "0.169.0"}},
        {"type": "response_item", "payload": PROMPT},
        *({"type": "response_item", "payload": item} for item in [*ITEMS, result]),
    ]
    return encode_lines({"timestamp": meta["timestamp"], **line} for line in lines)


@pytest.mark.parametrize("is_file_first", [True, False])
def test_an_answer_of_several_items_is_one_response(
    imports: Imports, tmp_path: Path, is_file_first: bool
) -> None:
    for is_file in (is_file_first, not is_file_first):
        if is_file:
            imports.add(f"rollout-2026-01-31T12-00-00-{CODEX}.jsonl", rollout())
        else:
            record_codex(tmp_path / "logs")
            imports.logs[:] = sorted((tmp_path / "logs").glob("*.jsonl"))
        imports.update()
    assert imports.column("SELECT name FROM sessions") == [f"codex:{CODEX}"]
    query = "SELECT response, input_tokens, m.kind, m.part_of FROM requests "
    rows = imports.rows(f"{query} JOIN messages m ON m.id = message_id")
    assert rows == [("rs_01000000000000000001", 70, "response", None)]
    query = "SELECT count(*) FROM messages WHERE kind = 'response' AND NOT is_repeat"
    assert imports.column(f"{query} AND part_of IS NULL") == [1]
    assert imports.column(query) == [3]
    assert IndexContent.read(imports.facts.database) == read_rebuilt_index(imports)


def test_the_result_that_only_the_file_has_completes_the_recorded_call(
    imports: Imports, tmp_path: Path
) -> None:
    record_codex(tmp_path / "logs")
    imports.logs[:] = sorted((tmp_path / "logs").glob("*.jsonl"))
    imports.update()
    assert imports.rows("SELECT name, result_id FROM tool_calls") == [("shell", None)]
    imports.add_and_update(f"rollout-2026-01-31T12-00-00-{CODEX}.jsonl", rollout())
    (result,) = imports.column("SELECT id FROM messages WHERE role = 'tool'")
    assert imports.rows("SELECT result_id, is_error FROM tool_calls") == [(result, 1)]


def pi_file() -> bytes:
    """Return a file of Pi with a prompt and an answer, and the cost of it."""
    usage = {"input": 70, "output": 7, "cost": {"total": 0.5}}
    texts = [{"type": "text", "text": "Yes."}]
    answer = {"role": "assistant", "content": texts, "model": "odd", "usage": usage}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "Tea?"}], "timestamp": 1},
        {**answer, "responseId": "chatcmpl-0100000000000001", "timestamp": 2},
    ]
    time = "2026-01-31T12:00:00.000Z"
    entries = [
        {
            "type": "message",
            "id": f"p{n}",
            "parentId": f"p{n - 1}" if n else None,
            "message": message,
        }
        for n, message in enumerate(messages)
    ]
    head: dict[str, Any] = {"type": "session", "version": 3, "id": "5e55", "cwd": "/cafe"}
    return encode_lines({**line, "timestamp": time} for line in [head, *entries])


@pytest.mark.parametrize("is_file_first", [True, False])
def test_without_the_id_of_the_session_each_response_counts_once(
    imports: Imports, tmp_path: Path, is_file_first: bool
) -> None:
    """Pi does not name its session to each provider. The cost is known from its file only."""
    for is_file in (is_file_first, not is_file_first):
        if is_file:
            imports.add("pi.jsonl", pi_file())
        else:
            client = RecordedClient(
                open_recorder(tmp_path / "logs", store=imports.store),
                ClientHints(client="openai-sdk"),
                protocol="openai-chat",
                path="/v1/chat/completions",
            )
            body = {"model": "odd", "messages": [{"role": "user", "content": "Tea?"}]}
            message = {"role": "assistant", "content": "Yes."}
            response = {
                "id": "chatcmpl-0100000000000001",
                "object": "chat.completion",
                "model": "odd",
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 80, "completion_tokens": 8},
            }
            client.end(client.begin(body), whole=response)
            client.recorder.close()
            imports.logs[:] = sorted((tmp_path / "logs").glob("*.jsonl"))
        imports.update()
    query = "SELECT s.runtime, input_tokens, output_tokens, cost_usd, is_cost_told FROM requests "
    rows = imports.rows(f"{query} JOIN sessions s ON s.id = session_id")
    assert rows == [("harken", 80, 8, 0.5, 1)]
    query = "SELECT count(*) FROM messages WHERE kind = 'response' AND NOT is_repeat"
    assert imports.column(query) == [1]
    outcomes = dict(imports.rows("SELECT runtime, outcome FROM sessions"))
    assert outcomes == {"harken": "success", "pi": None}
    assert IndexContent.read(imports.facts.database) == read_rebuilt_index(imports)
