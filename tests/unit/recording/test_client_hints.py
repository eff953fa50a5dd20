"""Names that a client sends about itself."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from harken.recording.client_hints import parse_hints
from harken.recording.exchange import ClientHints


def read_hints(headers: dict[str, str], **body: Any) -> ClientHints:
    return parse_hints(headers, "/v1/messages", json.dumps(body).encode())


def test_claude_code_headers_name_session_and_subagent() -> None:
    headers = {
        "user-agent": "claude-cli/2.1.329 (external, cli)",
        "x-claude-code-session-id": "527f0bae-39ea",
        "x-claude-code-agent-id": "a22a8b9b",
    }
    assert read_hints(headers) == ClientHints(
        client="claude-code", session="527f0bae-39ea", agent="a22a8b9b"
    )


def test_older_claude_code_body_names_its_session() -> None:
    headers, id_ = {"user-agent": "claude-cli/1.0.72"}, "c0a6fa8e-5c2a-4b48-b0e1-24d96d1ded26"
    as_json = json.dumps({"device_id": "d5", "session_id": id_})
    assert read_hints(headers, metadata={"user_id": as_json}).session == id_
    assert (
        read_hints(headers, metadata={"user_id": f"user_ab_account__session_{id_}"}).session == id_
    )


def test_codex_headers_name_session_thread_and_parent() -> None:
    turn = {"session_id": "s-1", "thread_id": "t-2", "parent_thread_id": "t-1"}
    expected = ClientHints(client="codex", session="s-1", agent="t-2", parent="t-1", name="review")
    headers = {
        "user-agent": "codex_exec/0.169.0 (Debian 12.0.0; x86_64)",
        "x-openai-subagent": "review",
    }
    assert read_hints({**headers, "x-codex-turn-metadata": json.dumps(turn)}) == expected
    assert read_hints(headers, client_metadata=turn) == expected
    spawned = read_hints({**headers, "x-openai-subagent": "collab_spawn"}, client_metadata=turn)
    assert spawned.name == ""


def test_unique_cache_key_names_a_session() -> None:
    assert (
        read_hints({}, prompt_cache_key="ses_56b1e0d7effeXnl5tFa3").session
        == "ses_56b1e0d7effeXnl5tFa3"
    )
    assert read_hints({}, prompt_cache_key="my-app").session == ""


def test_unknown_client_is_named_by_its_user_agent() -> None:
    assert read_hints({"user-agent": "OpenAI/Python 2.44"}).client == "openai-sdk"
    assert read_hints({"user-agent": "../../Étrange thing/1.0"}).client == ".."
    assert read_hints({"user-agent": "My Tool/1.0"}).client == "my-tool"
    assert read_hints({}) == ClientHints()


def test_names_are_sanitized_and_truncated() -> None:
    hints = read_hints({"session-id": "../../etc/\x1b[31m" + "x" * 1000})
    assert "/" not in hints.session
    assert "\x1b" not in hints.session
    assert len(hints.session) == 120


@given(
    st.dictionaries(
        st.sampled_from(
            ["user-agent", "session-id", "thread-id", "x-codex-turn-metadata", "authorization"]
        ),
        st.text() | st.sampled_from(['{"session_id": 1}', "[", '{"thread_id": {}}', "{}"]),
    ),
    st.binary()
    | st.sampled_from(
        [b"[]", b'{"metadata": 1}', b'{"metadata": {"user_id": []}}', b'{"client_metadata": "x"}']
    ),
)
def test_arbitrary_headers_are_safe_and_credentials_are_not_read(
    headers: dict[str, str], body: bytes
) -> None:
    without = {name: value for name, value in headers.items() if name != "authorization"}
    assert parse_hints(headers, "/v1/responses", body) == parse_hints(without, "/", body)
