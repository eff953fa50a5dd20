"""Transcripts that real agents wrote, and what official clients sent after resuming them.

They are beside the project, not in it; without them their tests are skipped, and say so.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).parents[2].parent / "shared" / "data"
needed = pytest.mark.skipif(not DATA.is_dir(), reason="the real transcripts are not here")


@dataclass(frozen=True)
class Recorded:
    """What a client sent after resuming a transcript."""

    name: str
    source: Path
    messages: list[dict[str, Any]]


def transcripts(format: str) -> list[Path]:
    """Return the files of a format."""
    folder = DATA / "transcripts" / format
    return sorted(path for path in folder.rglob("*") if path.is_file())


def recordings() -> list[Recorded]:
    """Return what was recorded of all clients."""
    recorded = []
    for path in sorted(DATA.glob("sent*/*.json")):
        data = json.loads(path.read_bytes())
        source = DATA / "transcripts" / data["source"]
        recorded.append(Recorded(path.stem, source, data["request_messages"]))
    return recorded
