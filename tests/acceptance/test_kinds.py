"""Each real transcript is taken for what it is, by what it begins with."""

from __future__ import annotations

import pytest

from harken.formats.runtimes.registry import CHECKED_BYTES, detect_runtime_format
from tests.acceptance.shared_data import needed, transcripts

RUNTIMES = {
    "claude-code": "claude",
    "codex": "codex",
    "copilot-cli": "copilot",
    "gemini-cli": "gemini",
    "pi": "pi",
}

pytestmark = needed


@pytest.mark.parametrize("folder", RUNTIMES)
def test_transcript_format_is_detected(folder: str) -> None:
    for path in transcripts(folder):
        data = path.read_bytes()
        native = detect_runtime_format(str(path), data[:CHECKED_BYTES])
        if native is not None:
            assert native.runtime == RUNTIMES[folder], path
        else:
            assert not data or path.suffix == ".json", path
