"""`HarkenSaver`: values round-trip, data is shared, and nothing that stays is lost by a deletion."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from harken.adapters.langgraph import HarkenSaver
from harken.errors import ConfigError, ObjectCorrupted, StoreError
from harken.store.memory import MemoryStore
from tests.unit.adapters.saver_kit import config_of, grow, ids_of, put, values_of


@pytest.fixture
def saver(tmp_path: Path) -> Iterator[HarkenSaver]:
    with HarkenSaver(tmp_path) as saver:
        yield saver


def test_lists_of_folded_and_open_checkpoints_are_those_that_were_written(
    saver: HarkenSaver, tmp_path: Path
) -> None:
    configs = grow(saver, 100)
    with HarkenSaver(tmp_path) as reader:
        for index in (0, 1, 30, 31, 32, 33, 63, 64, 98, 99):
            messages = values_of(reader, configs[index])["messages"]
            assert len(messages) == 2 * (index + 1)
            assert messages[-1]["content"] == f"answer {2 * index}"
        histories = [len(t.checkpoint["channel_values"]["messages"]) for t in reader.list(None)]
        assert histories == [*range(200, 0, -2)]


def test_a_step_writes_what_is_new_only(saver: HarkenSaver) -> None:
    big = {"role": "user", "content": random.Random(1).randbytes(50_000).hex()}
    config = put(saver, config_of(), 1, messages=[big], other=[1, 2])
    before = _count_bytes(saver)
    for version in range(2, 30):
        messages = [big, *({"role": "user", "content": str(n)} for n in range(version))]
        config = put(saver, config, version, messages=messages)
    assert _count_bytes(saver) - before < 30 * 400


def test_an_item_that_was_changed_in_place_is_written_again(saver: HarkenSaver) -> None:
    messages: list[AnyMessage] = [HumanMessage("a", id="1"), AIMessage("b", id="2")]
    first = put(saver, config_of(), 1, messages=messages)
    messages[0].content = "changed"
    messages[1].additional_kwargs["deep"] = [1]
    second = put(saver, first, 2, messages=[*messages, HumanMessage("c", id="3")])
    assert [m.content for m in values_of(saver, first)["messages"]] == ["a", "b"]
    after = values_of(saver, second)["messages"]
    assert [m.content for m in after] == ["changed", "b", "c"]
    assert after[1].additional_kwargs == {"deep": [1]}


def test_removed_and_replaced_items_are_as_written(saver: HarkenSaver) -> None:
    config = config_of()
    lists: list[list[Any]] = [
        [1, 2, 3], [1, 2], [1, 2, "x"], [], [9], [9, 9], [True, 9], [1, 9], [1.0, 9], [None],
    ]  # fmt: skip
    configs = []
    for version, items in enumerate(lists * 5):
        config = put(saver, config, version, items=list(items), messages=[*items, version])
        configs.append((config, items, version))
    for stored, items, version in configs:
        values = values_of(saver, stored)
        assert repr(values["items"]) == repr(items)
        assert repr(values["messages"]) == repr([*items, version])


def test_unchanged_values_are_shared_across_folds_and_forks(saver: HarkenSaver) -> None:
    start = put(saver, config_of(), 1, messages=["a"], files={"big": "x" * 1000})
    config = start
    for version in range(2, 80):
        parent = saver.get_tuple(config)
        assert parent is not None
        checkpoint: Any = dict(parent.checkpoint)
        checkpoint["id"] = f"{version:08}"
        checkpoint["channel_values"] = {
            **checkpoint["channel_values"],
            "messages": [*checkpoint["channel_values"]["messages"], str(version)],
        }
        checkpoint["channel_versions"] = {**checkpoint["channel_versions"], "messages": version}
        config = saver.put(config, checkpoint, {"step": version}, {"messages": version})
    assert values_of(saver, config)["files"] == {"big": "x" * 1000}
    assert len(values_of(saver, config)["messages"]) == 79


def test_a_fork_leaves_the_other_branch_as_it_was(saver: HarkenSaver) -> None:
    configs = grow(saver, 50)
    fork = grow(saver, 50, start=configs[16])
    assert len(values_of(saver, configs[-1])["messages"]) == 100
    assert len(values_of(saver, fork[-1])["messages"]) == 34 + 100
    assert values_of(saver, fork[-1])["messages"][:34] == values_of(saver, configs[16])["messages"]
    assert saver.get_tuple(config_of()) == saver.get_tuple(fork[-1])


def test_pruning_keeps_the_latest_checkpoint_complete(saver: HarkenSaver, tmp_path: Path) -> None:
    configs = grow(saver, 75)
    expected = values_of(saver, configs[-1])
    saver.prune(["t"])
    assert len(ids_of(saver, config_of())) == 1
    assert values_of(saver, config_of()) == expected
    assert saver.get_tuple(configs[3]) is None
    continued = grow(saver, 40, start=config_of())
    assert len(values_of(saver, continued[-1])["messages"]) == 230
    with HarkenSaver(tmp_path) as reader:
        assert len(values_of(reader, continued[0])["messages"]) == 152


def test_deleting_a_run_keeps_later_checkpoints_complete(saver: HarkenSaver) -> None:
    config = config_of()
    for step in range(9):
        messages = [*range(step + 1)]
        config = put(saver, config, step, {"run_id": f"run-{step // 3}"}, messages=messages)
    saver.delete_for_runs(["run-1", "run-0"])
    lists = [t.checkpoint["channel_values"]["messages"] for t in saver.list(config_of())]
    assert lists == [[*range(9)], [*range(8)], [*range(7)]]
    saver.delete_for_runs(["run-2"])
    assert saver.get_tuple(config_of()) is None
    assert saver._file.list_threads() == []


def test_the_newest_checkpoint_that_stays_is_the_latest(saver: HarkenSaver) -> None:
    first = put(saver, config_of(), 1, {"run_id": "a"}, n=1)
    put(saver, first, 2, {"run_id": "b"}, n=2)
    saver.delete_for_runs(["b"])
    assert values_of(saver, config_of()) == {"n": 1}


def test_a_copy_is_independent_of_its_source(saver: HarkenSaver) -> None:
    configs = grow(saver, 70)
    saver.put_writes(configs[-1], [("messages", ["w"])], "task")
    saver.copy_thread("t", "copy")
    expected = values_of(saver, config_of())
    saver.delete_thread("t")
    saver._store.collect([], now="2100-01-01T00:00:00Z", grace_s=0)
    copy = saver.get_tuple(config_of("copy"))
    assert copy is not None
    assert copy.checkpoint["channel_values"] == expected
    assert copy.pending_writes == [("task", "messages", ["w"])]
    continued = grow(saver, 40, start=config_of("copy"))
    assert len(values_of(saver, continued[-1])["messages"]) == 220
    with pytest.raises(ConfigError, match="'copy' exists"):
        saver.copy_thread("copy", "copy")


def test_a_deleted_thread_leaves_nothing_after_a_collection(saver: HarkenSaver) -> None:
    grow(saver, 70)
    saver.delete_thread("t")
    saver._store.collect([], now="2100-01-01T00:00:00Z", grace_s=0)
    assert [*saver._store.iter_objects()] == []
    assert ids_of(saver, config_of()) == []
    grow(saver, 3)
    assert len(values_of(saver, config_of())["messages"]) == 6


def test_collections_keep_the_items_of_threads(saver: HarkenSaver, tmp_path: Path) -> None:
    grow(saver, 70)
    saver._store.collect([], now="2100-01-01T00:00:00Z", grace_s=0)
    with HarkenSaver(tmp_path) as reader:
        assert len(values_of(reader, config_of())["messages"]) == 140


def test_objects_that_are_no_messages_round_trip(saver: HarkenSaver) -> None:
    values = {
        "seen": {1, 2},
        "pair": (1, "a"),
        "raw": b"\0",
        "none": None,
        "many": [{1}, (2,), b""],
    }
    config = put(saver, config_of(), 1, None, **values)
    # LangGraph's serializer turns a tuple into a list.
    expected = {**values, "pair": [1, "a"], "many": [{1}, [2], b""]}
    loaded = JsonPlusSerializer().loads_typed(JsonPlusSerializer().dumps_typed(values))
    assert values_of(saver, config) == loaded == expected


def test_a_damaged_row_is_an_error_that_names_the_file(saver: HarkenSaver, tmp_path: Path) -> None:
    put(saver, config_of(), 1, messages=["a"])
    saver.close()
    with sqlite3.connect(tmp_path / "checkpoints.db") as connection:
        connection.execute("UPDATE checkpoint SET body = CAST(body || x'00' AS BLOB)")
    connection.close()
    with HarkenSaver(tmp_path) as reader, pytest.raises(ObjectCorrupted, match="checkpoints.db"):
        reader.get_tuple(config_of())


def test_a_store_that_fails_loses_no_checkpoint(tmp_path: Path) -> None:
    class FailingStore(MemoryStore):
        is_full = True

        def write(self, batch: Any) -> None:
            if self.is_full:
                raise StoreError("the store", "is full")
            super().write(batch)

    store = FailingStore()
    with HarkenSaver(tmp_path, store=store) as saver:
        configs = grow(saver, 40)
        assert len(values_of(saver, config_of())["messages"]) == 80
        store.is_full = False
        grow(saver, 1, start=configs[-1])
        assert len(values_of(saver, configs[-1])["messages"]) == 80
        assert [*store.iter_objects()]


def test_a_file_of_another_program_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "checkpoints.db") as connection:
        connection.execute("CREATE TABLE t (a)")
    connection.close()
    with pytest.raises(StoreError, match="another program"):
        HarkenSaver(tmp_path)


def test_a_configuration_without_a_thread_is_refused(saver: HarkenSaver) -> None:
    with pytest.raises(ValueError, match="thread_id"):
        saver.get_tuple({"configurable": {}})


def _count_bytes(saver: HarkenSaver) -> int:
    with saver._file.reading() as connection:
        query = "SELECT sum(length(body)) FROM (SELECT body FROM checkpoint UNION SELECT body FROM item)"
        (size,) = connection.execute(query).fetchone()
    return int(size)
