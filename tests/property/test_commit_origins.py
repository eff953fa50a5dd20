"""The origin of a commit: opaque ids that come back verbatim, and content that ignores them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harken.context.checkpoint import CommitDraft, CommitOrigin, checkpoint
from harken.context.compaction import compact, snapshot
from harken.context.history import commit_history, get_commit
from harken.context.materialize import materialize
from harken.context.render import render
from harken.core.commits import CommitId
from harken.core.messages import Message
from harken.store.base import Store
from harken.store.memory import MemoryStore
from harken.store.remote.store import RemoteStore
from harken.store.sqlite.store import SqliteStore
from harken.testing.store_kit import SURROGATE
from tests.service_kit import TOKEN, serve_store

NOON = "2026-01-31T12:00:00.000000Z"
OPAQUE_IDS = (
    *("tkt-1", "TKT-1", "ctx-" + "0" * 64, "art-1", "tkt-" + "f" * 64, "latest", "main"),
    *("$event:matrix.example", "https://example.com/a?b=c#d", "../../etc", "a/b", "--ticket"),
    *(" ", " tkt-1", "tkt-1 ", "a\nb", "\0", "{}", "null", "0", "'; DROP TABLE history; --"),
    *("é", "e\u0301", SURROGATE, "\u202e", "x" * 10_000),
)
"""Ids as other systems assign them, and texts that mean something elsewhere in Harken."""
FORMATS = ("events-v1", "messages-v1", "narrative-v1", "claude-code-v1", "codex-v1")


@contextmanager
def memory(_: Path) -> Iterator[Store]:
    yield MemoryStore()


@contextmanager
def file(folder: Path) -> Iterator[Store]:
    with closing(SqliteStore(folder / "s.db")) as store:
        yield store


@contextmanager
def service(folder: Path) -> Iterator[Store]:
    with (
        file(folder) as store,
        serve_store(store) as url,
        closing(RemoteStore(url, token=TOKEN)) as remote,
    ):
        yield remote


@pytest.mark.req("S2-09")
@pytest.mark.parametrize("open_store", [memory, file, service], ids=lambda value: value.__name__)
def test_ticket_and_thread_ids_come_back_verbatim(
    tmp_path: Path, open_store: Callable[[Path], AbstractContextManager[Store]]
) -> None:
    with open_store(tmp_path) as store:
        names: list[CommitId] = []
        for number, id_ in enumerate(OPAQUE_IDS):
            origin = CommitOrigin(ticket_id=id_, thread_id=OPAQUE_IDS[-1 - number])
            parent = names[-1] if names else None
            draft = CommitDraft(parent=parent, messages=[Message("user", "Hi")], origin=origin)
            names.append(checkpoint(store, replace(draft, created_at=NOON)))
        assert len({*names}) == len(OPAQUE_IDS)
        for commits in (
            [get_commit(store, name).commit for name in names],
            [stored.commit for stored in commit_history(store, names[-1])[::-1]],
        ):
            assert [commit.ticket_id for commit in commits] == [*OPAQUE_IDS]
            assert [commit.thread_id for commit in commits] == [*OPAQUE_IDS][::-1]


ids = st.sampled_from(OPAQUE_IDS) | st.text(max_size=20)
origins = st.builds(CommitOrigin, principal=ids, machine=ids, ticket_id=ids, thread_id=ids)


def write_history(store: Store, origins: Sequence[CommitOrigin]) -> list[CommitId]:
    """Write deltas, a compaction and a snapshot, each with the next origin."""
    names: list[CommitId] = []
    for number, origin in enumerate(origins):
        draft = CommitDraft(
            parent=names[-1] if names else None,
            messages=[Message("user", f"question {number}"), Message("assistant", f"{number}.")],
            origin=origin,
            created_at=NOON,
        )
        if number == 2:
            names.append(compact(store, draft, "in short"))
        elif number == 4:
            names.append(snapshot(store, checkpoint(store, draft)))
        else:
            names.append(checkpoint(store, draft))
    return names


@pytest.mark.req("S2-09")
@settings(max_examples=10)
@given(st.lists(origins, min_size=6, max_size=6))
def test_content_does_not_depend_on_principal_machine_ticket_or_thread(
    origins: list[CommitOrigin],
) -> None:
    store, plain_store = MemoryStore(), MemoryStore()
    names = write_history(store, origins)
    plain_names = write_history(plain_store, [CommitOrigin()] * len(origins))
    for name, plain_name in zip(names, plain_names, strict=True):
        for stop in ("compaction", "root"):
            content = materialize(store, name, stop)
            plain_content = materialize(plain_store, plain_name, stop)
            assert content.messages == plain_content.messages
            assert (content.ref, content.message_count, content.token_count) == (
                plain_content.ref,
                plain_content.message_count,
                plain_content.token_count,
            )
    assert materialize(store, names[-1], names[1]).ref == (
        materialize(plain_store, plain_names[-1], plain_names[1]).ref
    )
    for format_ in FORMATS:
        assert render(store, names[-1], format_).read() == (
            render(plain_store, plain_names[-1], format_).read()
        ), format_
