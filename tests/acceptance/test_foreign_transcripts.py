"""Transcripts that real agents wrote are read without a crash, and no line of them is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harken.errors import FormatError
from harken.formats.providers.openai_responses import build_items
from harken.formats.runtimes.base import ReadReport, RuntimeFormat
from harken.formats.runtimes.codex import reader as codex
from harken.formats.runtimes.copilot_cli import reader as copilot_cli
from harken.formats.runtimes.gemini_cli import reader as gemini_cli
from harken.formats.runtimes.pi import reader as pi
from tests.unit.formats.native_kit import open_source, read_context, read_steps, store_and_load

DATA = Path(__file__).parents[3] / "shared" / "data" / "transcripts"
NATIVES: dict[str, RuntimeFormat] = {
    "codex": codex.NATIVE,
    "copilot-cli": copilot_cli.NATIVE,
    "gemini-cli": gemini_cli.NATIVE,
    "pi": pi.NATIVE,
}
HEAD_BYTES = 1 << 16


def files(folder: str) -> list[Path]:
    return [path for path in sorted((DATA / folder).rglob("*.json*")) if path.is_file()]


CASES = [(name, path) for name in NATIVES for path in files(name)]

pytestmark = pytest.mark.skipif(not CASES, reason="the shared data is not here")


def short(value: object) -> str:
    return str(value.relative_to(DATA)) if isinstance(value, Path) else str(value)


@pytest.mark.parametrize(("name", "path"), CASES, ids=short)
def test_every_line_of_a_transcript_is_accounted_for(name: str, path: Path) -> None:
    native = NATIVES[name]
    assert native.is_session_file(str(path), path.read_bytes()[:HEAD_BYTES])
    steps, reading = read_steps(native, path)
    assert reading.session_id
    entries = [entry for step in steps for entry in step.entries]
    assert store_and_load(entries) == entries
    print(f"{name}: {reading.lines} lines, {len(steps)} steps, {len(reading.bad)} bad")


@pytest.mark.parametrize(("name", "path"), CASES, ids=short)
def test_a_transcript_cut_anywhere_is_read(name: str, path: Path) -> None:
    data = path.read_bytes()
    for tenth in range(1, 10):
        reading = ReadReport()
        try:
            list(NATIVES[name].steps(open_source(data[: len(data) * tenth // 10]), reading))
        except FormatError:
            assert name == "gemini-cli"  # a document is whole, or nothing


@pytest.mark.parametrize("name", NATIVES)
def test_unrelated_files_are_refused_or_read(name: str) -> None:
    for path in files("multi"):
        reading = ReadReport()
        try:
            list(NATIVES[name].steps(open_source(path), reading))
        except FormatError:
            continue


@pytest.mark.parametrize("path", files("codex"), ids=short)
def test_rollout_items_round_trip(path: Path) -> None:
    steps, reading = read_steps(codex.NATIVE, path)
    expected: list[object] = []
    for record in map(json.loads, path.read_bytes().splitlines()):
        if record["type"] == "response_item":
            expected.append(record["payload"])
        if record["type"] == "compacted":
            expected = [*record["payload"]["replacement_history"]]
    assert build_items(store_and_load(read_context(steps, reading.tips[""]))) == expected
