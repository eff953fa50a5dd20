"""Conversations in the format that somebody wants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from harken.context.checkpoint import CommitDraft, checkpoint
from harken.context.compaction import compact
from harken.context.materialize import materialize
from harken.context.render import RenderedConversation, render
from harken.core.commits import CommitId, hash_raw
from harken.core.messages import Message, text_of
from harken.errors import NameNotFound, StoreWriteError
from harken.formats import events_v1, narrative
from harken.formats.base import ConversationEntry, Format
from harken.formats.registry import FormatRegistry
from harken.store.base import Store, WriteBatch
from tests.unit.context.kit import NOON, commit, said
from tests.unit.context.toys import TOY_1, TOY_2
from tests.unit.context.watched import WatchedStore

PLAIN = FormatRegistry(installed=list)
TOYS = FormatRegistry(TOY_1, TOY_2, installed=list)


def commit_raw(
    store: Store, parent: CommitId | None, data: bytes, format: str, **more: object
) -> CommitId:
    """Commit bytes as they are."""
    ref = hash_raw(data)
    store.write(WriteBatch(raw={ref: data}))
    draft = CommitDraft(parent=parent, artifact=ref, format=format, created_at=NOON, **more)  # type: ignore[arg-type]
    return checkpoint(store, draft)


def how(rendered: RenderedConversation) -> tuple[int, str, bytes]:
    return rendered.tier, rendered.format, rendered.read()


@pytest.mark.req("S2-52", "S2-58")
def test_events_of_a_chain_are_those_of_its_deltas(store: WatchedStore) -> None:
    tip = commit(store, commit(store, None, "a", "b"), "c")
    rendered = render(store, tip, "events-v1")
    assert (rendered.tier, rendered.format) == (1, "events-v1")
    assert (rendered.message_count, rendered.token_count) == (3, 2)
    assert store.raw(rendered.ref) == rendered.read()
    assert events_v1.FORMAT.reads
    entries = events_v1.FORMAT.reads(rendered.read())
    assert [entry.message for entry in entries] == materialize(store, tip).messages


@pytest.mark.req("S2-13")
def test_nothing_is_an_empty_conversation(store: WatchedStore) -> None:
    assert how(render(store, None, "events-v1")) == (1, "events-v1", b"\x80")
    assert how(render(store, None, "narrative-v1")) == (1, "narrative-v1", b"")


@pytest.mark.req("S2-54", "S2-56", "S2-58")
def test_bytes_of_one_format_are_appended(store: WatchedStore) -> None:
    tip = commit_raw(store, None, b"< a\n> b\n", "toy-v1")
    tip = commit_raw(store, tip, b"< c\n", "toy-v1")
    assert how(render(store, tip, "toy-v1", formats=TOYS)) == (
        1,
        "toy-v1",
        b"< a\n> b\n< c\n",
    )


@pytest.mark.req("S2-57", "S2-58")
def test_an_older_version_is_mapped_and_stays_as_it_is(store: WatchedStore) -> None:
    old = commit_raw(store, None, b"< a\n", "toy-v1")
    tip = commit_raw(store, old, b'{"who": "assistant", "says": "b"}\n', "toy-v2")
    lines = b'{"who": "user", "says": "a"}\n{"who": "assistant", "says": "b"}\n'
    assert how(render(store, tip, "toy-v2", formats=TOYS)) == (2, "toy-v2", lines)
    assert how(render(store, old, "toy-v1", formats=TOYS)) == (1, "toy-v1", b"< a\n")
    assert store.commits([old])[old].commit.format == "toy-v1"


def test_an_older_version_is_read_where_only_the_later_one_is_there(store: WatchedStore) -> None:
    later = FormatRegistry(TOY_2, installed=list)
    tip = commit(store, commit_raw(store, None, b"> b\n", "toy-v1"), "c")
    assert how(render(store, tip, "toy-v2", formats=later))[0] == 3
    assert b"b\n" in render(store, tip, "narrative-v1", formats=later).read()


@pytest.mark.req("S2-56", "S2-59")
def test_between_formats_that_are_written_it_stays_a_conversation(store: WatchedStore) -> None:
    toy = commit_raw(store, None, b"< a\n> b\n", "toy-v1")
    tip, format_, data = how(render(store, toy, "events-v1", formats=TOYS))
    assert (tip, format_) == (3, "events-v1")
    assert events_v1.FORMAT.reads
    assert [e.message for e in events_v1.FORMAT.reads(data)] == said("a", "b")
    ours = commit(store, None, "a", "b")
    assert how(render(store, ours, "toy-v1", formats=TOYS)) == (3, "toy-v1", b"< a\n> b\n")


@pytest.mark.req("S2-59", "S2-61")
def test_what_a_format_cannot_say_is_told(store: WatchedStore) -> None:
    two_lines = commit(store, None, "a\nb")
    read_only = FormatRegistry(Format(name="toy-v3", reads=TOY_1.reads), installed=list)
    for rendered in (
        render(store, two_lines, "toy-v1", formats=TOYS),
        render(store, two_lines, "toy-v3", formats=read_only),
        render(store, two_lines, "narrative-v1"),
    ):
        assert how(rendered) == (3, "narrative-v1", b"## User\n\n```\na\nb\n```\n\n")


@pytest.mark.req("S2-60")
def test_an_unknown_format_gives_its_bytes_and_what_is_known_of_them(store: WatchedStore) -> None:
    data = b'{"odd": "transcript"}\xff\n```\n## User\n'
    tip = commit(store, commit_raw(store, None, data, "codex-v9", summary="an *import*"), "and?")
    tier, format_, text = how(render(store, tip, "events-v1", formats=PLAIN))
    assert (tier, format_) == (4, "raw-v1")
    shown = text.decode()
    assert f"- {hash_raw(data)} of ctx-" in shown
    assert f": {len(data)} bytes of `codex-v9`: `an *import*`" in shown
    assert '{"odd": "transcript"}\\xff\n```\n## User\n' in shown
    assert "````\n[" in shown  # in a fence that it cannot end
    assert "and?" in shown


@pytest.mark.req("S2-60")
def test_bytes_of_an_unknown_format_alone_come_back(store: WatchedStore) -> None:
    tip = commit_raw(store, None, b"\0\xff", "codex-v9")
    assert how(render(store, tip, "codex-v9", formats=PLAIN)) == (1, "codex-v9", b"\0\xff")
    both = commit_raw(store, tip, b"\1", "codex-v9")
    assert render(store, both, "codex-v9", formats=PLAIN).tier == 4  # nobody knows how to join


@pytest.mark.req("S2-60")
def test_bytes_that_are_not_what_their_commit_says_are_raw(store: WatchedStore) -> None:
    tip = commit_raw(store, None, b"nonsense", "toy-v1")
    for name in ("events-v1", "toy-v2", "narrative-v1"):
        assert render(store, tip, name, formats=TOYS).tier == 4


@pytest.mark.req("S2-60", "S2-61")
def test_who_learns_a_format_later_reads_what_was_raw(store: WatchedStore) -> None:
    tip = commit_raw(store, None, b"< a\n", "toy-v1")
    assert render(store, tip, "narrative-v1", formats=PLAIN).tier == 4
    assert render(store, tip, "narrative-v1", formats=TOYS).tier == 3


def test_what_is_only_read_is_joined_from_its_own_bytes_alone(store: WatchedStore) -> None:
    read_only = FormatRegistry(
        Format(name="toy-v3", reads=TOY_1.reads, joins=b"".join), installed=list
    )
    raw = commit_raw(store, None, b"< a\n", "toy-v3")
    raw = commit_raw(store, raw, b"< b\n", "toy-v3")
    assert how(render(store, raw, "toy-v3", formats=read_only)) == (1, "toy-v3", b"< a\n< b\n")
    mixed = commit(store, raw, "c", format="toy-v3")
    assert how(render(store, mixed, "toy-v3", formats=read_only))[:2] == (3, "narrative-v1")


def test_a_target_that_nobody_knows_is_refused(store: WatchedStore) -> None:
    with pytest.raises(NameNotFound, match=r"format 'codex-v9' not found.*events-v1"):
        render(store, commit(store, None, "a"), "codex-v9", formats=PLAIN)


@pytest.mark.req("S2-17", "S2-61")
def test_a_translation_is_made_once(store: WatchedStore) -> None:
    tip = commit_raw(store, commit(store, None, "a", "b"), b"< c\n", "toy-v1")
    for stop in ("compaction", "root"):
        first = render(store, tip, "events-v1", stop, formats=TOYS)
        store.asked.clear()
        again = render(store, tip, "events-v1", stop, formats=PLAIN)  # knows no toys
        assert again == first
        assert again.read() == first.read()
        assert not store.asked


def test_what_was_kept_wrongly_is_made_again(store: WatchedStore) -> None:
    tip = commit(store, None, "a")
    first = render(store, tip, "events-v1")
    wrong = hash_raw(b"{}")
    key = f"rendering:events-v1:{tip}:compaction"
    store.write(WriteBatch(raw={wrong: b"{}"}, derived={key: wrong}))
    assert render(store, tip, "events-v1") == first


def test_a_later_writer_of_a_format_gives_its_own_bytes(store: WatchedStore) -> None:
    def shouts(entries: Sequence[ConversationEntry]) -> bytes:
        return b"".join(text_of(entry.message.content).upper().encode() for entry in entries)

    toy = TOYS.get("toy-v1")
    assert toy is not None
    tip = commit(store, None, "tea")
    first = render(store, tip, "toy-v1", formats=TOYS)
    later = FormatRegistry(replace(toy, revision=2, writes=shouts))
    assert render(store, tip, "toy-v1", formats=later).read() == b"TEA" != first.read()
    assert render(store, tip, "toy-v1", formats=TOYS).read() == first.read()


def test_a_store_that_refuses_to_keep_a_translation_does_no_harm() -> None:
    class Full(WatchedStore):
        def write(self, batch: WriteBatch) -> None:
            if batch.derived:
                raise StoreWriteError("here", reason="no space left")
            super().write(batch)

    store = Full()
    tip = commit(store, None, "a")
    assert how(render(store, tip, "narrative-v1"))[0] == 3


def test_a_large_conversation_is_kept_in_pieces(store: WatchedStore) -> None:
    tip = commit(store, None, "x" * 5_000_000)
    first = render(store, tip, "events-v1")
    assert store.raw(first.ref) == first.read()
    assert render(store, tip, "events-v1") == first
    assert len(store.names_with_prefix("art-", 100)) > 5


@pytest.mark.req("S2-55")
def test_a_native_snapshot_among_events_repeats_nothing(store: WatchedStore) -> None:
    """As of a runtime that commits what happens as events, and now and then its own state."""
    tip = commit(store, commit(store, None, "a", "b"), "c")
    tip = commit_raw(store, tip, b"< a\n> b\n< c\n", "toy-v1", type="snapshot")
    tip = commit(store, tip, "d")
    for stop in ("compaction", "root"):
        rendered = render(store, tip, "toy-v1", stop, formats=TOYS)
        assert rendered.read() == b"< a\n> b\n< c\n< d\n"
    native = commit_raw(store, None, b"< a\n", "toy-v1")
    mixed = commit(store, commit_raw(store, commit(store, native, "b"), b"> c\n", "toy-v1"), "d")
    assert render(store, mixed, "toy-v1", formats=TOYS).read() == b"< a\n< b\n> c\n< d\n"


@pytest.mark.req("S2-14", "S2-15")
def test_the_stop_counts_in_every_format(store: WatchedStore) -> None:
    tip = commit(store, None, "a", "b")
    tip = compact(store, CommitDraft(parent=tip, created_at=NOON), "in short")
    tip = commit(store, tip, "c")
    full = render(store, tip, "narrative-v1", "root").read()
    short = render(store, tip, "narrative-v1").read()
    assert (b"in short" in full, b"in short" in short) == (False, True)
    said_in_full = [Message("user", "a"), Message("assistant", "b"), Message("user", "c")]
    assert full == narrative.format_narrative([*map(ConversationEntry, said_in_full)]).encode()
