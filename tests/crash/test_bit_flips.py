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
from harken.store.sqlite.database import PAGE_BYTES
from harken.store.sqlite.store import SqliteStore
from tests.crash.realistic_store import (
    Questions,
    fill_store,
    listing_reads,
    object_reads,
    read_packs,
)

_PAGE = PAGE_BYTES


@dataclass(frozen=True, slots=True)
class SoundStore:
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
        for suffix in ("-wal", "-shm"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)


def measure_store(path: Path, steps: int) -> SoundStore:
    fill_store(path, steps)
    packs = read_packs(path)
    data = path.read_bytes()
    inside, about = object_reads(packs), listing_reads(packs)
    store = SqliteStore(path)
    answers = {
        name: ask(store) for reads in (*inside.values(), about) for name, ask in reads.items()
    }
    assert fsck(store) == []
    store.close()
    assert path.read_bytes() == data, "to read is not to write"
    return SoundStore(path, data, inside, about, answers)


def answer(store: Store, questions: Questions, name: str) -> Any:
    try:
        return questions[name](store)
    except HarkenError as error:
        return error


def check(sound: SoundStore, bit: int) -> str:
    """Flip one bit and run all reads. Return how the damage was noticed."""
    sound.flipped(bit)
    try:
        store = SqliteStore(sound.path)
    except HarkenError:
        return "refused"
    try:
        findings = fsck(store)
        changed_packs = [
            number for number in sound.contents if not _same(store, sound, number, findings)
        ]
        for name in sound.lists:
            if answer(store, sound.lists, name) != sound.answers[name]:
                assert findings, f"bit {bit}: {name} is another, and fsck says nothing"
    finally:
        store.close()
    if all(
        finding.place.startswith("pack ") or " is missing" in f" {finding.problem}"
        for finding in findings
    ):
        assert len(changed_packs) <= 1, (
            f"bit {bit}: packs {changed_packs} cannot be read, {findings[:3]} is wrong"
        )
    return "found" if findings else "harmless"


def _same(store: Store, sound: SoundStore, number: int, findings: list[StoreFinding]) -> bool:
    """Whether a pack returns its objects. It never returns different ones."""
    same = True
    for name in sound.contents[number]:
        now, before = answer(store, sound.contents[number], name), sound.answers[name]
        if now != before:
            same = False
            assert findings, f"{name}: {now!r:.200}, and fsck says nothing"
            if not isinstance(now, HarkenError):
                assert now.items() <= before.items(), f"{name} gives something else"
    return same


def bits(sound: SoundStore, dice: Random, flips: int) -> list[int]:
    """Return positions: some in the first pages, which hold the schema, most anywhere."""
    anywhere, first = 8 * len(sound.data), 8 * 10 * _PAGE
    return [dice.randrange(anywhere if index % 8 else first) for index in range(flips)]


@pytest.mark.req("D-02", "S2-69")
def test_flipped_bit_is_reported_or_harmless(tmp_path: Path) -> None:
    sound = measure_store(tmp_path / "s.db", steps=20)
    noticed = Counter(check(sound, bit) for bit in bits(sound, Random(1), 300))
    assert noticed["found"] > 50


@pytest.mark.full
@pytest.mark.req("D-02", "S2-69")
@pytest.mark.parametrize("seed", range(20))
def test_10000_flipped_bits_are_reported_or_harmless(tmp_path: Path, seed: int) -> None:
    sound = measure_store(tmp_path / "s.db", steps=400)
    assert len(sound.data) > 500_000
    noticed = Counter(check(sound, bit) for bit in bits(sound, Random(seed), 500))
    assert noticed["found"] > 200
