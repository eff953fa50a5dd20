"""No branch sees another's messages, whatever is done to any of them, in memory and in a file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from harken.context.checkpoint import CommitDraft, CommitOrigin, checkpoint
from harken.context.compaction import compact, snapshot
from harken.context.history import commit_history, diff, get_commit, resolve, update_metadata
from harken.context.materialize import Cache, materialize
from harken.context.purge import PurgeRequest, find_text, purge_text
from harken.core.commits import CommitId, CommitNotes, CommitType
from harken.core.messages import Message, text_of
from harken.core.secrets.removal import PURGED, Secret
from harken.errors import NameNotFound
from harken.store.base import RetentionPolicy, Store
from harken.store.fsck import fsck
from harken.store.memory import MemoryStore
from harken.store.sqlite.store import SqliteStore
from tests.property.branch_model import (
    BranchView,
    Content,
    begin_view,
    common,
    compact_view,
    extend_view,
)

BRANCHES = 6
"""How many there are at once at most."""
SECRETS = ["secret 1234", "token 5678"]
TEXTS = ["", "a", "b", "the same everywhere", "\ud800 alone", "é" * 300, *SECRETS]
SAID = st.lists(
    st.tuples(st.sampled_from(["user", "assistant"]), st.sampled_from(TEXTS)), max_size=3
)
SECONDS = st.integers(0, 5)
PRINCIPALS = st.sampled_from(["ann", "bo"])
Policy: TypeAlias = Literal["pin", "ephemeral"]
ANY = st.integers(0, 99)
"""Which of those that there are."""


def messages(contents: Iterable[Content]) -> list[Message]:
    return [Message(role, text) for role, text in contents]  # type: ignore[arg-type]


def to_contents(messages_: Iterable[Message]) -> list[Content]:
    return [(message.role, text_of(message.content)) for message in messages_]


def long_ago() -> int:
    """Return when everything was written: nothing is too young to be collected."""
    return 0


def time(second: int) -> str:
    return f"2026-01-31T12:00:{second:02d}.000000Z"


class Branches(RuleBasedStateMachine):
    """Branches grow, part, are summed up, repeated and described; the model knows what each is."""

    def __init__(self) -> None:
        super().__init__()
        self.handles = self.opened()
        self.steps = 0
        self.cache: Cache = {}
        self.seen: dict[CommitId, BranchView] = {}
        """Every commit, in the order of writing."""
        self.notes: dict[CommitId, CommitNotes] = {}
        self.tips: list[CommitId] = []
        self.kept: dict[CommitId, RetentionPolicy] = {}
        self.purged: set[str] = set()

    def opened(self) -> list[Store]:
        """Return two handles of one store."""
        store = MemoryStore(clock=long_ago)
        return [store, store]

    @property
    def store(self) -> Store:
        """The handle whose turn it is: each writes what the other one reads."""
        return self.handles[self.steps % 2]

    def pick(self, index: int) -> CommitId:
        return list(self.seen)[index % len(self.seen)]

    def tip(self, branch: int) -> CommitId:
        return self.tips[branch % len(self.tips)]

    def clean(self, contents: list[Content]) -> list[Content]:
        """What is read where this was written."""
        return [(role, PURGED if text in self.purged else text) for role, text in contents]

    def known(self, ctx: CommitId, view: BranchView, branch: int | None = None) -> None:
        """Note a commit that was made; it is the new end of a branch, or a branch of its own."""
        assert self.seen.setdefault(ctx, view) == view, "equal names, other content"
        self.notes.setdefault(ctx, get_commit(self.store, ctx).notes)
        if branch is None and len(self.tips) < BRANCHES:
            self.tips.append(ctx)
        else:
            self.tips[(branch or 0) % len(self.tips)] = ctx

    def draft(
        self, contents: list[Content], parent: CommitId | None, second: int, principal: str
    ) -> CommitDraft:
        origin = CommitOrigin(principal=principal)
        return CommitDraft(
            messages=messages(contents), parent=parent, created_at=time(second), origin=origin
        )

    @initialize(contents=SAID, second=SECONDS, principal=PRINCIPALS)
    def first(self, contents: list[Content], second: int, principal: str) -> None:
        self.root(contents, second, principal, "delta")

    @rule(
        contents=SAID,
        second=SECONDS,
        principal=PRINCIPALS,
        type_=st.sampled_from(get_args(CommitType)),
    )
    def root(self, contents: list[Content], second: int, principal: str, type_: CommitType) -> None:
        entries = [("system", "You are " + principal), *contents]
        ctx = checkpoint(
            self.store, replace(self.draft(entries, None, second, principal), type=type_)
        )
        self.known(ctx, begin_view(ctx, entries))

    @rule(branch=ANY, contents=SAID, second=SECONDS, principal=PRINCIPALS)
    def grow(self, branch: int, contents: list[Content], second: int, principal: str) -> None:
        parent = self.tip(branch)
        ctx = checkpoint(self.store, self.draft(contents, parent, second, principal))
        assert checkpoint(self.store, self.draft(contents, parent, second, principal)) == ctx
        self.known(ctx, extend_view(self.seen[parent], ctx, contents), branch)

    @rule(index=ANY, contents=SAID, second=SECONDS, principal=PRINCIPALS)
    def fork(self, index: int, contents: list[Content], second: int, principal: str) -> None:
        parent = self.pick(index)
        ctx = checkpoint(self.store, self.draft(contents, parent, second, principal))
        self.known(ctx, extend_view(self.seen[parent], ctx, contents))

    @rule(index=ANY, contents=SAID, second=SECONDS, principal=PRINCIPALS)
    def spawn(self, index: int, contents: list[Content], second: int, principal: str) -> None:
        parent = self.pick(index)
        draft = self.draft(contents, parent, second, principal)
        ctx = checkpoint(self.store, replace(draft, type="snapshot", trigger="spawn"))
        self.known(ctx, begin_view(ctx, contents, self.seen[parent].path))

    @rule(
        index=ANY,
        contents=SAID,
        second=SECONDS,
        principal=PRINCIPALS,
        text=st.sampled_from(["so far", "b"]),
    )
    def compact(
        self, index: int, contents: list[Content], second: int, principal: str, text: str
    ) -> None:
        """What is pending comes first; without it an old chain is summed up, once more perhaps."""
        parent = self.pick(index)
        ctx = compact(self.store, self.draft(contents, parent, second, principal), text)
        before = self.seen[parent]
        if contents:
            between = commit_history(self.store, ctx, 2)[1].id
            before = extend_view(before, between, contents)
            self.known(between, before)
        system = list(takewhile(lambda pair: pair[0] == "system", before.default))
        self.known(ctx, compact_view(before, ctx, [*system, ("user", text)]))

    @rule(index=ANY)
    def snapshot(self, index: int) -> None:
        parent = self.seen[self.pick(index)]
        ctx = snapshot(self.store, parent.path[0])
        self.known(ctx, compact_view(parent, ctx, parent.default))

    @rule(index=ANY, summary=st.sampled_from(["x", "it \ud800 was"]))
    def summarize(self, index: int, summary: str) -> None:
        ctx = self.pick(index)
        update_metadata(self.store, ctx, summary=summary)
        self.notes[ctx] = CommitNotes(summary=summary, labels=self.notes[ctx].labels)

    @rule(index=ANY, labels=st.lists(st.sampled_from(["good", "bad", "two words"]), unique=True))
    def label(self, index: int, labels: list[str]) -> None:
        ctx = self.pick(index)
        update_metadata(self.store, ctx, labels=labels)
        self.notes[ctx] = msgspec.structs.replace(self.notes[ctx], labels=tuple(labels))

    @rule(index=ANY, other_index=ANY)
    def compare(self, index: int, other_index: int) -> None:
        left, right = self.seen[self.pick(index)], self.seen[self.pick(other_index)]
        messages_ = diff(self.store, left.path[0], right.path[0])
        assert messages_.ancestor == common(left, right)
        assert to_contents(messages_.ours) == self.clean(left.after(messages_.ancestor))
        assert to_contents(messages_.theirs) == self.clean(right.after(messages_.ancestor))

    @rule(index=ANY, stop=ANY)
    def stop_at(self, index: int, stop: int) -> None:
        view, until = self.seen[self.pick(index)], self.pick(stop)
        expected = view.since(until)
        if expected is None:
            with pytest.raises(NameNotFound):
                materialize(self.store, view.path[0], until)
        else:
            assert to_contents(materialize(self.store, view.path[0], until).messages) == self.clean(
                expected
            )

    @rule(principal=PRINCIPALS, second=SECONDS)
    def resolve(self, principal: str, second: int) -> None:
        stored = self.store.commits(self.seen)
        candidates = [
            (stored[ctx].commit.created_at, index)
            for index, ctx in enumerate(self.seen)
            if stored[ctx].commit.principal == principal
        ]
        until = [candidate for candidate in candidates if candidate[0] <= time(second)]
        expected = list(self.seen)[max(until)[1]] if until else None
        assert resolve(self.store, principal, time(second)) == expected

    @rule(index=ANY, policy=st.sampled_from(["pin", "ephemeral", None]), second=SECONDS)
    def keep(self, index: int, policy: Policy | None, second: int) -> None:
        ctx = self.pick(index)
        until = time(second) if policy == "ephemeral" else None
        keeping = None if policy is None else RetentionPolicy(policy, until)
        self.store.set_retention({ctx: keeping})
        self.kept.pop(ctx, None)
        if keeping is not None:
            self.kept[ctx] = keeping

    @rule(second=SECONDS, roots=st.lists(ANY, max_size=2), dry_run=st.booleans())
    def collect(self, second: int, roots: list[int], dry_run: bool) -> None:
        """What has expired goes, unless it has a label, is a root, or something stays on it."""
        stay = {ctx for ctx in self.seen if not self.has_expired(ctx, time(second))}
        stay |= {*map(self.pick, roots), next(iter(self.seen))}
        needed = {before for ctx in stay for before in self.seen[ctx].path}
        removed = self.seen.keys() - needed
        result = self.store.collect([*stay], now=time(second), grace_s=0, dry_run=dry_run)
        assert set(result.commits) == removed
        if not dry_run:
            for ctx in removed:
                for table in (self.seen, self.notes, self.kept):
                    table.pop(ctx, None)
            self.tips = [tip for tip in self.tips if tip in self.seen] or [self.pick(0)]
            assert self.store.names_with_prefix("ctx-", 999) == sorted(self.seen)

    def has_expired(self, ctx: CommitId, now: str) -> bool:
        keeping = self.kept.get(ctx)
        return bool(
            keeping and keeping.until and keeping.until <= now and not self.notes[ctx].labels
        )

    @rule(secret=st.sampled_from(SECRETS))
    def purge(self, secret: str) -> None:
        places = purge_text(
            self.store, [], PurgeRequest(secret=Secret(secret), by="ann", why="it leaked")
        )
        if any(place.kind == "part" for place in places):
            self.purged.add(secret)
        for ctx, notes in self.notes.items():
            summary = notes.summary.replace(secret, PURGED)
            self.notes[ctx] = msgspec.structs.replace(notes, summary=summary)
        assert find_text(self.store, [], Secret(secret)) == []

    @rule(index=ANY)
    def look(self, index: int) -> None:
        """All that is not the conversation is as it was, too."""
        ctx = self.pick(index)
        assert tuple(commit.id for commit in commit_history(self.store, ctx)) == self.seen[ctx].path
        assert get_commit(self.store, ctx).notes == self.notes[ctx]
        labels = {label for notes in self.notes.values() for label in notes.labels}
        assert self.store.commits_by_label().keys() == labels
        assert self.store.newest_commits(999) == list(self.seen)[::-1]
        assert self.store.retention() == self.kept
        assert fsck(self.store) == []

    @invariant()
    def every_branch_is_what_the_model_says(self) -> None:
        for tip in self.tips:
            view = self.seen[tip]
            assert to_contents(materialize(self.handles[0], tip).messages) == self.clean(
                view.default
            )
            assert to_contents(materialize(self.handles[1], tip, "root").messages) == self.clean(
                view.full
            )
            cached = materialize(self.handles[0], tip, "compaction", self.cache)
            assert to_contents(cached.messages) == self.clean(view.default)
        self.steps += 1

    def teardown(self) -> None:
        for handle in self.handles:
            handle.close()


class BranchesInAFile(Branches):
    """The same in a file that two handles hold, and that is closed and opened now and then."""

    def opened(self) -> list[Store]:
        if not hasattr(self, "folder"):
            self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name) / "s.db"
        return [SqliteStore(path, clock=long_ago), SqliteStore(path, clock=long_ago)]

    @rule()
    def reopen(self) -> None:
        for handle in self.handles:
            handle.close()
        self.handles = self.opened()

    def teardown(self) -> None:
        super().teardown()
        self.folder.cleanup()


for machine, share in ((Branches, 3), (BranchesInAFile, 6)):
    machine.TestCase.settings = settings(
        max_examples=settings().max_examples // share, stateful_step_count=25
    )
proves = pytest.mark.req("S2-08", "S2-14", "S2-15", "S2-16", "S2-18", "S2-24", "S2-26", "S2-27")
TestBranches = proves(Branches.TestCase)
TestBranchesInAFile = proves(BranchesInAFile.TestCase)
