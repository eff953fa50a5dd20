"""The session and the spawner of a subagent file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harken.capture.files.peek import SpawnKey, read_spawned

SPAWN = {"subagent": {"thread_spawn": {"parent_thread_id": "p"}}}
CODEX = {"type": "session_meta", "payload": {"id": "a", "source": SPAWN}}
FORKED = {"type": "session_meta", "payload": {"id": "a", "source": SPAWN, "forked_from_id": "f"}}
CLAUDE = {"type": "user", "isSidechain": True, "agentId": "a", "sessionId": "s"}


@pytest.mark.parametrize(
    ("record", "spawned"),
    [
        (CODEX, ("codex", "p", "a")),
        (FORKED, ("codex", "f", "a")),
        (CLAUDE, ("claude", "s", "a")),
        ({**CLAUDE, "isSidechain": False}, None),
        ({"type": "session_meta", "payload": {"id": "a", "source": "exec"}}, None),
        ({"type": "user", "isSidechain": True}, None),
    ],
)
def test_first_record_names_the_spawner(
    record: dict[str, Any], spawned: SpawnKey | None, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"no record\n" + json.dumps(record).encode() + b"\n")
    assert read_spawned(path) == spawned
    assert read_spawned(tmp_path / "nowhere") is None
