"""`HarkenSessionStore`: the contracts of the Claude Agent SDK, repeated entries, writers, forks.

The SDK is too large for every machine: `make frameworks` installs it beside the other tests.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harken.adapters.sessions import list_conversations
from harken.context.materialize import materialize
from harken.core.commits import CommitId
from harken.errors import BranchConflict
from harken.store.fsck import fsck
from harken.store.memory import MemoryStore

sdk: Any = pytest.importorskip("claude_agent_sdk", reason="`make frameworks` installs it")

from harken.adapters.claude_agent_sdk import HarkenSessionStore  # noqa: E402

SESSION = "0f1e2d3c-0000-4000-8000-000000000001"
KEY = {"project_key": "-home-ann-trip", "session_id": SESSION}
SUBAGENT = {**KEY, "subpath": "subagents/agent-1"}


def entry(number: int, content: Any, type_: str = "user") -> dict[str, Any]:
    """Return an entry of a transcript, as Claude Code writes it."""
    parent = f"{number - 1:08d}-0000-4000-8000-000000000000" if number else None
    return {
        "parentUuid": parent,
        "isSidechain": False,
        "cwd": "/home/ann/trip",
        "sessionId": SESSION,
        "type": type_,
        "message": {"role": type_, "content": content},
        "uuid": f"{number:08d}-0000-4000-8000-000000000000",
        "timestamp": f"2026-01-01T00:00:{number:02d}.000Z",
    }


TRANSCRIPT = [
    {"type": "mode", "mode": "default"},
    entry(0, "Where is the zanzibar file?"),
    entry(
        1,
        [{"type": "tool_use", "id": "t1", "name": "Grep", "input": {"pattern": "zanzibar"}}],
        "assistant",
    ),
    entry(2, [{"type": "tool_result", "tool_use_id": "t1", "content": "a.txt:1"}]),
    entry(3, [{"type": "text", "text": "It is a.txt."}], "assistant"),
    {"type": "custom-title", "customTitle": "Zanzibar", "sessionId": SESSION},
]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[HarkenSessionStore]:
    with HarkenSessionStore(tmp_path) as store:
        yield store


def append(store: HarkenSessionStore, *entries: Any, key: Any = KEY) -> None:
    asyncio.run(store.append(key, entries))


def load(store: HarkenSessionStore, key: Any = KEY) -> Any:
    return asyncio.run(store.load(key))


def test_all_contracts_of_the_sdk_hold() -> None:
    from claude_agent_sdk.testing import run_session_store_conformance

    async def check() -> None:
        await run_session_store_conformance(lambda: HarkenSessionStore(store=MemoryStore()))

    asyncio.run(check())


def test_entries_come_back_equal(store: HarkenSessionStore, tmp_path: Path) -> None:
    append(store, *TRANSCRIPT[:3])
    append(store, *TRANSCRIPT[3:])
    with HarkenSessionStore(tmp_path) as other:
        for reader in (store, other):
            assert json.dumps(load(reader)) == json.dumps(TRANSCRIPT)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.dictionaries(st.text(max_size=4), JSON), max_size=3), max_size=4))
def test_any_entries_come_back_equal(batches: list[list[Any]]) -> None:
    memory = MemoryStore()
    for batch in batches:
        append(HarkenSessionStore(store=memory), *batch)
    entries = [entry for batch in batches for entry in batch]
    assert load(HarkenSessionStore(store=memory)) == (entries or None)
    assert list(fsck(memory)) == []


def test_each_batch_has_its_messages(store: HarkenSessionStore) -> None:
    for item in TRANSCRIPT:
        append(store, item)
    head = CommitId(asyncio.run(store.find_head(KEY)) or "")
    messages = materialize(store._store, head).messages
    assert [message.role for message in messages] == ["user", "assistant", "tool", "assistant"]
    (call,) = messages[1].tool_calls or []
    assert (call.id, call.function.name) == ("t1", "Grep")
    assert messages[2].tool_call_id == "t1"


def test_an_entry_that_is_sent_twice_is_stored_once(
    store: HarkenSessionStore, tmp_path: Path
) -> None:
    append(store, *TRANSCRIPT)
    head = asyncio.run(store.find_head(KEY))
    append(store, *TRANSCRIPT[1:5])
    assert asyncio.run(store.find_head(KEY)) == head
    new = entry(9, "And now?")
    with HarkenSessionStore(tmp_path) as other:
        append(other, *TRANSCRIPT[1:5], new, new)
        assert load(store) == [*TRANSCRIPT, new]
    append(store, new, TRANSCRIPT[0])  # An entry without a uuid may be repeated.
    assert load(store) == [*TRANSCRIPT, new, TRANSCRIPT[0]]


def test_two_writers_lose_no_entry(tmp_path: Path) -> None:
    def write(number: int) -> None:
        with HarkenSessionStore(tmp_path) as store:
            for index in range(10):
                append(store, entry(100 * number + index, f"{number}-{index}"), shared)

    shared = entry(99, "shared")
    threads = [threading.Thread(target=write, args=[number]) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with HarkenSessionStore(tmp_path) as store:
        contents = [item["message"]["content"] for item in load(store)]
        assert sorted(contents) == sorted(
            ["shared", *(f"{n}-{i}" for n in range(3) for i in range(10))]
        )
        assert list(fsck(store._store)) == []


def test_subagents_are_agents_of_the_session(store: HarkenSessionStore, tmp_path: Path) -> None:
    append(store, *TRANSCRIPT)
    append(store, entry(0, "Look closer."), key=SUBAGENT)
    assert asyncio.run(store.list_subkeys(KEY)) == ["subagents/agent-1"]
    (session,) = list_conversations(store._store, tmp_path)
    assert session.name == f"claude-agent-sdk:-home-ann-trip/{SESSION}"
    assert session.title == "Where is the zanzibar file?"
    tips = {tip.agent for part in session.parts for tip in part.report.tips}
    assert "subagents/agent-1" in tips
    assert len(tips) == 2
    assert load(store, SUBAGENT) == [entry(0, "Look closer.")]
    head = CommitId(asyncio.run(store.find_head(SUBAGENT)) or "")
    first, second = store._store.chain(head)
    assert (first.commit.checkpoint, second.id) == ("spawn", asyncio.run(store.find_head(KEY)))


@pytest.mark.filterwarnings("ignore")
def test_a_program_on_trio_uses_it(store: HarkenSessionStore) -> None:
    trio = pytest.importorskip("trio", reason="the test is for programs on trio")

    async def work() -> Any:
        await store.append(KEY, TRANSCRIPT)
        return await store.load(KEY)

    assert trio.run(work) == TRANSCRIPT


def test_summaries_follow_new_entries(store: HarkenSessionStore) -> None:
    def summarize() -> Any:
        (summary,) = asyncio.run(store.list_session_summaries("-home-ann-trip"))
        return summary["data"]

    append(store, *TRANSCRIPT[:2])
    first = summarize()
    assert first["first_prompt"] == "Where is the zanzibar file?"
    assert "custom_title" not in first
    append(store, *TRANSCRIPT[2:])
    assert summarize()["custom_title"] == "Zanzibar"
    assert summarize()["created_at"] == first["created_at"]
    asyncio.run(store.delete(KEY))
    append(store, entry(0, "Another one"))
    assert summarize()["first_prompt"] == "Another one"


def test_a_deleted_session_is_collected_and_can_be_written_again(
    store: HarkenSessionStore,
) -> None:
    append(store, *TRANSCRIPT)
    asyncio.run(store.fork(KEY, "fork"))
    append(store, entry(50, "only here"))
    asyncio.run(store.delete(KEY))
    assert load(store) is None
    collected = store._store.collect([], now="2100-01-01T00:00:00Z", grace_s=0)
    assert len(collected.commits) == 1
    assert load(store, {**KEY, "session_id": "fork"}) == TRANSCRIPT
    append(store, *TRANSCRIPT[:2])
    assert load(store) == TRANSCRIPT[:2]
    assert list(fsck(store._store)) == []


def test_a_fork_copies_nothing(store: HarkenSessionStore) -> None:
    append(store, *TRANSCRIPT[:2])
    past = asyncio.run(store.find_head(KEY))
    append(store, *TRANSCRIPT[2:])
    asyncio.run(store.fork(KEY, "fork", at=past))
    fork = {**KEY, "session_id": "fork"}
    append(store, entry(9, "Otherwise"), key=fork)
    assert load(store, fork) == [*TRANSCRIPT[:2], entry(9, "Otherwise")]
    with pytest.raises(BranchConflict):
        asyncio.run(store.fork(KEY, "fork"))


def test_the_helpers_of_the_sdk_read_and_fork_sessions(store: HarkenSessionStore) -> None:
    async def check() -> None:
        await store.append(KEY, TRANSCRIPT)
        infos = await sdk.list_sessions_from_store(store, directory="/home/ann/trip")
        assert [info.session_id for info in infos] == [SESSION]
        assert infos[0].custom_title == "Zanzibar"
        messages = await sdk.get_session_messages_from_store(
            store, SESSION, directory="/home/ann/trip"
        )
        assert [message.type for message in messages] == ["user", "assistant", "user", "assistant"]
        fork = await sdk.fork_session_via_store(store, SESSION, directory="/home/ann/trip")
        assert await store.load({**KEY, "session_id": fork.session_id}) is not None
        await sdk.delete_session_via_store(store, SESSION, directory="/home/ann/trip")
        assert await store.load(KEY) is None

    asyncio.run(check())


def test_a_closed_store_refuses_all_calls(store: HarkenSessionStore) -> None:
    store.close()
    for work in (store.append(KEY, []), store.load(KEY), store.list_sessions("p")):
        with pytest.raises(RuntimeError, match="session store is closed"):
            asyncio.run(work)


def test_an_empty_subpath_is_refused(store: HarkenSessionStore) -> None:
    with pytest.raises(ValueError, match="subpath is empty"):
        append(store, entry(0, "a"), key={**KEY, "subpath": ""})
