"""Whose call is it: which agent asks, and what became of its context since it asked last.

One idea: a conversation is recognised by what it shares with those that are known, from its
beginning. A request that is one of them and more goes on with it; one that keeps later answers is
the same with a rewritten past; one that tells of an answer in place of the past is compacted; one
that leaves the road is a fork. Whatever shares nothing is new.

Nothing is changed here, and nothing read that is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal, TypeAlias

from harken.core.messages import ChatMessage, UnknownPart, text_of
from harken.recording.agent_recorder import AgentRecorder
from harken.recording.context_diff import shared
from harken.recording.item import Item, LoggedItem

How: TypeAlias = Literal["on", "waits", "again", "rewritten", "compaction", "fork"]
"""It goes on; it does, once the request before it is answered; it asks the same once more; parts of
its past are others now; a summary stands for its past; it goes another way from here."""
_SUMMARY_PHRASES = (
    "This session is being continued from a previous conversation",
    "Another language model started to solve this problem and produced a summary",
    "The conversation history before this point was compacted into the following summary",
    "<state_snapshot>",
    "[[COMPACTED]]",
)
"""How clients introduce a summary: Claude Code, Codex, Pi, Gemini CLI."""
_SUMMARY_KINDS = frozenset({"compaction", "compaction_summary", "context_compaction"})
"""Items that stand for a past that only the provider can read."""
_LINE = 20
"""A line that is shorter is no sign of anything."""


@dataclass(frozen=True, slots=True)
class AgentMatch:
    """An agent that a request belongs to."""

    voice: AgentRecorder
    how: How
    common: int
    """How many items the two share from the beginning."""
    summary: int | None = None
    """The item of the request that sums up."""
    kept: int = 0
    """How many items after the shared ones it still has; none, where no answer is among them."""

    @property
    def rank(self) -> tuple[int, int, int]:
        """Of several the one with the highest is right."""
        return _RANK[self.how], self.kept, self.common


@dataclass(frozen=True, slots=True)
class SummaryCandidate:
    """An answer that a later context may tell in place of what came before."""

    voice: AgentRecorder
    lines: tuple[str, ...]


def summed(voice: AgentRecorder, messages: Iterable[ChatMessage]) -> SummaryCandidate | None:
    """Return an answer as it may be told again; None for one that says too little."""
    text = "\n".join(text_of(message.content) for message in messages)
    lines = tuple(line for line in map(str.strip, text.splitlines()) if len(line) >= _LINE)
    return SummaryCandidate(voice, lines) if lines else None


def match(
    items: Sequence[Item], voices: Sequence[AgentRecorder], answers: Sequence[SummaryCandidate] = ()
) -> AgentMatch | None:
    """Return whose request this is, among these agents; None: nobody's.

    answers: the last ones that were given, the newest last.
    """
    commons = [(voice, shared(items, voice.row)) for voice in voices]
    found = [one for voice, at in commons if (one := _continued(items, voice, at)) is not None]
    if not found:
        found = [one for voice, at in commons if (one := _changed(items, voice, at)) is not None]
    best = max(found, key=lambda one: one.rank, default=None)
    if best is not None and _RANK[best.how] > _RANK["compaction"]:
        return best
    asleep = [voice for voice in voices if voice.open is None and voice.asked]
    told = [one for voice in asleep if (one := _compacted(items, voice, answers)) is not None]
    return max(told, key=lambda one: one.rank, default=best)


def opening(row: Sequence[LoggedItem]) -> int:
    """Return how many items stand before the first answer."""
    return next((at for at, heard in enumerate(row) if heard.role == "assistant"), len(row))


def _continued(items: Sequence[Item], voice: AgentRecorder, common: int) -> AgentMatch | None:
    """Return an agent whose context a request is, and more; or that it was asked with before."""
    is_all = common == len(items)
    if common == len(voice.row) > 0 and not (voice.open and is_all):
        return AgentMatch(voice, "waits" if voice.open else "on", common)
    if is_all and common == voice.asked and voice.open is None:
        return AgentMatch(voice, "again", common)
    return None


def _changed(items: Sequence[Item], voice: AgentRecorder, common: int) -> AgentMatch | None:
    """Return an agent whose context became a request, or from which it goes another way."""
    row, is_all = voice.row, common == len(items)
    kept = _kept(items[common:], row[common:])
    if kept and not _has_its_prompt(items, common, voice):
        return AgentMatch(voice, "fork", common, kept=kept)
    if kept and voice.open is None:
        return AgentMatch(voice, "rewritten", common, kept=kept)
    is_road = common >= opening(row) or (is_all and any(h.role == "user" for h in row[:common]))
    return AgentMatch(voice, "fork", common) if is_road and common else None


def _has_its_prompt(items: Sequence[Item], common: int, voice: AgentRecorder) -> bool:
    """Whether a request has the system prompt of an agent, or a new version of it.

    Programs ask agents with prompts of their own about one conversation: each is somebody.
    """
    count = sum(1 for _ in takewhile(lambda heard: heard.role == "system", voice.row))
    if common >= count:
        return True
    told = takewhile(lambda item: item.messages[0].role == "system", items)
    one = "\n".join(text_of(message.content) for item in told for message in item.messages)
    messages = voice.session.context(voice.agent_id)[: voice.before(count)[0]]
    other = "\n".join(text_of(message.content) for message in messages)
    same = _common(one, other) + _common(one[::-1], other[::-1])
    return not one or 2 * same >= max(len(one), len(other))


def _common(one: str, other: str) -> int:
    """Return how many characters two texts share from the beginning."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _kept(items: Sequence[Item], row: Sequence[LoggedItem]) -> int:
    """Return how many items of a row a request still has; none, where no answer is among them."""
    roles = {heard.key: heard.role for heard in row if heard.key}
    alike = {heard.likeness: heard.role for heard in row if heard.likeness}
    found = [roles.get(item.key) or (alike.get(item.likeness) if alike else None) for item in items]
    return sum(role is not None for role in found) if "assistant" in found else 0


_RANK: Mapping[How, int] = {
    "on": 6,
    "waits": 5,
    "again": 4,
    "compaction": 3,
    "rewritten": 2,
    "fork": 1,
}


def _compacted(
    items: Sequence[Item], voice: AgentRecorder, answers: Sequence[SummaryCandidate]
) -> AgentMatch | None:
    """Return the agent as the one in place of whose past a request tells a summary of it."""
    common = shared(items, voice.row)
    is_known = True
    for at, item in enumerate(items):
        if item.key in voice.known:
            continue
        # What shares answers from the beginning is a fork, also where it quotes one.
        if is_summary(item) and (at == 0 or any(one.key in voice.known for one in items[:at])):
            break
        mine = [one for one in answers if at or one.voice is voice]
        if is_known and common <= opening(voice.row) and _tells(item, mine):
            break
        is_known = False
    else:
        return None
    kept = _kept(items[common:], voice.row[common:])
    return AgentMatch(voice, "compaction", common, summary=at, kept=kept)


def _tells(item: Item, answers: Sequence[SummaryCandidate]) -> bool:
    """Whether an item says most of what one of the answers said, letter for letter."""
    text = "\n".join(text_of(one.content) for one in item.messages if one.role == "user")
    return bool(text) and any(
        2 * sum(len(line) for line in answer.lines if line in text) > sum(map(len, answer.lines))
        for answer in answers
    )


def is_summary(item: Item) -> bool:
    """Whether an item says of itself that it stands for a past."""
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
