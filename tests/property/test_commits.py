"""Any history of commits: what it materializes to, beside a plain model of it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from harken.context.checkpoint import CommitDraft, checkpoint
from harken.context.compaction import compact, snapshot
from harken.context.history import diff
from harken.context.materialize import Cache, materialize
from harken.core.commits import CommitId
from harken.core.messages import Message, text_of
from harken.store.memory import MemoryStore

NOON = "2026-01-31T12:00:00.000000Z"
TEXTS = st.lists(st.sampled_from(["a", "b", "c", "hello", ""]), max_size=4)
SOMETHING = st.lists(st.sampled_from(["a", "b", "c", "hello", ""]), min_size=1, max_size=4)


def said(texts: list[str]) -> list[Message]:
    return [Message("user", text) for text in texts]


def texts_of(messages: list[Message]) -> list[str]:
    return [text_of(message.content) for message in messages]


@pytest.mark.req("S2-01", "S2-12", "S2-15")
@given(st.lists(TEXTS, min_size=1, max_size=100))
def test_a_chain_of_deltas_is_their_concatenation(deltas: list[list[str]]) -> None:
    store = MemoryStore()
    tip: CommitId | None = None
    for texts in deltas:
        tip = checkpoint(store, CommitDraft(parent=tip, messages=said(texts), created_at=NOON))
    for stop in ("root", "compaction"):
        whole = materialize(store, tip, stop)
        assert texts_of(whole.messages) == [text for texts in deltas for text in texts]
        assert whole.message_count == len(whole.messages)


@dataclass(frozen=True)
class Known:
    """What the model says of a commit: its name, and what it stands for by default and in full."""

    ctx: CommitId
    default: tuple[str, ...]
    full: tuple[str, ...]


class Histories(RuleBasedStateMachine):
    """Branches grow, are compacted, repeated, compared; none may change what another one is."""

    commits = Bundle("commits")

    def __init__(self) -> None:
        super().__init__()
        self.store = MemoryStore()
        self.cache: Cache = {}
        self.all: list[Known] = []

    def _know(self, ctx: CommitId, default: tuple[str, ...], full: tuple[str, ...]) -> Known:
        self.all.append(Known(ctx, default, full))
        return self.all[-1]

    @rule(target=commits, texts=TEXTS)
    def begin(self, texts: list[str]) -> Known:
        ctx = checkpoint(self.store, CommitDraft(messages=said(texts), created_at=NOON))
        return self._know(ctx, tuple(texts), tuple(texts))

    @rule(target=commits, parent=commits, texts=TEXTS)
    def go_on(self, parent: Known, texts: list[str]) -> Known:
        draft = CommitDraft(parent=parent.ctx, messages=said(texts), created_at=NOON)
        ctx = checkpoint(self.store, draft)
        return self._know(ctx, (*parent.default, *texts), (*parent.full, *texts))

    @rule(target=commits, parent=commits, texts=TEXTS)
    def compact(self, parent: Known, texts: list[str]) -> Known:
        draft = CommitDraft(parent=parent.ctx, messages=said(texts), created_at=NOON)
        ctx = compact(self.store, draft, "in short")
        return self._know(ctx, ("in short",), (*parent.full, *texts))

    @rule(target=commits, parent=commits)
    def repeat(self, parent: Known) -> Known:
        return self._know(snapshot(self.store, parent.ctx), parent.default, parent.full)

    @rule(target=commits, parent=commits, texts=SOMETHING)
    def spawn(self, parent: Known, texts: list[str]) -> Known:
        draft = CommitDraft(
            parent=parent.ctx,
            type="snapshot",
            trigger="spawn",
            messages=said(texts),
            created_at=NOON,
        )
        return self._know(checkpoint(self.store, draft), tuple(texts), tuple(texts))

    @rule(one=commits, other=commits)
    def compare(self, one: Known, other: Known) -> None:
        found = diff(self.store, one.ctx, other.ctx)
        mirrored = diff(self.store, other.ctx, one.ctx)
        assert (found.ours, found.theirs) == (mirrored.theirs, mirrored.ours)
        for known, since in ((one, found.ours), (other, found.theirs)):
            assert known.full[len(known.full) - len(since) :] == tuple(texts_of(since))

    @rule(known=commits)
    def read_again(self, known: Known) -> None:
        """With and without a cache that has seen all."""
        for cache in (None, self.cache):
            default = materialize(self.store, known.ctx, cache=cache)
            assert tuple(texts_of(default.messages)) == known.default
            full = materialize(self.store, known.ctx, "root", cache)
            assert tuple(texts_of(full.messages)) == known.full

    @invariant()
    def the_last_few_are_what_they_were(self) -> None:
        for known in self.all[:3] + self.all[-3:]:
            self.read_again(known)

    def teardown(self) -> None:
        for known in self.all:
            self.read_again(known)


Histories.TestCase.settings = settings(
    max_examples=settings().max_examples // 3, stateful_step_count=25
)
TestHistories = pytest.mark.req("S2-08", "S2-14", "S2-15", "S2-24", "D-03")(Histories.TestCase)
