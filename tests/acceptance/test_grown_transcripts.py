"""A file that grows is imported as if it were always read from its beginning."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from harken.capture.files.sources import iter_files
from harken.formats.runtimes.registry import CHECKED_BYTES, detect_runtime_format
from tests.acceptance.grown_kit import check_growth
from tests.acceptance.shared_data import DATA

MAX_BYTES = 400_000
RUNTIMES = ("claude-code", "codex")


def _files(runtime: str) -> list[Path]:
    folder = DATA / "transcripts" / runtime
    files = [*iter_files(folder)] if folder.is_dir() else []
    return sorted(
        file.path
        for file in files
        if 2_000 < file.size < MAX_BYTES
        and file.path.suffix == ".jsonl"
        and detect_runtime_format(file.display_name, file.read_beginning(CHECKED_BYTES))
    )


CASES = [path for runtime in RUNTIMES for path in _files(runtime)]
pytestmark = pytest.mark.skipif(not CASES, reason="the shared data is not here")


def _cut(data: bytes, rng: random.Random, count: int) -> list[int]:
    """Return random offsets: anywhere, and at ends of lines, of which some follow each other."""
    offsets = {rng.randrange(1, len(data)) for _ in range(count)}
    ends = [index + 1 for index in range(len(data)) if data[index : index + 1] == b"\n"]
    start = rng.randrange(len(ends))
    return sorted(
        {*offsets, *rng.sample(ends, min(count, len(ends))), *ends[start : start + count]}
    )


def _check(path: Path, folder: Path, seed: int, count: int) -> None:
    data, rng = path.read_bytes(), random.Random(f"{path.name} {seed}")
    offsets = [*_cut(data, rng, count), len(data)]
    restarts = [rng.random() < 0.4 for _ in offsets]
    check_growth(folder, path.name, [data[:offset] for offset in offsets], restarts)


@pytest.mark.parametrize(
    "path", random.Random(1).sample(CASES, min(16, len(CASES))), ids=lambda p: p.name[:24]
)
def test_growth_equals_reading_from_the_beginning(path: Path, tmp_path: Path) -> None:
    _check(path, tmp_path, 0, 4)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("path", CASES, ids=lambda p: p.name[:24])
def test_growth_of_every_transcript(path: Path, seed: int, tmp_path: Path) -> None:
    _check(path, tmp_path, seed + 1, 8)
