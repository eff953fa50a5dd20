"""A run that is replayed from its own log writes the same log."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from harken.agents.load import load_session
from harken.agents.runtime import AgentRuntime
from harken.llm.base import Model
from harken.llm.replay import ReplayModel
from harken.llm.scripted import ScriptedModel

SCRIPT: list[dict[str, Any]] = [
    {
        "agent": "main",
        "turn": 1,
        "thinking": "I need Jack and Jill.",
        "answer": "A moment.",
        "calls": [
            {"task": {"name": "Jack", "instructions": "You are Jack."}},
            {"task": {"name": "Jill", "instructions": "You are Jill."}},
        ],
        "usage": {"input_tokens": 10, "output_tokens": 5},
    },
    {
        "agent": "main",
        "turn": 2,
        "calls": [{"discuss": {"prompt": "Greet.", "speakers": ["Jack", "Jill"]}}],
    },
    {"agent": "main", "answer": "They have met."},
    {"agent": "J*", "answer": "Hello."},
]
VARYING = ("sum", "time", "session_id", "model", "language_model", "latency_s")


async def run(log: Path, model: Model) -> list[dict[str, Any]]:
    """Run agents and return their log without the members that differ between runs."""
    root, session = load_session(log, runtime=AgentRuntime(model=model), name="main")
    with session:
        assert await root.response("Let Jack meet Jill.") == "They have met."
    events = [json.loads(line) for line in log.read_text().splitlines()]
    return [{key: event[key] for key in event if key not in VARYING} for event in events]


def test_run_replayed_from_its_own_log_writes_the_same_log(tmp_path: Path) -> None:
    recorded = asyncio.run(run(tmp_path / "one.jsonl", ScriptedModel(SCRIPT)))
    repeated = asyncio.run(run(tmp_path / "two.jsonl", ReplayModel.load(tmp_path / "one.jsonl")))
    assert repeated == recorded
