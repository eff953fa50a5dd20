"""What official clients sent after resuming a transcript is what Harken says that they send.

The only place where a difference is allowed, with its reason, is `harken.capture.resume.allowed_differences`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harken.capture.resume.verify import compare_requests
from harken.formats.runtimes.base import RuntimeFormat
from harken.formats.runtimes.codex import reader as codex
from harken.formats.runtimes.pi import reader as pi
from tests.unit.formats.native_kit import read_context, read_steps, store_and_load

DATA = Path(__file__).parents[3] / "shared" / "data"
CLIENTS: dict[str, RuntimeFormat] = {"cx": codex.NATIVE, "pi": pi.NATIVE}
RECORDINGS = [path for path in sorted(DATA.glob("sent/*.json")) if path.name[:2] in CLIENTS]


@pytest.mark.skipif(not RECORDINGS, reason="the shared data is not here")
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
@pytest.mark.req("S2-55")
def test_resume_request_equals_the_request_of_the_client(path: Path) -> None:
    native = CLIENTS[path.name[:2]]
    recorded = json.loads(path.read_bytes())
    steps, reading = read_steps(native, DATA / "transcripts" / recorded["source"])
    assert native.build_resume_request
    request = native.build_resume_request(
        store_and_load(read_context(steps, next(iter(reading.tips.values()))))
    )
    differences = compare_requests(native.runtime, request, recorded["request_messages"])
    assert differences.differences == []
    assert len(differences.rows) == len(request)
