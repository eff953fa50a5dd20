"""Read from a request which client, run and conversation it belongs to.

Every hint may be missing, false or malicious. Hints are only used to group calls. They are
truncated to a short safe text, and only the headers named here are read, so no secret is recorded.

Source: what Claude Code 2.1.329, Codex 0.169.0 and Gemini CLI 0.61.0 send; OpenCode and Pi as they
document it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from harken.core import canonical
from harken.recording.exchange import ClientHints

_CLIENTS = (
    ("claude-cli", "claude-code"),
    ("codex", "codex"),
    ("geminicli", "gemini-cli"),
    ("opencode", "opencode"),
    ("openai/", "openai-sdk"),
    ("asyncopenai/", "openai-sdk"),
    ("anthropic/", "anthropic-sdk"),
    ("asyncanthropic/", "anthropic-sdk"),
    ("google-genai-sdk", "google-sdk"),
    ("pi/", "pi"),
    ("pi-coding-agent", "pi"),
)
"""Prefix of a `User-Agent` -> client."""
_SESSION_HEADERS = (
    "x-claude-code-session-id",
    "session-id",
    "session_id",
    "x-opencode-session",
    "x-session-id",
    "x-session-affinity",
)
_AGENT_HEADERS = ("x-claude-code-agent-id", "thread-id", "x-opencode-agent")
_PARENT_HEADERS = ("x-codex-parent-thread-id", "x-opencode-parent-session")
_MAX_CHARS = 120
"""Names given by a client are truncated to this length."""
_OLD_USER_ID_PATTERN = re.compile(r"_session_([0-9a-f-]{36})$")
_UNIQUE_KEY_PATTERN = re.compile(r"(?=.*\d)[\w.:-]{20,}\Z")
"""Matches a cache key that identifies a conversation, and not all conversations of a program."""


class _BodyMetadata(msgspec.Struct):
    """The members of a body that identify the client, of any type."""

    metadata: Any = None
    client_metadata: Any = None
    prompt_cache_key: Any = None


def parse_hints(headers: Mapping[str, str], path: str, body: bytes) -> ClientHints:
    """Return the client hints of a request. Never raises.

    headers: by lower-case name; path: with its query; body: decompressed.
    """
    metadata = _parse_metadata(body)
    turn = _parse_object(headers.get("x-codex-turn-metadata")) or _codex_turn(
        metadata.client_metadata
    )
    subagent = _sanitize(headers.get("x-openai-subagent"))
    return ClientHints(
        client=_find_client(headers),
        session=_first_header(headers, _SESSION_HEADERS)
        or _sanitize(turn.get("session_id"))
        or _find_session(metadata),
        agent=_first_header(headers, _AGENT_HEADERS) or _sanitize(turn.get("thread_id")),
        parent=_first_header(headers, _PARENT_HEADERS) or _sanitize(turn.get("parent_thread_id")),
        name=_sanitize(headers.get("x-claude-code-agent-name"))
        or ("" if subagent.startswith("collab") else subagent),
    )


def _find_client(headers: Mapping[str, str]) -> str:
    agent = str(headers.get("user-agent", "")).strip().lower()
    for beginning, client in _CLIENTS:
        if agent.startswith(beginning):
            return client
    return re.sub(r"[^a-z0-9._-]+", "-", agent.partition("/")[0])[:32].strip("-")


def _find_session(body: _BodyMetadata) -> str:
    """Return the id of the run that a body names."""
    metadata = body.metadata if isinstance(body.metadata, dict) else {}
    user_id = metadata.get("user_id")
    session_id = _sanitize(_parse_object(user_id).get("session_id")) or _sanitize(
        metadata.get("session_id")
    )
    if session_id:
        return session_id
    old = _OLD_USER_ID_PATTERN.search(user_id) if isinstance(user_id, str) else None
    key = _sanitize(body.prompt_cache_key)
    return old[1] if old else key if _UNIQUE_KEY_PATTERN.match(key) else ""


def _codex_turn(metadata: Any) -> dict[str, Any]:
    """Return the turn metadata of Codex in a body."""
    if not isinstance(metadata, dict):
        return {}
    return {**_parse_object(metadata.get("x-codex-turn-metadata")), **metadata}


def _parse_metadata(body: bytes) -> _BodyMetadata:
    try:
        return msgspec.json.decode(body, type=_BodyMetadata)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _BodyMetadata()


def _parse_object(text: Any) -> dict[str, Any]:
    """Parse the JSON object in a text. Return an empty dict if there is none."""
    if not isinstance(text, str):
        return {}
    try:
        value = canonical.from_json(text.encode("utf-8", "replace"))
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _first_header(headers: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((value for name in names if (value := _sanitize(headers.get(name)))), "")


def _sanitize(value: Any) -> str:
    """Return a short text without characters that are special to a terminal or a file system."""
    if not isinstance(value, str):
        return ""
    return re.sub(r"[^\w.:@ -]+", "_", value.strip())[:_MAX_CHARS]
