"""Names of files in an outbox."""

from __future__ import annotations

from harken.context.shipping.outbox import shorten_name


def test_name_of_120_characters_is_not_shortened() -> None:
    assert shorten_name("x" * 120) == "x" * 120


def test_shortened_names_are_different() -> None:
    names = {shorten_name("x" * 120 + end) for end in ("1", "2", "11")}
    assert len(names) == 3
    assert all(name.startswith("x" * 120 + "-") and len(name) == 137 for name in names)
