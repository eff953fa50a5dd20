"""A flipped bit in a store file is reported, or does not change any read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from harken.errors import HarkenError
from harken.store.base import Store
from harken.store.fsck import StoreFinding, fsck
from harken.store.sqlite.store import SqliteStore
from tests.crash.lived_in import Questions, contents, lists, live, packs_in

_PAGE = 4096


@dataclass(frozen=True, slots=True)
class Whole:
    """An undamaged store and the results of its reads."""

    path: Path
    data: bytes
    contents: Mapping[int, Questions]
    lists: Questions
    answers: Mapping[str, Any]

    def flipped(self, bit: int) -> None:
        """Restore the file and flip one bit."""
        harmed = bytearray(self.data)
        harmed[bit // 8] ^= 1 << bit % 8
        self.path.write_bytes(harmed)
        for other in ("-wal", "-shm"):
            self.path.with_name(self.path.name + other).unlink(missing_ok=True)


def whole(path: Path, steps: int) -> Whole:
    live(path, steps)
    packs = packs_in(path)
    data = path.read_bytes()
    inside, about = contents(packs), lists(packs)
    store = SqliteStore(path)
    answers = {name: ask(store) for some in (*inside.values(), about) for name, ask in some.items()}
    assert fsck(store) == []
    store.close()
    assert path.read_bytes() == data, "to read is not to write"
    return Whole(path, data, inside, about, answers)


def answer(store: Store, questions: Questions, name: str) -> Any:
    try:
        return questions[name](store)
    except HarkenError as error:
        return error


def check(whole: Whole, bit: int) -> str:
    """Flip one bit and run all reads. Return how the damage was noticed."""
    whole.flipped(bit)
    try:
        store = SqliteStore(whole.path)
    except HarkenError:
        return "refused"
    try:
        found = fsck(store)
        lost = [number for number in whole.contents if not _same(store, whole, number, found)]
        for name in whole.lists:
            if answer(store, whole.lists, name) != whole.answers[name]:
                assert found, f"bit {bit}: {name} is another, and fsck says nothing"
    finally:
        store.close()
    if all(one.place.startswith("pack ") or " is missing" in f" {one.problem}" for one in found):
        assert len(lost) <= 1, f"bit {bit}: packs {lost} cannot be read, {found[:3]} is wrong"
    return "found" if found else "harmless"


def _same(store: Store, whole: Whole, number: int, found: list[StoreFinding]) -> bool:
    """Whether a pack returns its objects. It never returns different ones."""
    same = True
    for name in whole.contents[number]:
        now, before = answer(store, whole.contents[number], name), whole.answers[name]
        if now != before:
            same = False
            assert found, f"{name}: {now!r:.200}, and fsck says nothing"
            if not isinstance(now, HarkenError):
                assert now.items() <= before.items(), f"{name} gives something else"
    return same


def bits(whole: Whole, dice: Random, flips: int) -> list[int]:
    """Return positions: some in the first pages, which hold the schema, most anywhere."""
    anywhere, first = 8 * len(whole.data), 8 * 10 * _PAGE
    return [dice.randrange(anywhere if at % 8 else first) for at in range(flips)]


@pytest.mark.req("D-02", "S2-69")
def test_flipped_bit_is_reported_or_harmless(tmp_path: Path) -> None:
    one = whole(tmp_path / "s.db", steps=20)
    noticed = Counter(check(one, bit) for bit in bits(one, Random(1), 300))
    assert noticed["found"] > 50


@pytest.mark.full
@pytest.mark.req("D-02", "S2-69")
@pytest.mark.parametrize("seed", range(20))
def test_10000_flipped_bits_are_reported_or_harmless(tmp_path: Path, seed: int) -> None:
    one = whole(tmp_path / "s.db", steps=400)
    assert len(one.data) > 500_000
    noticed = Counter(check(one, bit) for bit in bits(one, Random(seed), 500))
    assert noticed["found"] > 200
