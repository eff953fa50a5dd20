"""A file that grows is imported as if it were always read from its beginning."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from harken.capture.files.sources import iter_files
from harken.formats.runtimes.registry import CHECKED_BYTES, detect_runtime_format
from tests.acceptance.grown_kit import check_growth
from tests.acceptance.shared_data import DATA
from tests.unit.formats.grown_session_kit import copilot_session, gemini_chat, pi_session

MAX_BYTES = 3_000_000
MAX_QUICK_BYTES = 400_000
RUNTIMES = ("claude", "codex", "pi", "copilot", "gemini")
"""The runtimes whose files are read from a read point."""


def _list_files() -> dict[Path, str]:
    """Return the files of lines of these runtimes, with the runtime of each."""
    runtimes: dict[Path, str] = {}
    folder = DATA / "transcripts"
    for file in iter_files(folder) if folder.is_dir() else ():
        if 2_000 < file.size < MAX_BYTES and file.path.suffix == ".jsonl":
            beginning = file.read_beginning(CHECKED_BYTES)
            format_ = detect_runtime_format(file.display_name, beginning)
            if format_ is not None and format_.runtime in RUNTIMES:
                runtimes[file.path] = format_.runtime
    return dict(sorted(runtimes.items()))


FILES = _list_files()
needs_files = pytest.mark.skipif(not FILES, reason="the shared data is not here")


def _sample_files() -> list[Path]:
    """Return a few smaller files of each runtime."""
    quick = [path for path in FILES if path.stat().st_size < MAX_QUICK_BYTES]
    by_runtime = [[path for path in quick if FILES[path] == runtime] for runtime in RUNTIMES]
    rng = random.Random(1)
    return [path for paths in by_runtime for path in rng.sample(paths, min(4, len(paths)))]


def _cut(data: bytes, rng: random.Random, count: int) -> list[int]:
    """Return random offsets: anywhere, and at ends of lines, of which some follow each other."""
    offsets = {rng.randrange(1, len(data)) for _ in range(count)}
    ends = [index + 1 for index in range(len(data)) if data[index : index + 1] == b"\n"]
    start = rng.randrange(len(ends))
    return sorted(
        {*offsets, *rng.sample(ends, min(count, len(ends))), *ends[start : start + count]}
    )


def _check(data: bytes, name: str, folder: Path, seed: int, count: int) -> None:
    rng = random.Random(f"{name} {seed}")
    offsets = [*_cut(data, rng, count), len(data)]
    restarts = [rng.random() < 0.4 for _ in offsets]
    check_growth(folder, name, [data[:offset] for offset in offsets], restarts)


@needs_files
@pytest.mark.parametrize("path", _sample_files(), ids=lambda p: f"{FILES[p]} {p.name[:24]}")
def test_growth_equals_reading_from_the_beginning(path: Path, tmp_path: Path) -> None:
    _check(path.read_bytes(), path.name, tmp_path, 0, 4)


@needs_files
@pytest.mark.full
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{FILES[p]} {p.name[:24]}")
def test_growth_of_every_transcript(path: Path, seed: int, tmp_path: Path) -> None:
    _check(path.read_bytes(), path.name, tmp_path, seed + 1, 8)


SESSIONS: dict[str, Callable[[int, int], bytes]] = {
    "pi": pi_session,
    "copilot": copilot_session,
    "gemini": gemini_chat,
}


@pytest.mark.parametrize("runtime", SESSIONS)
def test_growth_of_written_sessions(runtime: str, tmp_path: Path) -> None:
    for seed in range(2):
        data = SESSIONS[runtime](seed, 80)
        _check(data, f"{runtime}.jsonl", tmp_path / str(seed), seed, 4)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("runtime", SESSIONS)
def test_growth_of_many_written_sessions(runtime: str, seed: int, tmp_path: Path) -> None:
    _check(SESSIONS[runtime](seed, 100 + 25 * seed), f"{runtime}.jsonl", tmp_path, seed, 8)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("runtime", SESSIONS)
def test_truncated_replaced_and_changed_sessions(runtime: str, seed: int, tmp_path: Path) -> None:
    rng = random.Random(f"{runtime} {seed}")
    data, other = SESSIONS[runtime](seed, 120), SESSIONS[runtime](seed + 100, 120)
    lines = data.splitlines(keepends=True)
    third = len(lines) // 3
    end = len(b"".join(lines[: 2 * third]))
    changed = data.replace(b"answer", b"ANSWER", 1)
    states = [
        data[:end],
        data,
        changed,  # in place, with the same size
        changed + lines[-1],
        data[: rng.randrange(end)],  # truncated
        data,
        other,  # replaced
        other + lines[third],
        b"".join([lines[0], *lines[third:]]),  # rotated
        b"".join([lines[0], *lines[third:], *lines[1:third]]),
    ]
    restarts = [rng.random() < 0.3 for _ in states]
    check_growth(tmp_path, f"{runtime}.jsonl", states, restarts, pause_s=60)
