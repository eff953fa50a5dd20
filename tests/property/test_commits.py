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


def to_messages(texts: list[str]) -> list[Message]:
    return [Message("user", text) for text in texts]


def texts_of(messages: list[Message]) -> list[str]:
    return [text_of(message.content) for message in messages]


@pytest.mark.req("S2-01", "S2-12", "S2-15")
@given(st.lists(TEXTS, min_size=1, max_size=100))
def test_delta_chain_materializes_to_the_concatenation(deltas: list[list[str]]) -> None:
    store = MemoryStore()
    tip: CommitId | None = None
    for texts in deltas:
        tip = checkpoint(
            store, CommitDraft(parent=tip, messages=to_messages(texts), created_at=NOON)
        )
    for stop in ("root", "compaction"):
        context = materialize(store, tip, stop)
        assert texts_of(context.messages) == [text for texts in deltas for text in texts]
        assert context.message_count == len(context.messages)


@dataclass(frozen=True)
class KnownCommit:
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
        self.all: list[KnownCommit] = []

    def _know(self, ctx: CommitId, default: tuple[str, ...], full: tuple[str, ...]) -> KnownCommit:
        self.all.append(KnownCommit(ctx, default, full))
        return self.all[-1]

    @rule(target=commits, texts=TEXTS)
    def begin(self, texts: list[str]) -> KnownCommit:
        ctx = checkpoint(self.store, CommitDraft(messages=to_messages(texts), created_at=NOON))
        return self._know(ctx, tuple(texts), tuple(texts))

    @rule(target=commits, parent=commits, texts=TEXTS)
    def go_on(self, parent: KnownCommit, texts: list[str]) -> KnownCommit:
        draft = CommitDraft(parent=parent.ctx, messages=to_messages(texts), created_at=NOON)
        ctx = checkpoint(self.store, draft)
        return self._know(ctx, (*parent.default, *texts), (*parent.full, *texts))

    @rule(target=commits, parent=commits, texts=TEXTS)
    def compact(self, parent: KnownCommit, texts: list[str]) -> KnownCommit:
        draft = CommitDraft(parent=parent.ctx, messages=to_messages(texts), created_at=NOON)
        ctx = compact(self.store, draft, "in short")
        return self._know(ctx, ("in short",), (*parent.full, *texts))

    @rule(target=commits, parent=commits)
    def repeat(self, parent: KnownCommit) -> KnownCommit:
        return self._know(snapshot(self.store, parent.ctx), parent.default, parent.full)

    @rule(target=commits, parent=commits, texts=SOMETHING)
    def spawn(self, parent: KnownCommit, texts: list[str]) -> KnownCommit:
        draft = CommitDraft(
            parent=parent.ctx,
            type="snapshot",
            trigger="spawn",
            messages=to_messages(texts),
            created_at=NOON,
        )
        return self._know(checkpoint(self.store, draft), tuple(texts), tuple(texts))

    @rule(left=commits, right=commits)
    def compare(self, left: KnownCommit, right: KnownCommit) -> None:
        difference = diff(self.store, left.ctx, right.ctx)
        mirrored = diff(self.store, right.ctx, left.ctx)
        assert (difference.ours, difference.theirs) == (mirrored.theirs, mirrored.ours)
        for commit, since in ((left, difference.ours), (right, difference.theirs)):
            assert commit.full[len(commit.full) - len(since) :] == tuple(texts_of(since))

    @rule(commit=commits)
    def read_again(self, commit: KnownCommit) -> None:
        """With and without a cache that has seen all."""
        for cache in (None, self.cache):
            default = materialize(self.store, commit.ctx, cache=cache)
            assert tuple(texts_of(default.messages)) == commit.default
            full = materialize(self.store, commit.ctx, "root", cache)
            assert tuple(texts_of(full.messages)) == commit.full

    @invariant()
    def the_last_few_are_what_they_were(self) -> None:
        for commit in self.all[:3] + self.all[-3:]:
            self.read_again(commit)

    def teardown(self) -> None:
        for commit in self.all:
            self.read_again(commit)


Histories.TestCase.settings = settings(
    max_examples=settings().max_examples // 3, stateful_step_count=25
)
TestHistories = pytest.mark.req("S2-08", "S2-14", "S2-15", "S2-24", "D-03")(Histories.TestCase)
