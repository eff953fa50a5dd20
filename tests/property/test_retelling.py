"""Whatever commits there are, they are retold as a log that could be written, and read the same."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from harken.context.checkpoint import CommitDraft, CommitOrigin, checkpoint
from harken.core.commits import CommitId
from harken.core.events import UnknownEvent
from harken.core.messages import FunctionCall, Message, ToolCall
from harken.formats.base import ConversationEntry
from harken.recording.from_commits.branches import BranchTip
from harken.recording.from_commits.session import retell
from harken.session.fold import fold
from harken.session.invariants import check_event, encode_checked_event
from harken.session.state import SessionState
from harken.store.memory import MemoryStore
from tests.unit.recording.from_commits.retelling_kit import check_contexts
from tests.unit.recording.from_commits.retelling_oracle import check_requests

SECONDS = st.integers(0, 9)


@st.composite
def entries(draw: st.DrawFn, serial: list[int]) -> list[ConversationEntry]:
    """Messages in any order: results without calls, calls without results, the same said twice."""
    entries_ = []
    for _ in range(draw(st.integers(0, 3))):
        serial[0] += 1
        kind = draw(st.sampled_from(["user", "assistant", "call", "tool"]))
        message = Message("user", draw(st.sampled_from(["yes", "no"])))
        if kind == "assistant":
            message = Message("assistant", "I see.")
        elif kind == "call":
            # Ids of their own: one that is taken is told as another, which the unit tests show.
            call = ToolCall(f"c{serial[0]}", FunctionCall("look", "{}"))
            message = Message("assistant", None, [call])
        elif kind == "tool":
            of = f"c{draw(st.integers(1, serial[0] + 1))}"
            message = Message("tool", "seen", tool_call_id=of)
        time = draw(st.none() | SECONDS.map(lambda n: f"2026-01-31T12:00:0{n}.000000Z"))
        entries_.append(ConversationEntry(message, time))
    return entries_


@st.composite
def histories(draw: st.DrawFn) -> tuple[MemoryStore, Sequence[BranchTip]]:
    """A store with commits of several agents that branch, begin anew and compact."""
    store, serial = MemoryStore(), [0]
    tips: list[BranchTip] = []
    for number in range(draw(st.integers(1, 8))):
        before = draw(st.none() | st.sampled_from(tips)) if tips else None
        agent = before.agent if before is not None else "main"
        kind, trigger = "delta", "import"
        if before is not None and draw(st.integers(0, 3)) == 0:
            agent, kind, trigger = f"agent {number}", "snapshot", "spawn"
        elif draw(st.integers(0, 3)) == 0:
            kind, trigger = "compaction", "compaction"
        draft = CommitDraft(
            entries=draw(entries(serial)),
            parent=before.ctx if before is not None else None,
            type=kind,  # type: ignore[arg-type]
            trigger=trigger,  # type: ignore[arg-type]
            origin=CommitOrigin(principal=f"{agent} {number}"),
            created_at=f"2026-01-31T12:00:0{draw(SECONDS)}Z",
        )
        tips.append(BranchTip(agent, CommitId(checkpoint(store, draft))))
    return store, tips[::-1]


@given(histories())
def test_commits_convert_to_a_valid_log(
    history: tuple[MemoryStore, Sequence[BranchTip]],
) -> None:
    store, ends = history
    events = retell(store, "cafe", ends)
    check_contexts(store, events)
    check_requests(store, ends, events)
    state = SessionState()
    for event in events:
        check_event(state, event)
        if not isinstance(event, UnknownEvent):
            encode_checked_event(event)
        fold(state, event)
