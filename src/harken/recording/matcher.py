"""Match a request to the agent that made it, and classify how its context changed.

A conversation is recognized by the prefix that it shares with a known one. A request that extends a
context continues it. A request that keeps later answers has a rewritten past. A request with a
summary in place of earlier messages is a compaction. A request that diverges is a fork. A request
that shares nothing is from a new agent.

The functions here have no side effects, and known items are not parsed again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Literal, TypeAlias

import msgspec

from harken.core.messages import ChatMessage, UnknownPart, text_of
from harken.recording.writer.agent_recorder import AgentRecorder
from harken.recording.writer.item import Item, LoggedItem

MatchKind: TypeAlias = Literal["on", "waits", "again", "rewritten", "compaction", "fork"]
"""How a request relates to a context: it continues it (`on`), continues it once the open request is
answered (`waits`), repeats the last request (`again`), changes earlier messages (`rewritten`),
replaces them by a summary (`compaction`), or diverges from it (`fork`).
"""
_SUMMARY_PHRASES = (
    "This session is being continued from a previous conversation",
    "Another language model started to solve this problem and produced a summary",
    "The conversation history before this point was compacted into the following summary",
    "<state_snapshot>",
    "[[COMPACTED]]",
)
"""Phrases with which clients introduce a summary: Claude Code, Codex, Pi, Gemini CLI."""
_SUMMARY_KINDS = frozenset({"compaction", "compaction_summary", "context_compaction"})
"""Kinds of parts that replace earlier messages and that only the provider can read."""
_MIN_LINE_CHARS = 20
"""Shorter lines are ignored, because they occur in unrelated texts."""


class AgentMatch(msgspec.Struct, frozen=True):
    """The agent that a request belongs to."""

    recorder: AgentRecorder
    kind: MatchKind
    common: int
    """The number of items in the common prefix."""
    summary: int | None = None
    """The index of the summary among the items of the request."""
    kept_items: int = 0
    """The number of later items that the request still has. 0 if no answer is among them."""

    @property
    def rank(self) -> tuple[int, int, int]:
        """The sort key of matches. The highest is the best match."""
        return _RANK[self.kind], self.kept_items, self.common


class SummaryCandidate(msgspec.Struct, frozen=True):
    """An answer that a later request may contain as the summary of earlier messages."""

    recorder: AgentRecorder
    lines: tuple[str, ...]


def extract_summary_candidate(
    recorder: AgentRecorder, messages: Iterable[ChatMessage]
) -> SummaryCandidate | None:
    """Return the long lines of an answer, by which a later compaction summary is recognized.

    Return None if it has none.
    """
    text = "\n".join(text_of(message.content) for message in messages)
    lines = tuple(
        line for line in map(str.strip, text.splitlines()) if len(line) >= _MIN_LINE_CHARS
    )
    return SummaryCandidate(recorder, lines) if lines else None


def match_request(
    items: Sequence[Item],
    recorders: Sequence[AgentRecorder],
    answers: Sequence[SummaryCandidate] = (),
) -> AgentMatch | None:
    """Find the agent whose context this request continues. Return None if no agent matches.

    answers: the most recent answers, newest last.
    """
    common_counts = [(recorder, recorder.count_common(items)) for recorder in recorders]
    matches = [
        candidate
        for recorder, common in common_counts
        if (candidate := _match_continued(items, recorder, common)) is not None
    ]
    if not matches:
        matches = [
            candidate
            for recorder, common in common_counts
            if (candidate := _match_changed(items, recorder, common)) is not None
        ]
    best = max(matches, key=lambda candidate: candidate.rank, default=None)
    if best is not None and _RANK[best.kind] > _RANK["compaction"]:
        return best
    idle = [
        recorder
        for recorder in recorders
        if recorder.open_request is None and recorder.requested_count
    ]
    compactions = [
        candidate
        for recorder in idle
        if (candidate := _match_compacted(items, recorder, answers)) is not None
    ]
    return max(compactions, key=lambda candidate: candidate.rank, default=best)


def count_before_answer(row: Sequence[LoggedItem]) -> int:
    """Return the number of items before the first answer."""
    return next((index for index, item in enumerate(row) if item.role == "assistant"), len(row))


def _match_continued(
    items: Sequence[Item], recorder: AgentRecorder, common: int
) -> AgentMatch | None:
    """Match a request that extends a context, or that repeats an earlier request."""
    is_all = common == len(items)
    if common == len(recorder.items) > 0 and not (recorder.open_request and is_all):
        return AgentMatch(recorder, "waits" if recorder.open_request else "on", common)
    if is_all and common == recorder.requested_count and recorder.open_request is None:
        return AgentMatch(recorder, "again", common)
    return None


def _match_changed(
    items: Sequence[Item], recorder: AgentRecorder, common: int
) -> AgentMatch | None:
    """Match a request that rewrites a context, or that diverges from it."""
    row, is_all = recorder.items, common == len(items)
    kept_count = _count_kept(items[common:], row[common:])
    if kept_count and not _has_system_prompt(items, common, recorder):
        return AgentMatch(recorder, "fork", common, kept_items=kept_count)
    if kept_count and recorder.open_request is None:
        return AgentMatch(recorder, "rewritten", common, kept_items=kept_count)
    has_opening = common >= count_before_answer(row) or (
        is_all and any(h.role == "user" for h in row[:common])
    )
    return AgentMatch(recorder, "fork", common) if has_opening and common else None


def _has_system_prompt(items: Sequence[Item], common: int, recorder: AgentRecorder) -> bool:
    """Whether a request has the system prompt of an agent, or a new version of it.

    A program may start several agents with different prompts on the same conversation.
    """
    count = sum(1 for _ in takewhile(lambda item: item.role == "system", recorder.items))
    if common >= count:
        return True
    prompt_items = takewhile(lambda item: item.messages[0].role == "system", items)
    prompt = "\n".join(
        text_of(message.content) for item in prompt_items for message in item.messages
    )
    messages = recorder.session.context(recorder.agent_id)[
        : recorder.prefix_at(count).message_count
    ]
    logged_prompt = "\n".join(text_of(message.content) for message in messages)
    shared_chars = _common_chars(prompt, logged_prompt) + _common_chars(
        prompt[::-1], logged_prompt[::-1]
    )
    return not prompt or 2 * shared_chars >= max(len(prompt), len(logged_prompt))


def _common_chars(left: str, right: str) -> int:
    """Return the length of the common prefix of two texts."""
    pairs = zip(left, right, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _count_kept(items: Sequence[Item], row: Sequence[LoggedItem]) -> int:
    """Return the number of logged items that a request still has. 0 if no answer is among them."""
    roles = {logged.key: logged.role for logged in row if logged.key}
    roles_by_likeness = {logged.likeness: logged.role for logged in row if logged.likeness}
    item_roles = [
        roles.get(item.key) or (roles_by_likeness.get(item.likeness) if roles_by_likeness else None)
        for item in items
    ]
    return sum(role is not None for role in item_roles) if "assistant" in item_roles else 0


_RANK: Mapping[MatchKind, int] = {
    "on": 6,
    "waits": 5,
    "again": 4,
    "compaction": 3,
    "rewritten": 2,
    "fork": 1,
}


def _match_compacted(
    items: Sequence[Item], recorder: AgentRecorder, answers: Sequence[SummaryCandidate]
) -> AgentMatch | None:
    """Match a request in which a summary replaces the agent's earlier messages."""
    common = recorder.count_common(items)
    is_known = True
    for index, item in enumerate(items):
        if item.key in recorder.items_by_key:
            continue
        # A request whose prefix contains answers is a fork, even if it quotes an answer.
        if is_summary(item) and (
            index == 0 or any(candidate.key in recorder.items_by_key for candidate in items[:index])
        ):
            break
        candidates = [candidate for candidate in answers if index or candidate.recorder is recorder]
        if (
            is_known
            and common <= count_before_answer(recorder.items)
            and _quotes_answer(item, candidates)
        ):
            break
        is_known = False
    else:
        return None
    kept_count = _count_kept(items[common:], recorder.items[common:])
    return AgentMatch(recorder, "compaction", common, summary=index, kept_items=kept_count)


def _quotes_answer(item: Item, answers: Sequence[SummaryCandidate]) -> bool:
    """Whether an item contains most characters of one of the answers, line by line."""
    text = "\n".join(
        text_of(message.content) for message in item.messages if message.role == "user"
    )
    return bool(text) and any(
        2 * sum(len(line) for line in answer.lines if line in text) > sum(map(len, answer.lines))
        for answer in answers
    )


def is_summary(item: Item) -> bool:
    """Whether an item is marked as a summary by its client or its provider."""
    for message in item.messages:
        if isinstance(message.content, list) and any(
            isinstance(part, UnknownPart) and part.kind in _SUMMARY_KINDS
            for part in message.content
        ):
            return True
        text = text_of(message.content) if message.role == "user" else ""
        if any(phrase in text for phrase in _SUMMARY_PHRASES):
            return True
    return False
