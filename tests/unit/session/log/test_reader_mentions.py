"""Names in a log are extracted from any position, including damaged lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken.errors import LogNotFound
from harken.session.log.reader import find_mentioned_names

CTX, ART = "ctx-" + "1a" * 32, "art-" + "0f" * 32


def test_full_names_are_extracted_from_events_texts_and_damage(tmp_path: Path) -> None:
    log = tmp_path / "s.jsonl"
    log.write_bytes(
        f'{{"ctx":"{CTX}"}}\n'.encode()
        + b"\xff damaged "
        + ART.encode()
        + b"\n"
        + f"{CTX[:16]} ctx-{'A' * 64} {ART}0 x{ART[1:]}".encode()
    )
    assert find_mentioned_names(log) == {CTX, ART}


def test_missing_log_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LogNotFound):
        find_mentioned_names(tmp_path / "none.jsonl")
