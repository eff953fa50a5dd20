"""Contexts of recorded agents are committed to the store during the recording."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harken.context.checkpoint import CommitIdentity
from harken.context.materialize import materialize
from harken.core import events as ev
from harken.core.commits import ArtifactRef, CommitId
from harken.core.messages import text_of
from harken.errors import StoreWriteError
from harken.formats.events import MetricEvent
from harken.formats.events_v1 import decode_events
from harken.recording.exchange import CLIENT_DISCONNECTED, ClientHints
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
    return [text_of(message.content) for message in materialize(store, CommitId(ctx)).messages]


def commits(folder: Path) -> list[ev.ContextCommitted]:
    return read_events_of_type(folder, ev.ContextCommitted)


def commit(store: MemoryStore, event: ev.ContextCommitted) -> Any:
    return by_name(store, event.ctx)


def by_name(store: MemoryStore, ctx: str) -> Any:
    return store.commits([CommitId(ctx)])[CommitId(ctx)].commit


def test_each_answer_is_a_commit_of_its_new_messages(
    client: RecordedClient, store: MemoryStore, tmp_path: Path
) -> None:
    client.ask(request_body("Hi"), "Hello.")
    client.ask(request_body("Hi", "Hello.", "Bye"), "Bye!")
    first, two = commits(tmp_path)
    assert texts(store, first.ctx) == ["You are Jack.", "Hi", "Hello."]
    assert texts(store, two.ctx) == ["You are Jack.", "Hi", "Hello.", "Bye", "Bye!"]
    assert (first.parent_ctx, two.parent_ctx) == (None, first.ctx)
    assert commit(store, two).message_count == 2
    assert commit(store, two).created_at == "2027-01-15T08:00:04.000000Z"


def test_fork_extends_the_commit_where_it_diverged(
    client: RecordedClient, store: MemoryStore, tmp_path: Path
) -> None:
    client.ask(request_body("Hi"), "Hello.")
    client.ask(request_body("Hi", "Hello.", "Bye"), "Bye!")
    client.ask(request_body("Hi", "Hello.", "Who?"), "Jack.")
    first, _, fork = commits(tmp_path)
    assert fork.parent_ctx == first.ctx
    assert texts(store, fork.ctx) == ["You are Jack.", "Hi", "Hello.", "Who?", "Jack."]
    assert commit(store, fork).message_count == 2


def test_transient_reminders_give_branches_without_copies(
    client: RecordedClient, store: MemoryStore, tmp_path: Path
) -> None:
    note = {"role": "user", "content": "A reminder."}
    wire_messages: list[Any] = ["Hi", "Hello."]
    client.ask(request_body("Hi"), "Hello.")
    for turn in range(6):
        messages = [*request_body(*wire_messages, f"More {turn}")["messages"], note]
        client.ask(request_body(*messages), f"Answer {turn}.")
        wire_messages += [f"More {turn}", f"Answer {turn}."]
    commits_made = commits(tmp_path)
    assert [commit(store, event).message_count for event in commits_made] == [3] * 7
    assert len(texts(store, commits_made[-1].ctx)) == 3 + 2 * 6 + 1


def test_compaction_is_a_commit_of_the_complete_new_context(
    client: RecordedClient, store: MemoryStore, tmp_path: Path
) -> None:
    client.ask(request_body("Hi"), "Hello.")
    client.ask(request_body("Hi", "Hello.", "Sum it up."), SUMMARY)
    client.ask(request_body(f"So far: {SUMMARY}"), "I go on.")
    _, before, compaction, after = commits(tmp_path)
    assert commit(store, compaction).type == "compaction"
    assert (compaction.checkpoint, compaction.parent_ctx) == ("compaction", before.ctx)
    assert texts(store, after.ctx) == ["You are Jack.", f"So far: {SUMMARY}", "I go on."]
    context_messages = materialize(store, CommitId(after.ctx), "root").messages
    assert [text_of(message.content) for message in context_messages][:4] == [
        *["You are Jack.", "Hi", "Hello."],
        "Sum it up.",
    ]


def test_subagent_chain_starts_with_its_task(
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


def test_changing_prefix_is_not_committed_each_time(
    client: RecordedClient, store: MemoryStore, tmp_path: Path
) -> None:
    texts_seen: list[str] = []
    for turn in range(20):
        client.ask(
            request_body(*texts_seen, f"More {turn}", system=f"It is {turn} o'clock."),
            f"Yes {turn}.",
        )
        texts_seen += [f"More {turn}", f"Yes {turn}."]
    client.recorder.close()
    commits_made = commits(tmp_path)
    message_count = sum(commit(store, event).message_count for event in commits_made)
    assert message_count < 4 * 41
    assert len(texts(store, commits_made[-1].ctx)) == 41


class Full(MemoryStore):
    """A store that can be full."""

    is_full = False

    def write(self, batch: WriteBatch) -> None:
        if self.is_full:
            raise StoreWriteError(Path("store"), reason="no space left on device")
        super().write(batch)


def test_refusing_store_is_reported_once_and_on_recovery(tmp_path: Path) -> None:
    warnings: list[str] = []
    store = Full()
    client = RecordedClient(open_recorder(tmp_path, warnings, store=store))
    client.ask(request_body("Hi"), "Hello.")
    store.is_full = True
    client.ask(request_body("Hi", "Hello.", "Bye"), "Bye!")
    client.ask(request_body("Hi", "Hello.", "Bye", "Bye!", "Bye"), "So long.")
    assert len(warnings) == 1
    store.is_full = False
    client.ask(request_body("Hi", "Hello.", "Bye", "Bye!", "Bye", "So long.", "..."), "?")
    assert warnings[1:] == ["commits are being kept again"]
    assert len(texts(store, commits(tmp_path)[-1].ctx)) == 9


def test_commits_continue_after_a_restart(
    client: RecordedClient, store: MemoryStore, tmp_path: Path
) -> None:
    client.ask(request_body("Hi"), "Hello.")
    client.recorder.close()
    client.recorder = open_recorder(tmp_path, store=store)
    client.ask(request_body("Hi", "Hello.", "Bye"), "Bye!")
    first, end, two = commits(tmp_path)
    assert (end.parent_ctx, two.parent_ctx) == (first.ctx, end.ctx)
    assert commit(store, two).type == "delta"


def metric(store: MemoryStore, event: ev.ContextCommitted) -> MetricEvent:
    """Return the only event of a commit that ends a run."""
    end = commit(store, event)
    assert (end.checkpoint, end.message_count, end.format) == ("session_end", 0, "events-v1")
    (only,) = decode_events(store.raw(ArtifactRef(end.artifact)))
    assert isinstance(only.payload, MetricEvent)
    return only.payload


@pytest.mark.req("S2-28")
def test_a_run_ends_with_its_turns_usage_and_status(
    client: RecordedClient, store: MemoryStore, tmp_path: Path
) -> None:
    client.ask(request_body("Hi"), "Hello.")
    client.ask(request_body("Hi", "Hello.", "Bye"), "Bye!")
    client.recorder.close()
    *_, two, end = commits(tmp_path)
    assert end.parent_ctx == two.ctx
    total = metric(store, end)
    assert (total.status, total.turn_count) == ("success", 2)
    assert (total.input_tokens, total.output_tokens, total.duration_seconds) == (20, 10, 3.0)
    assert (total.cost_usd or 0) > 0
    assert texts(store, end.ctx) == texts(store, two.ctx)


def test_the_next_end_counts_only_the_calls_since_the_last(
    client: RecordedClient, store: MemoryStore, tmp_path: Path
) -> None:
    client.ask(request_body("Hi"), "Hello.")
    client.recorder.close()
    client.recorder = open_recorder(tmp_path, store=store)
    client.ask(request_body("Hi", "Hello.", "Bye"), "Bye!")
    client.recorder.close()
    client.recorder = open_recorder(tmp_path, store=store)
    client.ask(request_body("Hi", "Hello.", "Bye", "Bye!", "Oh"), "Oh.")
    client.recorder.close()
    ends = [event for event in commits(tmp_path) if event.checkpoint == "session_end"]
    assert [metric(store, end).turn_count for end in ends] == [1, 1, 1]


def test_a_run_without_a_result_for_its_last_call_was_interrupted(
    client: RecordedClient, store: MemoryStore, tmp_path: Path
) -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
    client.ask(request_body("Hi"), [call])
    client.recorder.close()
    assert metric(store, commits(tmp_path)[-1]).status == "interrupted"


def test_a_run_whose_last_call_failed_ends_with_an_error(
    client: RecordedClient, store: MemoryStore, tmp_path: Path
) -> None:
    client.ask(request_body("Hi"), "Hello.")
    id_ = client.begin(request_body("Hi", "Hello.", "Bye"))
    client.end(id_, broken=CLIENT_DISCONNECTED)
    client.recorder.close()
    assert metric(store, commits(tmp_path)[-1]).status == "error_during_execution"


def test_a_run_without_calls_has_no_end(
    client: RecordedClient, store: MemoryStore, tmp_path: Path
) -> None:
    client.ask(request_body("Hi"), "Hello.")
    client.recorder.close()
    number = len(commits(tmp_path))
    again = RecordedClient(open_recorder(tmp_path, store=store), sent_bodies=client.sent_bodies)
    again.recorder.begin(client.captured_request(next(iter(client.sent_bodies))))
    again.recorder.close()
    assert len(commits(tmp_path)) == number


def test_commits_name_the_session_and_the_agents_as_an_import_does(
    store: MemoryStore, tmp_path: Path
) -> None:
    client = RecordedClient(
        open_recorder(tmp_path, store=store), ClientHints(client="claude-code", session="0f1e")
    )
    client.ask(request_body("Hi", tools=[{"name": "Task"}]), "Hello.")
    task = {"client": "claude-code", "session": "0f1e", "agent": "a7", "name": "Explore"}
    client.ask(request_body("Look", system="You explore."), "Seen.", hints=ClientHints(**task))
    client.recorder.close()
    made = [commit(store, event) for event in commits(tmp_path)]
    assert {(one.session_id, one.principal) for one in made} == {
        ("claude:0f1e", "claude:0f1e"),
        ("claude:0f1e", "claude:0f1e/a7"),
    }
    named = open_recorder(tmp_path / "b", store=store, identity=CommitIdentity(principal="alice"))
    client = RecordedClient(named, ClientHints(client="claude-code", session="0f1e"))
    client.ask(request_body("Hi", tools=[{"name": "Task"}]), "Hello.")
    (event,) = commits(tmp_path / "b")
    assert (commit(store, event).session_id, commit(store, event).principal) == (
        "claude:0f1e",
        "alice",
    )


def test_the_id_of_a_response_is_logged(client: RecordedClient, tmp_path: Path) -> None:
    client.ask(request_body("Hi"), "Hello.")
    assert [r.response_id for r in read_events_of_type(tmp_path, ev.LlmResponse)] == ["msg_1"]
