"""The comparison of two commits: the messages that a model reads at each of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

from harken.context.commit_content import read_commit_messages
from harken.context.materialize import select_commits
from harken.core.commits import CommitId
from harken.core.messages import Message
from harken.store.base import Store
from harken.views.conversation.differences import Work, compare_texts
from harken.views.conversation.items import MAX_TEXT_CHARS
from harken.views.message_diff import MessageDiff, MessagePair, align_messages, build_diff_row
from harken.views.message_text import format_message, heading


class BoundedDiff(NamedTuple):
    """A row of a comparison, and how it was computed."""

    row: MessageDiff
    is_partial: bool
    """Whether changes of the text were left out, or not compared word by word."""
    steps: int
    """The steps of computation that it took."""


class CommitComparison:
    """The aligned messages of two conversations. The differences of texts are found on demand."""

    def __init__(self, before: Sequence[Message], after: Sequence[Message]) -> None:
        self._before, self._after = before, after
        self._pairs: list[MessagePair] = align_messages(before, after)
        self.kept = sum(1 for _ in takewhile(lambda pair: pair.kind == "same", self._pairs))
        """The number of equal messages at the beginning of both."""

    @classmethod
    def read(cls, store: Store, before: CommitId, after: CommitId) -> CommitComparison:
        """Compare two commits. Raises NameNotFound, ObjectNotFound, ObjectCorrupted."""
        return cls(*(read_conversation(store, name) for name in (before, after)))

    def __len__(self) -> int:
        return len(self._pairs)

    def count_kinds(self) -> dict[str, int]:
        """Return the number of rows of each kind."""
        return dict(Counter(pair.kind for pair in self._pairs))

    def rows(self) -> list[MessageDiff]:
        """Return all rows."""
        return [build_diff_row(self._before, self._after, pair) for pair in self._pairs]

    def iter_bounded_rows(self, start: int, stop: int) -> Iterator[BoundedDiff]:
        """Yield a range of the rows. Texts that take too long are not compared word by word."""
        for pair in self._pairs[start:stop]:
            yield self._compare_texts(pair)

    def _compare_texts(self, pair: MessagePair) -> BoundedDiff:
        if pair.kind != "changed" or pair.before is None or pair.after is None:
            return BoundedDiff(build_diff_row(self._before, self._after, pair), False, 0)
        before = format_message(self._before[pair.before])
        after = format_message(self._after[pair.after])
        work = Work()
        difference = compare_texts(before, after, work, MAX_TEXT_CHARS)
        if not difference.is_partial:
            row = build_diff_row(self._before, self._after, pair)
            return BoundedDiff(row, False, work.spent)
        row = MessageDiff(
            kind=pair.kind,
            before=pair.before,
            after=pair.after,
            heading=heading(self._after[pair.after]),
            text=after,
            spans=difference.spans,
        )
        return BoundedDiff(row, True, work.spent)


def read_conversation(store: Store, name: CommitId) -> list[Message]:
    """Return the messages that a model reads at a commit. Nothing is stored.

    Raises as `CommitComparison.read`.
    """
    return read_commit_messages(store, select_commits(store, name))
