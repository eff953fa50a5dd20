"""Files that match a query by the characters of their path."""

from __future__ import annotations

import time

from harken.attribution.git.tracked_files import filter_paths


def test_characters_match_in_their_order_only() -> None:
    assert filter_paths(["main.py", "niam.py"], "man", 9) == ["main.py"]
    assert filter_paths(["aab", "ab"], "abb", 9) == []
    assert filter_paths(["Straße.md"], "STRASSE", 9) == ["Straße.md"]


def test_better_matches_are_first() -> None:
    paths = ["m/a/i/n", "x/main/y", "x/domain.py", "x/main.py"]
    assert filter_paths(paths, "main", 9) == ["x/main.py", "x/domain.py", "x/main/y", "m/a/i/n"]


def test_a_path_that_repeats_the_characters_costs_no_more_than_its_length() -> None:
    started_at = time.process_time()
    assert filter_paths(["a" * 4000] * 100, "a" * 40 + "b", 9) == []
    assert time.process_time() - started_at < 5  # With backtracking it does not end.
