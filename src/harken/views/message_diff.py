"""Parting: where two lists of messages, or two texts, are not the same.

Messages are the same where a model could not tell them apart: by their hash, which covers
neither ids nor whose entries they are. Between two equal stretches, those are paired that are
one message in other words, so that a person reads what changed and not all of it twice.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Literal, TypeAlias

import msgspec

from harken.core.messages import ChatMessage, message_hash
from harken.core.record import SparseRecord
from harken.views.message_text import heading, written

_WORD = re.compile(r"\s+|\w+|[^\w\s]")
_MOST_WORDS = 4_000
"""Where more words than these are left between the equal ends of two texts, they are one change."""
_ALIKE = 0.5
"""Which part of their words two messages share that are one message in other words."""
_LOOKED_AT = 8
"""With so many candidates a message is compared before it counts as gone."""
_LEFT_OUT = " … "

_Range: TypeAlias = tuple[int, int]
_Pair: TypeAlias = tuple[int, int]


class TextSpan(SparseRecord, frozen=True, kw_only=True):
    """A stretch of a text: of both texts, or of one only."""

    kind: Literal["same", "dropped", "added"]
    text: str


class MessageDiff(SparseRecord, frozen=True, kw_only=True):
    """A message of either list, or one of each that belong together."""

    kind: Literal["same", "dropped", "added", "changed"]
    before: int | None = None
    """Its position in the first list, from 0."""
    after: int | None = None
    """Its position in the second."""
    heading: str
    """Its role, of a result also tool and call; where it changed, as in the second list."""
    text: str
    """All of it; where it changed, as in the second list."""
    spans: list[TextSpan] = msgspec.field(default_factory=list)
    """Of one that changed: how its text did; what stayed is shortened."""


def difference(
    before: Sequence[ChatMessage], after: Sequence[ChatMessage], *, kept: int = 0
) -> list[MessageDiff]:
    """Align two lists of messages; return a row for each message or pair, in order.

    `kept`: so many equal messages stand before both lists; positions count them.

    >>> from harken.core.messages import Message
    >>> rows = difference(
    ...     [Message("user", "One tea"), Message("user", "Go")],
    ...     [Message("user", "One coffee"), Message("user", "Now"), Message("user", "Go")],
    ... )
    >>> [(row.kind, row.text) for row in rows]
    [('changed', 'One coffee'), ('added', 'Now'), ('same', 'Go')]
    """
    one, two = list(map(message_hash, before)), list(map(message_hash, after))
    rows: list[MessageDiff] = []
    for is_equal, old, new in _aligned(one, two):
        left, right = range(*old), range(*new)
        if is_equal:
            pairs = zip(left, right, strict=True)
            rows += [_row("same", after[to], at + kept, to + kept) for at, to in pairs]
        else:
            rows += _unequal(before, after, left, right, kept)
    return rows


def parts_at(before: Sequence[ChatMessage], after: Sequence[ChatMessage]) -> int | None:
    """Return the position of the first message that is not the same; None: all are.

    Where one list is the beginning of the other, it is the length of the shorter.
    """
    pairs = enumerate(zip(before, after, strict=False))
    differs = (n for n, (one, two) in pairs if message_hash(one) != message_hash(two))
    shorter, longer = sorted((len(before), len(after)))
    return next(differs, None if shorter == longer else shorter)


def spans(before: str, after: str, *, around: int | None = 40) -> list[TextSpan]:
    """Return how one text becomes the other, word by word.

    What stays is shortened to `around` characters beside a change; None: it is whole.

    >>> [(span.kind, span.text) for span in spans("a cup of tea", "a cup of coffee, please")]
    [('same', 'a cup of '), ('dropped', 'tea'), ('added', 'coffee, please')]
    """
    found = [span for span in _spans(before, after) if span.text]
    if around is None:
        return found
    ends = {0: "start", len(found) - 1: "end"} if len(found) > 1 else {}
    return [_shortened(span, ends.get(n), around) for n, span in enumerate(found)]


def _aligned(one: Sequence[str], two: Sequence[str]) -> Iterator[tuple[bool, _Range, _Range]]:
    """Yield the stretches of two lists, and whether they are equal; equal ends cost no search."""
    head, tail = _ends(one, two)
    stop_one, stop_two = len(one) - tail, len(two) - tail
    yield True, (0, head), (0, head)
    inner = SequenceMatcher(None, one[head:stop_one], two[head:stop_two])
    for tag, i, j, k, m in inner.get_opcodes():
        yield tag == "equal", (head + i, head + j), (head + k, head + m)
    yield True, (stop_one, len(one)), (stop_two, len(two))


def _ends(one: Sequence[str], two: Sequence[str]) -> tuple[int, int]:
    """Return how many items at the beginning, and after them at the end, are equal."""
    shorter = min(len(one), len(two))
    head = next((n for n in range(shorter) if one[n] != two[n]), shorter)
    rest = shorter - head
    return head, next((n for n in range(rest) if one[-1 - n] != two[-1 - n]), rest)


def _unequal(
    before: Sequence[ChatMessage], after: Sequence[ChatMessage], old: range, new: range, kept: int
) -> Iterator[MessageDiff]:
    """Yield the rows of two stretches without an equal message: pairs, and others before them."""
    found = _pairs([before[at] for at in old], [after[at] for at in new])
    for (i, k), (j, m) in pairwise([(-1, -1), *found, (len(old), len(new))]):
        yield from (_row("dropped", before[at], at + kept) for at in old[i + 1 : j])
        yield from (_row("added", after[at], None, at + kept) for at in new[k + 1 : m])
        if j < len(old):
            at, to = old[j], new[m]
            changed = spans(written(before[at]), written(after[to]))
            yield _row("changed", after[to], at + kept, to + kept, changed)


def _pairs(old: Sequence[ChatMessage], new: Sequence[ChatMessage]) -> list[_Pair]:
    """Return which of these are one message in other words, in order, as places in both."""
    if len(old) == len(new) == 1:
        return [(0, 0)] if old[0].role == new[0].role else []
    words = [_counted(message) for message in new]
    pairs: list[_Pair] = []
    start = 0
    for at, message in enumerate(old):
        said = _counted(message)
        for to in range(start, min(start + _LOOKED_AT, len(new))):
            if message.role == new[to].role and _alike(message, said, words[to]):
                pairs.append((at, to))
                start = to + 1
                break
    return pairs


def _counted(message: ChatMessage) -> Counter[str]:
    return Counter(_WORD.findall(written(message)))


def _alike(message: ChatMessage, one: Counter[str], two: Counter[str]) -> bool:
    """Whether two messages of one role share most words; a system prompt is always the prompt."""
    shared = 2 * (one & two).total()
    return message.role == "system" or shared >= _ALIKE * (one.total() + two.total())


def _row(
    kind: Literal["same", "dropped", "added", "changed"],
    message: ChatMessage,
    before: int | None,
    after: int | None = None,
    how: Iterable[TextSpan] = (),
) -> MessageDiff:
    return MessageDiff(
        kind=kind,
        before=before,
        after=after,
        heading=heading(message),
        text=written(message),
        spans=list(how),
    )


def _spans(before: str, after: str) -> Iterator[TextSpan]:
    one, two = _WORD.findall(before), _WORD.findall(after)
    head, tail = _ends(one, two)
    stop_one, stop_two = len(one) - tail, len(two) - tail
    one_inner, two_inner = one[head:stop_one], two[head:stop_two]
    start, end = "".join(one[:head]), "".join(one[stop_one:])
    yield TextSpan(kind="same", text=start)
    if max(len(one_inner), len(two_inner)) > _MOST_WORDS:
        yield TextSpan(kind="dropped", text="".join(one_inner))
        yield TextSpan(kind="added", text="".join(two_inner))
    else:
        for tag, i, j, k, m in SequenceMatcher(None, one_inner, two_inner).get_opcodes():
            if tag == "equal":
                yield TextSpan(kind="same", text="".join(one_inner[i:j]))
            else:
                yield TextSpan(kind="dropped", text="".join(one_inner[i:j]))
                yield TextSpan(kind="added", text="".join(two_inner[k:m]))
    yield TextSpan(kind="same", text=end)


def _shortened(span: TextSpan, at: str | None, around: int) -> TextSpan:
    """Return a stretch that stays without its middle, or without the end away from a change."""
    text = span.text
    most = around if at else 2 * around
    if span.kind != "same" or len(text) <= most + len(_LEFT_OUT):
        return span
    before, after = text[:around], text[-around:]
    kept = {"start": _LEFT_OUT + after, "end": before + _LEFT_OUT}
    return TextSpan(kind="same", text=kept.get(at or "", before + _LEFT_OUT + after))
