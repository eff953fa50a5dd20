"""What a wrapped client asks becomes a session with the very requests, and commits."""

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
def test_the_log_has_the_very_requests_that_the_provider_got(tmp_path: Path) -> None:
    with Provider(respond) as provider:
        with recording(tmp_path, session="one run", tell=TOLD.append) as record:
            with wrap_client(sync_anthropic(provider.url), record) as client:
                answer = client.messages.create(**REQUEST)
                said = {"role": "assistant", "content": answer.content[0].text}
                more = [*REQUEST["messages"], said, {"role": "user", "content": "and?"}]
                client.messages.create(**{**REQUEST, "messages": more})
            with wrap_client(sync_openai(provider.url), record) as other:
                o_chat_events(other)
                o_responses(other)
        rebuilder = RequestRebuilder(_events(tmp_path))
        bodies = [rebuilder.body(id_) for id_ in rebuilder.requests]
        assert bodies == provider.bodies
    assert TOLD == []


def test_a_run_with_a_name_goes_on_in_a_later_block(tmp_path: Path) -> None:
    with Provider(respond) as provider:
        for _ in range(2):
            with recording(tmp_path, session="one run") as record:
                a_messages(wrap_client(sync_anthropic(provider.url), record))
    assert sum(isinstance(one, ev.LlmRequest) for one in _events(tmp_path)) == 2


def test_what_was_understood_is_committed(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    with Provider(respond) as provider, recording(tmp_path / "s", store) as record:
        a_messages(wrap_client(sync_anthropic(provider.url), record))
    (ctx,) = store.newest_commits()
    assert store.commits([ctx])[ctx].commit.message_count == 2
    store.close()
