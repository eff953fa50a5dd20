"""Calls of a wrapped client become a session with the exact requests, and commits."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken.core import events as ev
from harken.interactions.sdk.wrap import recording, wrap_client
from harken.recording.rebuild import RequestRebuilder
from harken.session.log.reader import iter_events as events_of
from harken.store.sqlite.store import SqliteStore
from tests.provider.server import Provider
from tests.sdk_kit import (
    REQUEST,
    a_messages,
    o_chat_events,
    o_responses,
    respond,
    sync_anthropic,
    sync_openai,
)

TOLD: list[str] = []


def _events(folder: Path) -> list[ev.Event]:
    (log,) = folder.glob("*.jsonl")
    return list(events_of(log))


@pytest.mark.req("S3-17")
def test_log_has_the_exact_requests_of_the_provider(tmp_path: Path) -> None:
    with Provider(respond) as provider:
        with recording(tmp_path, session="one run", tell=TOLD.append) as record:
            with wrap_client(sync_anthropic(provider.url), record) as client:
                answer = client.messages.create(**REQUEST)
                reply = {"role": "assistant", "content": answer.content[0].text}
                follow_up = [*REQUEST["messages"], reply, {"role": "user", "content": "and?"}]
                client.messages.create(**{**REQUEST, "messages": follow_up})
            with wrap_client(sync_openai(provider.url), record) as second_client:
                o_chat_events(second_client)
                o_responses(second_client)
        rebuilder = RequestRebuilder(_events(tmp_path))
        bodies = [rebuilder.body(id_) for id_ in rebuilder.requests]
        assert bodies == provider.bodies
    assert TOLD == []


def test_named_run_continues_in_a_later_block(tmp_path: Path) -> None:
    with Provider(respond) as provider:
        for _ in range(2):
            with recording(tmp_path, session="one run") as record:
                a_messages(wrap_client(sync_anthropic(provider.url), record))
    assert sum(isinstance(event, ev.LlmRequest) for event in _events(tmp_path)) == 2


def test_decoded_calls_are_committed(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    with Provider(respond) as provider, recording(tmp_path / "s", store) as record:
        a_messages(wrap_client(sync_anthropic(provider.url), record))
    end, ctx = store.newest_commits()
    assert store.commits([ctx])[ctx].commit.message_count == 2
    assert store.commits([end])[end].commit.checkpoint == "session_end"
    store.close()
