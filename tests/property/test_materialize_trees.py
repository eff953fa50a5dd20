"""Materialized contexts in any order equal those that are computed from the commits alone."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harken.context.history import diff, find_common_ancestor
from harken.context.materialize import Cache, materialize, select_commits, walk
from harken.context.message_reader import read_entry_messages
from harken.core.commits import CommitId
from harken.core.messages import text_of
from harken.errors import NameNotFound
from harken.store.base import Store
from harken.store.copying.commits import copy_commits
from harken.store.memory import MemoryStore
from harken.store.sqlite.store import SqliteStore
from tests.unit.context.kit import commit

LENGTH = 70


def grow_history(store: Store, dice: Random) -> list[CommitId]:
    """Write a random history: long chains with forks, compactions, snapshots and spawns."""
    names: list[CommitId] = []
    for number in range(LENGTH):
        parent = names[-1] if names else None
        if names and dice.random() < 0.05:
            parent = dice.choice(names)
        kind = dice.random()
        if number == 0 or kind > 0.08:
            texts = [f"{number}.{index}" for index in range(dice.choice([0, 1, 1, 2]))]
            names.append(commit(store, parent, *texts, token_count=number))
        elif kind > 0.04:
            names.append(commit(store, parent, "sum", type="compaction", trigger="compaction"))
        else:
            trigger = dice.choice(["spawn", "explicit"])
            names.append(commit(store, parent, "all", type="snapshot", trigger=trigger))
    return names


def expected_texts(store: Store, ctx: CommitId, stop: str) -> list[str]:
    """Return the texts, read delta by delta from the selected commits."""
    names = [stored.commit.artifact for stored in select_commits(store, ctx, stop)]
    entries = [entry for name in names for entry in store.deltas([name])[name]]
    return [text_of(message.content) for message in read_entry_messages(store, entries)]


@pytest.mark.req("S2-12", "S2-17")
@settings(max_examples=15, deadline=None)
@given(st.integers(min_value=0))
def test_any_order_gives_the_artifact_that_a_new_store_gives(seed: int) -> None:
    dice, store = Random(seed), MemoryStore()
    cache: Cache = {}
    names = grow_history(store, dice)
    for _ in range(40):
        ctx = dice.choice(names)
        ancestors = [stored.id for stored in walk(store, ctx)]
        stop = dice.choice(["root", "compaction", dice.choice(ancestors)])
        try:
            expected = expected_texts(store, ctx, stop)
        except NameNotFound:
            with pytest.raises(NameNotFound):
                materialize(store, ctx, stop, cache)
            continue
        context = materialize(store, ctx, stop, dice.choice([None, cache]))
        assert [text_of(message.content) for message in context.messages] == expected
        fresh = MemoryStore()
        copy_commits(store, fresh, [ctx])
        again = materialize(fresh, ctx, stop)
        assert (again, again.artifact_count) == (context, context.artifact_count)
        assert again.messages == context.messages


@pytest.mark.req("S2-08")
@settings(max_examples=10, deadline=None)
@given(st.integers(min_value=0))
def test_file_and_memory_give_the_same_differences(seed: int) -> None:
    dice, memory = Random(seed), MemoryStore()
    names = [*grow_history(memory, dice), commit(memory, None, "elsewhere")]
    with TemporaryDirectory() as folder, closing(SqliteStore(Path(folder, "s.db"))) as file:
        copy_commits(memory, file, names)
        for _ in range(30):
            ours, theirs = dice.choice(names), dice.choice(names)
            above = {stored.id for stored in walk(memory, ours)}
            common = (stored.id for stored in walk(memory, theirs) if stored.id in above)
            expected = next(common, None)
            assert find_common_ancestor(memory, ours, theirs) == expected
            assert file.common_ancestor(ours, theirs) == expected
            assert diff(memory, ours, theirs) == diff(file, ours, theirs)
        unknown = CommitId("ctx-" + "0" * 64)
        for pair in ((unknown, names[0]), (names[0], unknown)):
            with pytest.raises(NameNotFound):
                file.common_ancestor(*pair)
