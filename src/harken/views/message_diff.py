"""Diff two message lists, or two texts word by word.

Messages are equal if a model cannot distinguish them: by their hash, which covers neither ids nor
agents. Between equal ranges, messages with similar text are paired, so that the diff shows the
changed words instead of two full messages.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from harken.core.messages import ChatMessage, message_hash
from harken.core.record import SparseRecord
from harken.views.message_text import format_message, heading

_WORD_PATTERN = re.compile(r"\s+|\w+|[^\w\s]")
_MAX_DIFF_WORDS = 4_000
"""If more words remain between the equal ends of two texts, they are reported as one change."""
_MIN_SIMILARITY = 0.5
"""Minimum share of common words in two versions of one message."""
_MAX_CANDIDATES = 8
"""Maximum number of candidates that a message is compared with."""
_ELLIPSIS = " … "

_Range: TypeAlias = tuple[int, int]
_Pair: TypeAlias = tuple[int, int]


class TextSpan(SparseRecord, frozen=True, kw_only=True):
    """A range of text that is in both texts, or in one only."""

    kind: Literal["same", "dropped", "added"]
    text: str


DiffKind: TypeAlias = Literal["same", "dropped", "added", "changed"]


class MessagePair(NamedTuple):
    """The positions of a message of either list, or of a pair of messages."""

    kind: DiffKind
    before: int | None
    after: int | None


class MessageDiff(SparseRecord, frozen=True, kw_only=True):
    """A message of either list, or a pair of messages."""

    kind: DiffKind
    before: int | None = None
    """Position in the first list, from 0."""
    after: int | None = None
    """Position in the second list, from 0."""
    heading: str
    """Role, and for a result its tool and call; of the second message for a pair."""
    text: str
    """The full text; of the second message for a pair."""
    spans: list[TextSpan] = msgspec.field(default_factory=list)
    """For a changed message: the diff of its text, with unchanged text shortened."""


def diff_messages(
    before: Sequence[ChatMessage], after: Sequence[ChatMessage], *, kept: int = 0
) -> list[MessageDiff]:
    """Align two lists of messages. Return a row for each message or pair, in order.

    `kept` is the number of equal messages before both lists; positions include them.

    >>> from harken.core.messages import Message
    >>> rows = diff_messages(
    ...     [Message("user", "One tea"), Message("user", "Go")],
    ...     [Message("user", "One coffee"), Message("user", "Now"), Message("user", "Go")],
    ... )
    >>> [(row.kind, row.text) for row in rows]
    [('changed', 'One coffee'), ('added', 'Now'), ('same', 'Go')]
    """
    return [build_diff_row(before, after, pair, kept) for pair in align_messages(before, after)]


def align_messages(
    before: Sequence[ChatMessage], after: Sequence[ChatMessage]
) -> list[MessagePair]:
    """Align two lists of messages, without the differences of their texts, which take longer."""
    old_hashes, new_hashes = list(map(message_hash, before)), list(map(message_hash, after))
    pairs: list[MessagePair] = []
    for is_equal, old, new in _iter_ranges(old_hashes, new_hashes):
        left, right = range(*old), range(*new)
        if is_equal:
            pairs += [MessagePair("same", i, j) for i, j in zip(left, right, strict=True)]
        else:
            pairs += _iter_unequal(before, after, left, right)
    return pairs


def build_diff_row(
    before: Sequence[ChatMessage], after: Sequence[ChatMessage], pair: MessagePair, kept: int = 0
) -> MessageDiff:
    """Return the row of a message or a pair of an alignment of these lists."""
    kind, old, new = pair
    position = old if new is None else new
    assert position is not None  # A pair has a message of one list at least.
    message = before[position] if new is None else after[position]
    text_spans: list[TextSpan] = []
    if kind == "changed" and old is not None:
        text_spans = spans(format_message(before[old]), format_message(message))
    return MessageDiff(
        kind=kind,
        before=None if old is None else old + kept,
        after=None if new is None else new + kept,
        heading=heading(message),
        text=format_message(message),
        spans=text_spans,
    )


def spans(before: str, after: str, *, around: int | None = 40) -> list[TextSpan]:
    """Return the changes from one text to the other, word by word.

    Unchanged text is shortened to `around` characters beside a change. None means full text.

    >>> [(span.kind, span.text) for span in spans("a cup of tea", "a cup of coffee, please")]
    [('same', 'a cup of '), ('dropped', 'tea'), ('added', 'coffee, please')]
    """
    all_spans = [span for span in _iter_spans(before, after) if span.text]
    if around is None:
        return all_spans
    ends = {0: "start", len(all_spans) - 1: "end"} if len(all_spans) > 1 else {}
    return [_shorten(span, ends.get(index), around) for index, span in enumerate(all_spans)]


def split_words(text: str) -> list[str]:
    """Split a text into the words, signs and white space that `spans` compares."""
    return _WORD_PATTERN.findall(text)


def _iter_ranges(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[bool, _Range, _Range]]:
    """Yield ranges of two lists and whether they are equal.

    Common ends are found without a search.
    """
    head, tail = _common_ends(old, new)
    old_stop, new_stop = len(old) - tail, len(new) - tail
    yield True, (0, head), (0, head)
    inner = SequenceMatcher(None, old[head:old_stop], new[head:new_stop])
    for tag, i, j, k, m in inner.get_opcodes():
        yield tag == "equal", (head + i, head + j), (head + k, head + m)
    yield True, (old_stop, len(old)), (new_stop, len(new))


def _common_ends(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """Return the lengths of the common prefix and of the common suffix after it."""
    shorter = min(len(old), len(new))
    head = next((index for index in range(shorter) if old[index] != new[index]), shorter)
    remaining = shorter - head
    return head, next(
        (index for index in range(remaining) if old[-1 - index] != new[-1 - index]), remaining
    )


def _iter_unequal(
    before: Sequence[ChatMessage], after: Sequence[ChatMessage], old: range, new: range
) -> Iterator[MessagePair]:
    """Yield the rows of two ranges without equal messages: pairs, and unpaired messages."""
    pairs = _pair_similar(
        [before[old_position] for old_position in old],
        [after[old_position] for old_position in new],
    )
    for (i, k), (j, m) in pairwise([(-1, -1), *pairs, (len(old), len(new))]):
        yield from (MessagePair("dropped", position, None) for position in old[i + 1 : j])
        yield from (MessagePair("added", None, position) for position in new[k + 1 : m])
        if j < len(old):
            yield MessagePair("changed", old[j], new[m])


def _pair_similar(old: Sequence[ChatMessage], new: Sequence[ChatMessage]) -> list[_Pair]:
    """Return the index pairs of similar messages, in order."""
    if len(old) == len(new) == 1:
        return [(0, 0)] if old[0].role == new[0].role else []
    new_words = [_count_words(message) for message in new]
    pairs: list[_Pair] = []
    start = 0
    for old_index, message in enumerate(old):
        old_words = _count_words(message)
        for new_index in range(start, min(start + _MAX_CANDIDATES, len(new))):
            if message.role == new[new_index].role and _is_similar(
                message, old_words, new_words[new_index]
            ):
                pairs.append((old_index, new_index))
                start = new_index + 1
                break
    return pairs


def _count_words(message: ChatMessage) -> Counter[str]:
    return Counter(_WORD_PATTERN.findall(format_message(message)))


def _is_similar(message: ChatMessage, old: Counter[str], new: Counter[str]) -> bool:
    """Whether two messages of one role share most words. System messages always match."""
    shared = 2 * (old & new).total()
    return message.role == "system" or shared >= _MIN_SIMILARITY * (old.total() + new.total())


def _iter_spans(before: str, after: str) -> Iterator[TextSpan]:
    old, new = split_words(before), split_words(after)
    head, tail = _common_ends(old, new)
    old_stop, new_stop = len(old) - tail, len(new) - tail
    old_inner, new_inner = old[head:old_stop], new[head:new_stop]
    start, end = "".join(old[:head]), "".join(old[old_stop:])
    yield TextSpan(kind="same", text=start)
    if max(len(old_inner), len(new_inner)) > _MAX_DIFF_WORDS:
        yield TextSpan(kind="dropped", text="".join(old_inner))
        yield TextSpan(kind="added", text="".join(new_inner))
    else:
        for tag, i, j, k, m in SequenceMatcher(None, old_inner, new_inner).get_opcodes():
            if tag == "equal":
                yield TextSpan(kind="same", text="".join(old_inner[i:j]))
            else:
                yield TextSpan(kind="dropped", text="".join(old_inner[i:j]))
                yield TextSpan(kind="added", text="".join(new_inner[k:m]))
    yield TextSpan(kind="same", text=end)


def _shorten(span: TextSpan, edge: str | None, around: int) -> TextSpan:
    """Shorten an unchanged span in the middle, or at the end that is not beside a change."""
    text = span.text
    limit = around if edge else 2 * around
    if span.kind != "same" or len(text) <= limit + len(_ELLIPSIS):
        return span
    before, after = text[:around], text[-around:]
    texts = {"start": _ELLIPSIS + after, "end": before + _ELLIPSIS}
    return TextSpan(kind="same", text=texts.get(edge or "", before + _ELLIPSIS + after))
