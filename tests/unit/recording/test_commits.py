"""What recorded agents understood is in the store, as they go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harken.context.materialize import materialize
from harken.core import events as ev
from harken.core.commits import CommitId
from harken.core.messages import text_of
from harken.errors import StoreWriteError
from harken.recording.exchange import ClientHints
from harken.store.base import WriteBatch
from harken.store.memory import MemoryStore
from tests.recording_kit import (
    RecordedClient,
    agent_names,
    open_recorder,
    read_events_of_type,
    request_body,
)

SUMMARY = "So far: two people greeted each other, and one of them asked how the other was."


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def client(tmp_path: Path, store: MemoryStore) -> RecordedClient:
    return RecordedClient(open_recorder(tmp_path, store=store))


def texts(store: MemoryStore, ctx: str) -> list[str]:
    return [text_of(one.content) for one in materialize(store, CommitId(ctx)).messages]


def commits(folder: Path) -> list[ev.ContextCommitted]:
    return read_events_of_type(folder, ev.ContextCommitted)


def commit(store: MemoryStore, event: ev.ContextCommitted) -> Any:
    return by_name(store, event.ctx)


def by_name(store: MemoryStore, ctx: str) -> Any:
    return store.commits([CommitId(ctx)])[CommitId(ctx)].commit


def test_each_answer_is_a_commit_with_what_is_new(
    client: RecordedClient, store: MemoryStore, tmp_path: Path
) -> None:
    client.ask(request_body("Hi"), "Hello.")
    client.ask(request_body("Hi", "Hello.", "Bye"), "Bye!")
    one, two = commits(tmp_path)
    assert texts(store, one.ctx) == ["You are Jack.", "Hi", "Hello."]
    assert texts(store, two.ctx) == ["You are Jack.", "Hi", "Hello.", "Bye", "Bye!"]
    assert (one.parent_ctx, two.parent_ctx) == (None, one.ctx)
    assert commit(store, two).message_count == 2
    assert commit(store, two).created_at == "2027-01-15T08:00:04.000000Z"


def test_a_fork_goes_on_from_where_it_left_the_road(
    client: RecordedClient, store: MemoryStore, tmp_path: Path
) -> None:
    client.ask(request_body("Hi"), "Hello.")
    client.ask(request_body("Hi", "Hello.", "Bye"), "Bye!")
    client.ask(request_body("Hi", "Hello.", "Who?"), "Jack.")
    one, _, fork = commits(tmp_path)
    assert fork.parent_ctx == one.ctx
    assert texts(store, fork.ctx) == ["You are Jack.", "Hi", "Hello.", "Who?", "Jack."]
    assert commit(store, fork).message_count == 2


def test_reminders_that_come_and_go_make_branches_and_no_copies(
    client: RecordedClient, store: MemoryStore, tmp_path: Path
) -> None:
    note = {"role": "user", "content": "A reminder."}
    said: list[Any] = ["Hi", "Hello."]
    client.ask(request_body("Hi"), "Hello.")
    for turn in range(6):
        messages = [*request_body(*said, f"More {turn}")["messages"], note]
        client.ask(request_body(*messages), f"Answer {turn}.")
        said += [f"More {turn}", f"Answer {turn}."]
    made = commits(tmp_path)
    assert [commit(store, one).message_count for one in made] == [3] * 7
    assert len(texts(store, made[-1].ctx)) == 3 + 2 * 6 + 1


def test_a_compaction_is_a_commit_of_the_whole_new_context(
    client: RecordedClient, store: MemoryStore, tmp_path: Path
) -> None:
    client.ask(request_body("Hi"), "Hello.")
    client.ask(request_body("Hi", "Hello.", "Sum it up."), SUMMARY)
    client.ask(request_body(f"So far: {SUMMARY}"), "I go on.")
    _, before, compaction, after = commits(tmp_path)
    assert commit(store, compaction).type == "compaction"
    assert (compaction.checkpoint, compaction.parent_ctx) == ("compaction", before.ctx)
    assert texts(store, after.ctx) == ["You are Jack.", f"So far: {SUMMARY}", "I go on."]
    whole = materialize(store, CommitId(after.ctx), "root").messages
    assert [text_of(one.content) for one in whole][:4] == [
        *["You are Jack.", "Hi", "Hello."],
        "Sum it up.",
    ]


def test_an_agent_below_another_begins_with_what_it_was_told(
    client: RecordedClient, store: MemoryStore, tmp_path: Path
) -> None:
    client.hints = ClientHints(client="x", session="abc")
    client.ask(request_body("Hi"), "Hello.")
    client.ask(request_body("Title?", system="You write titles."), "A greeting")
    main, aside = commits(tmp_path)
    assert agent_names(tmp_path) == ["main", "aside"]
    spawn = by_name(store, aside.parent_ctx or "")
    assert (spawn.type, spawn.checkpoint, spawn.parent) == ("snapshot", "spawn", main.ctx)
    assert texts(store, aside.ctx) == ["You write titles.", "Title?", "A greeting"]
    assert commit(store, aside).principal.endswith("/aside")


def test_a_beginning_that_always_changes_is_not_kept_each_time(
    client: RecordedClient, store: MemoryStore, tmp_path: Path
) -> None:
    said: list[str] = []
    for turn in range(20):
        client.ask(
            request_body(*said, f"More {turn}", system=f"It is {turn} o'clock."), f"Yes {turn}."
        )
        said += [f"More {turn}", f"Yes {turn}."]
    client.recorder.close()
    made = commits(tmp_path)
    kept = sum(commit(store, one).message_count for one in made)
    assert kept < 4 * 41
    assert len(texts(store, made[-1].ctx)) == 41


class Full(MemoryStore):
    """A store that can be full."""

    is_full = False

    def write(self, batch: WriteBatch) -> None:
        if self.is_full:
            raise StoreWriteError(Path("store"), reason="no space left on device")
        super().write(batch)


def test_a_store_that_refuses_is_told_once_and_again_when_it_takes(tmp_path: Path) -> None:
    told: list[str] = []
    store = Full()
    client = RecordedClient(open_recorder(tmp_path, told, store=store))
    client.ask(request_body("Hi"), "Hello.")
    store.is_full = True
    client.ask(request_body("Hi", "Hello.", "Bye"), "Bye!")
    client.ask(request_body("Hi", "Hello.", "Bye", "Bye!", "Bye"), "So long.")
    assert len(told) == 1
    store.is_full = False
    client.ask(request_body("Hi", "Hello.", "Bye", "Bye!", "Bye", "So long.", "..."), "?")
    assert told[1:] == ["commits are being kept again"]
    assert len(texts(store, commits(tmp_path)[-1].ctx)) == 9


def test_commits_go_on_after_a_restart(
    client: RecordedClient, store: MemoryStore, tmp_path: Path
) -> None:
    client.ask(request_body("Hi"), "Hello.")
    client.recorder.close()
    client.recorder = open_recorder(tmp_path, store=store)
    client.ask(request_body("Hi", "Hello.", "Bye"), "Bye!")
    one, two = commits(tmp_path)
    assert two.parent_ctx == one.ctx
    assert commit(store, two).type == "delta"
