"""`HarkenSession`: items as they were given, fenced writers, history, forks, states of runs."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from agents import Agent, RunConfig, Runner
from agents.memory import Session, SessionSettings

from harken.adapters.openai_agents import HarkenSession
from harken.context.checkpoint import CommitDraft, checkpoint
from harken.context.history import commit_history
from harken.context.materialize import materialize
from harken.core.commits import CommitId
from harken.core.messages import FunctionCall, Message, ToolCall, text_of
from harken.errors import BranchConflict, NameNotFound
from harken.store.base import Store, WriteBatch
from harken.store.fsck import fsck
from harken.store.memory import MemoryStore
from harken.store.sqlite.store import SqliteStore
from tests.unit.adapters.agents_kit import EchoModel, ask_weather, say

T = TypeVar("T")
ITEMS: list[Any] = [
    {"role": "user", "content": "Grüezi \ud83d\ude00 \u2028"},
    {"content": "the order of members stays", "role": "user"},
    {"id": "rs", "type": "reasoning", "summary": [], "encrypted_content": "gAAA"},
    {"arguments": '{"a": 1}', "call_id": "c1", "name": "f", "type": "function_call"},
    {"call_id": "c1", "output": "sunny", "type": "function_call_output"},
    {"type": "a_later_kind", "value": [1, 2.5, None, True, {"deep": 10**30}]},
    {"role": "user", "content": "\ud800 alone, \n a line"},
]


def run(work: Awaitable[T]) -> T:
    async def wait() -> T:
        return await work

    return asyncio.run(wait())


def user(text: str) -> Any:
    return {"role": "user", "content": text}


def texts(items: Any) -> list[str]:
    return [item["content"] for item in items]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[HarkenSession]:
    with HarkenSession("s", tmp_path) as session:
        yield session


def test_items_come_back_as_they_were_given(session: HarkenSession, tmp_path: Path) -> None:
    assert isinstance(session, Session)
    run(session.add_items(ITEMS[:2]))
    run(session.add_items(ITEMS[2:]))
    run(session.add_items([]))
    with HarkenSession("s", tmp_path) as other:
        for reader in (session, other):
            assert json.dumps(run(reader.get_items())) == json.dumps(ITEMS)
        assert run(other.get_items(3)) == ITEMS[-3:]
    commits = commit_history(session._conversation.store, session.head or CommitId(""))
    assert [commit.commit.message_count for commit in commits] == [5, 2]


def test_a_change_of_an_item_that_was_read_changes_nothing(session: HarkenSession) -> None:
    run(session.add_items([user("a")]))
    items: list[Any] = run(session.get_items())
    items[0]["content"] = "changed"
    assert texts(run(session.get_items())) == ["a"]


@pytest.mark.parametrize(
    ("limit", "expected"), [(None, 5), (2, 2), (3, 3), (5, 5), (9, 5), (0, 0), (-1, 5)]
)
def test_a_limit_selects_the_last_items(tmp_path: Path, limit: int | None, expected: int) -> None:
    with HarkenSession("s", tmp_path) as writer:
        for pair in (["0", "1"], ["2"], ["3", "4"]):
            run(writer.add_items([user(text) for text in pair]))
    all_texts = ["0", "1", "2", "3", "4"]
    with HarkenSession("s", tmp_path) as fresh:
        for _ in range(2):
            assert texts(run(fresh.get_items(limit))) == all_texts[5 - expected :]
            assert texts(run(fresh.get_items())) == all_texts


def test_the_limit_of_the_settings_is_the_default(tmp_path: Path) -> None:
    settings: list[Any] = [SessionSettings(limit=1), {"limit": 1}]
    for index, setting in enumerate(settings):
        with HarkenSession(str(index), tmp_path, session_settings=setting) as session:
            run(session.add_items([user("a"), user("b")]))
            assert texts(run(session.get_items())) == ["b"]
            assert len(run(session.get_items(2))) == 2
    with pytest.raises(TypeError, match="limitt"):
        HarkenSession("s", tmp_path, session_settings={"limitt": 1})


def test_an_item_that_is_no_json_is_refused(session: HarkenSession) -> None:
    bad: Any = {"role": object()}
    with pytest.raises(TypeError):
        run(session.add_items([user("a"), bad]))
    assert run(session.get_items()) == []
    assert session.head is None


def test_the_last_item_is_popped_and_stays_in_the_history(session: HarkenSession) -> None:
    assert run(session.pop_item()) is None
    run(session.add_items([user("a"), user("b")]))
    first = session.head
    run(session.add_items([user("c")]))
    last = session.head
    assert run(session.pop_item()) == user("c")
    assert session.head == first
    assert run(session.pop_item()) == user("b")
    assert texts(run(session.get_items())) == ["a"]
    run(session.add_items([user("d")]))
    assert texts(run(session.get_items())) == ["a", "d"]
    assert [run(session.pop_item()) for _ in range(3)] == [user("d"), user("a"), None]
    assert run(session.get_items()) == []
    run(session.add_items([user("e")]))
    assert texts(run(session.get_items())) == ["e"]
    store = session._conversation.store
    messages = materialize(store, last).messages
    assert [text_of(message.content) for message in messages] == ["a", "b", "c"]


def test_cleared_items_stay_in_the_history(session: HarkenSession, tmp_path: Path) -> None:
    run(session.clear_session())
    assert session.head is None
    run(session.add_items([user("a")]))
    run(session.clear_session())
    assert run(session.get_items()) == []
    assert run(session.pop_item()) is None
    run(session.add_items([user("b"), user("c")]))
    assert run(session.pop_item()) == user("c")
    with HarkenSession("s", tmp_path) as other:
        assert texts(run(other.get_items())) == ["b"]
    store = session._conversation.store
    messages = materialize(store, session.head).messages
    assert [text_of(m.content) for m in messages] == ["b"]
    messages = materialize(store, session.head, "root").messages
    assert [text_of(m.content) for m in messages] == ["a", "b"]


def test_two_writers_lose_no_item(session: HarkenSession, tmp_path: Path) -> None:
    run(session.add_items([user("start")]))
    with HarkenSession("s", tmp_path) as other:
        run(other.get_items())
        run(session.add_items([user("a")]))
        run(other.add_items([user("b")]))
        run(session.add_items([user("c")]))
        for reader in (session, other):
            assert texts(run(reader.get_items())) == ["start", "a", "b", "c"]
        assert run(other.pop_item()) == user("c")
        assert texts(run(session.get_items())) == ["start", "a", "b"]
        run(other.clear_session())
        run(session.add_items([user("d")]))
        assert texts(run(other.get_items())) == texts(run(session.get_items())) == ["d"]


def test_many_threads_and_tasks_lose_no_item(tmp_path: Path) -> None:
    def write(number: int) -> None:
        with HarkenSession("s", tmp_path) as session:
            for index in range(5):
                run(session.add_items([user(f"{number}-{index}")]))

    threads = [threading.Thread(target=write, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()

    async def write_in_tasks(session: HarkenSession) -> None:
        await asyncio.gather(*(session.add_items([user(f"t-{index}")]) for index in range(10)))

    with HarkenSession("s", tmp_path) as session:
        run(write_in_tasks(session))
        for thread in threads:
            thread.join()
        items = texts(run(session.get_items()))
        expected = {f"{n}-{i}" for n in range(4) for i in range(5)}
        assert sorted(items) == sorted(expected | {f"t-{index}" for index in range(10)})
        for number in range(4):
            own = [text for text in items if text.startswith(f"{number}-")]
            assert own == [f"{number}-{index}" for index in range(5)]
        assert list(fsck(session._conversation.store)) == []


class SlowStore(MemoryStore):
    """A store that waits in each write until the test goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.began, self.may_end = threading.Event(), threading.Event()

    def write(self, batch: WriteBatch) -> None:
        self.began.set()
        self.may_end.wait(10)
        super().write(batch)


@pytest.mark.parametrize("change", [lambda s: s.add_items([user("b")]), lambda s: s.pop_item()])
def test_a_change_is_completed_when_its_task_is_cancelled(
    change: Callable[[HarkenSession], Any],
) -> None:
    async def cancel() -> None:
        task = asyncio.ensure_future(change(session))
        await asyncio.to_thread(store.began.wait, 10)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0.01)
        assert not task.done()
        store.may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    store = SlowStore()
    store.may_end.set()
    session = HarkenSession("s", store=store)
    run(session.add_items([user("a")]))
    store.began.clear()
    store.may_end.clear()
    run(cancel())
    assert texts(run(session.get_items())) in (["a", "b"], [])


def test_a_closed_session_refuses_all_calls(tmp_path: Path) -> None:
    session = HarkenSession("s", tmp_path)
    session.close()
    session.close()
    for work in (session.add_items([]), session.get_items(), session.pop_item()):
        with pytest.raises(RuntimeError, match="session 's' is closed"):
            run(work)


@pytest.mark.parametrize(
    "id_", ["", "a/b c@d", "x" * 1000, "%", "/", "ctx-1", "Grüße", "a//b/", "..", "\n"]
)
def test_any_text_is_the_id_of_a_session(tmp_path: Path, id_: str) -> None:
    with HarkenSession(id_, tmp_path) as session, HarkenSession(f"{id_}2", tmp_path) as other:
        run(session.add_items([user("a")]))
        run(other.add_items([user("b")]))
        assert texts(run(session.get_items())) == ["a"]


def test_a_fork_copies_nothing(session: HarkenSession) -> None:
    run(session.add_items([user("a"), user("b")]))
    past = session.head
    run(session.add_items([user("c")]))
    fork = run(session.fork("fork", at=past))
    run(fork.add_items([user("d")]))
    assert texts(run(fork.get_items())) == ["a", "b", "d"]
    assert texts(run(session.get_items())) == ["a", "b", "c"]
    assert [texts([run(fork.pop_item())]) for _ in range(2)] == [["d"], ["b"]]
    assert texts(run(fork.get_items())) == ["a"]
    assert texts(run(session.get_items())) == ["a", "b", "c"]
    with pytest.raises(BranchConflict):
        run(session.fork("fork"))
    with pytest.raises(NameNotFound):
        run(session.fork("other", at="ctx-" + 64 * "0"))
    assert run(run(session.fork("latest")).get_items(1)) == [user("c")]
    assert run(run(HarkenSession("new", store=MemoryStore()).fork("empty")).get_items()) == []


def test_a_fork_from_which_items_are_popped_stays_a_session(session: HarkenSession) -> None:
    for text in ("a", "b", "c"):
        run(session.add_items([user(text)]))
    fork = run(session.fork("fork"))
    for text in ("c", "b", "a"):
        assert run(fork.pop_item()) == user(text)
        stored = fork._conversation.store.commits([fork.head or CommitId("")])
        assert [commit.commit.thread_id for commit in stored.values()] == ["fork"]
    assert texts(run(session.get_items())) == ["a", "b", "c"]


def test_a_session_begins_with_any_commit(tmp_path: Path) -> None:
    store: Store = SqliteStore(tmp_path / "store.db")
    call = ToolCall("c1", FunctionCall("look", '{"at":"door"}'))
    messages = [
        Message("user", "Is somebody there?"),
        Message("assistant", "I look.", [call]),
        Message("tool", "Nobody.", tool_call_id="c1"),
    ]
    ctx = checkpoint(store, CommitDraft(messages=messages, created_at="2026-01-01T00:00:00Z"))
    fork = run(HarkenSession("s", store=store).fork("t", at=ctx))
    items: list[Any] = run(fork.get_items())
    kinds = [item["type"] for item in items]
    assert kinds == ["message", "message", "function_call", "function_call_output"]
    assert items[2]["arguments"] == '{"at":"door"}'
    assert run(fork.pop_item()) == items[3]
    run(fork.add_items([user("on")]))
    assert run(fork.get_items()) == [*items[:3], user("on")]
    assert len(run(fork.get_items(2))) == 2
    store.close()


class CountingStore(SqliteStore):
    """A store that counts the commits that are read."""

    commits_read = 0

    def chain(self, name: CommitId, depth: int | None = None) -> Any:
        commits = super().chain(name, depth)
        self.commits_read += len(commits)
        return commits


def test_what_was_read_is_not_read_again(tmp_path: Path) -> None:
    store = CountingStore(tmp_path / "store.db")
    session = HarkenSession("s", store=store)
    other_store = SqliteStore(store.path)
    other = HarkenSession("s", store=other_store)
    for index in range(100):
        run(session.add_items([user(str(index))]))
        assert len(run(session.get_items())) == index + 1
    assert store.commits_read == 0
    run(other.add_items([user("other")]))
    assert len(run(session.get_items())) == 101
    assert store.commits_read <= 16
    store.commits_read = 0
    fresh = HarkenSession("s", store=store)
    assert len(run(fresh.get_items(3))) == 3
    assert store.commits_read <= 16
    store.close()
    other_store.close()


def test_a_run_continues_in_another_process(tmp_path: Path) -> None:
    program = f"""
import asyncio
from harken.adapters.openai_agents import HarkenSession
from tests.unit.adapters.agents_kit import say
with HarkenSession("trip", {str(tmp_path)!r}) as session:
    assert asyncio.run(say(session, "the weather please")) == "It is sunny in Rome."
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    with HarkenSession("trip", tmp_path) as session:
        model = EchoModel()
        assert run(say(session, "thanks", model)) == "echo thanks"
        kinds = [item.get("type", "message") for item in model.inputs[0]]
        assert kinds == ["message", "function_call", "function_call_output", "message", "message"]
        past = commit_history(session._conversation.store, session.head or CommitId(""))[-1]
        fork = run(session.fork("fork", at=past.id))
        run(say(fork, "another way", model))
        assert model.inputs[-1][0] == user("the weather please")
        assert "thanks" not in str(run(fork.get_items()))


def test_an_interrupted_run_continues_from_its_saved_state(tmp_path: Path) -> None:
    agent = Agent("Ann", model=_CallsModel(), tools=[ask_weather])
    config = RunConfig(tracing_disabled=True)

    async def interrupt() -> None:
        async with HarkenSession("trip", tmp_path) as session:
            assert await session.load_state(agent) is None
            result = await Runner.run(agent, "weather", session=session, run_config=config)
            assert len(result.interruptions) == 1
            await session.save_state(result.to_state())
            await session.save_state(result.to_state())

    async def resume() -> str:
        async with HarkenSession("trip", tmp_path) as session:
            state = await session.load_state(agent)
            assert state is not None
            state.approve(state.get_interruptions()[0])
            result = await Runner.run(agent, state, session=session, run_config=config)
            await session.delete_state()
            await session.delete_state()
            assert await session.load_state(agent) is None
            assert len(await session.get_items()) == 4
            return str(result.final_output)

    run(interrupt())
    assert run(resume()) == "It is sunny in Rome."


class _CallsModel(EchoModel):
    """A model that calls the tool that needs an approval."""

    async def get_response(self, *arguments: Any, **options: Any) -> Any:
        response = await super().get_response(*arguments, **options)
        for item in response.output:
            if item.type == "function_call":
                item.name = "ask_weather"
        return response


def test_a_missing_sdk_names_the_extra() -> None:
    program = """
import sys
sys.modules["agents"] = None
try:
    import harken.adapters.openai_agents
except ImportError as error:
    print(error)
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "pip install harken[openai-agents]" in ran.stdout
