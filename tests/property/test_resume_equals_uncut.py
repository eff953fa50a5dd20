"""A session that is cut after any group and resumed equals the uncut session, event for event."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.property.resumed_sessions import Script, differences

SEEDS = 165
AT_ONCE = (*range(20), 35, 58, 85, 93, 98, 106, 107, 118, 2269, 9018, 9023, 9044, 9050, 9558)
"""Seeds of sessions with calls at once; from 35 on, those whose hooks were once asked in another
order after a resume."""


def check_equal(script: Script, folder: Path, *, every: int = 1) -> int:
    """Check each resume, and return the number of cuts."""
    found = dict(differences(script, folder, every=every))
    assert {number: text for number, text in found.items() if text} == {}
    return len(found)


@pytest.mark.req("S0-32", "S4-04")
@pytest.mark.parametrize("seed", [3, 7])
def test_a_resumed_session_equals_the_uncut_one(tmp_path: Path, seed: int) -> None:
    assert check_equal(Script(seed), tmp_path, every=3) > 10


@pytest.mark.req("S0-32", "S4-04", "S4-19")
@pytest.mark.parametrize(("seed", "every"), [(2, 5), (93, 1), (98, 4), (2269, 1), (9558, 7)])
def test_a_resumed_session_with_calls_at_once_equals_the_uncut_one(
    tmp_path: Path, seed: int, every: int
) -> None:
    assert check_equal(Script(seed, is_parallel=True), tmp_path, every=every) > 10


@pytest.mark.req("S0-32", "S4-04")
@pytest.mark.parametrize("seed", [3])
def test_a_resumed_discussion_with_moves_equals_the_uncut_one(tmp_path: Path, seed: int) -> None:
    assert check_equal(Script(seed, has_moves=True), tmp_path, every=2) > 10


@pytest.mark.full
@pytest.mark.req("S0-32", "S4-04")
def test_resumed_discussions_with_moves_equal_the_uncut_ones(tmp_path: Path) -> None:
    for seed in range(20):
        check_equal(Script(seed, has_moves=True), tmp_path / str(seed), every=3)


@pytest.mark.full
@pytest.mark.req("S0-32", "S4-04", "S4-19")
def test_resumed_sessions_with_calls_at_once_equal_the_uncut_ones(tmp_path: Path) -> None:
    for seed in AT_ONCE:
        check_equal(Script(seed, is_parallel=True), tmp_path / str(seed))


@pytest.mark.full
@pytest.mark.req("S0-32", "S4-04")
def test_resumed_sessions_equal_the_uncut_ones_at_every_cut(tmp_path: Path) -> None:
    counts = [check_equal(Script(seed), tmp_path / str(seed)) for seed in range(SEEDS)]
    assert sum(counts) >= 10_000
