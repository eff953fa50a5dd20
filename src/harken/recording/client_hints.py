"""What a client says of itself beside a request: which run, which conversation of it, which parent.

One idea: everything here may be missing, false or meant as an attack. It is used to find what
belongs together, and nothing else rests on it; so it is cut to a plain, short text, and a secret
has no way in: of the headers only those named here are read.

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
"""How a `User-Agent` begins -> the client."""
_SESSION = (
    "x-claude-code-session-id",
    "session-id",
    "session_id",
    "x-opencode-session",
    "x-session-id",
    "x-session-affinity",
)
_AGENT = ("x-claude-code-agent-id", "thread-id", "x-opencode-agent")
_PARENT = ("x-codex-parent-thread-id", "x-opencode-parent-session")
_MOST = 120
"""What a client calls something is cut to so many characters."""
_OLD_USER_ID = re.compile(r"_session_([0-9a-f-]{36})$")
_UNIQUE = re.compile(r"(?=.*\d)[\w.:-]{20,}\Z")
"""A cache key that names a conversation, and not all conversations of a program."""


class _Said(msgspec.Struct):
    """The members of a body that tell of the client; whatever they are."""

    metadata: Any = None
    client_metadata: Any = None
    prompt_cache_key: Any = None


def hints_of(headers: Mapping[str, str], path: str, body: bytes) -> ClientHints:
    """Return what a request says of its client. Never raises.

    headers: by lower-case name; path: with its query; body: decompressed.
    """
    said = _said(body)
    turn = _object(headers.get("x-codex-turn-metadata")) or _turn(said.client_metadata)
    subagent = _plain(headers.get("x-openai-subagent"))
    return ClientHints(
        client=_client(headers),
        session=_first(headers, _SESSION) or _plain(turn.get("session_id")) or _session(said),
        agent=_first(headers, _AGENT) or _plain(turn.get("thread_id")),
        parent=_first(headers, _PARENT) or _plain(turn.get("parent_thread_id")),
        name=_plain(headers.get("x-claude-code-agent-name"))
        or ("" if subagent.startswith("collab") else subagent),
    )


def _client(headers: Mapping[str, str]) -> str:
    agent = str(headers.get("user-agent", "")).strip().lower()
    for beginning, client in _CLIENTS:
        if agent.startswith(beginning):
            return client
    return re.sub(r"[^a-z0-9._-]+", "-", agent.partition("/")[0])[:32].strip("-")


def _session(said: _Said) -> str:
    """Return the run that a body names."""
    metadata = said.metadata if isinstance(said.metadata, dict) else {}
    user_id = metadata.get("user_id")
    named = _plain(_object(user_id).get("session_id")) or _plain(metadata.get("session_id"))
    if named:
        return named
    old = _OLD_USER_ID.search(user_id) if isinstance(user_id, str) else None
    key = _plain(said.prompt_cache_key)
    return old[1] if old else key if _UNIQUE.match(key) else ""


def _turn(metadata: Any) -> dict[str, Any]:
    """Return what Codex says of a turn in a body."""
    if not isinstance(metadata, dict):
        return {}
    return {**_object(metadata.get("x-codex-turn-metadata")), **metadata}


def _said(body: bytes) -> _Said:
    try:
        return msgspec.json.decode(body, type=_Said)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Said()


def _object(text: Any) -> dict[str, Any]:
    """Return the JSON object in a text; empty where there is none."""
    if not isinstance(text, str):
        return {}
    try:
        found = canonical.from_json(text.encode("utf-8", "replace"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _first(headers: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((value for name in names if (value := _plain(headers.get(name)))), "")


def _plain(value: Any) -> str:
    """Return a short text without anything that means something to a terminal or a file system."""
    if not isinstance(value, str):
        return ""
    return re.sub(r"[^\w.:@ -]+", "_", value.strip())[:_MOST]
