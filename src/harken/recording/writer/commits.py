"""Commit the contexts of recorded agents to a store while they are recorded.

The parent of a commit is the longest committed prefix of the context. After each answer, the part
after that prefix is committed. So if only the last messages changed, the next commit starts before
the change, and a fork starts where it diverged. A context that starts with no commit of the session
is committed in full, as a snapshot.

The log is the source of truth. If the store fails, recording continues, and the next commit
includes what was pending.

A run ends with a commit without messages: its usage, its turns, and how its last answer ended.

Source: docs/design/006-what-the-model-saw.md, decision 5, and "One session from several sources".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from harken.context.checkpoint import (
    SEPARATOR,
    CommitDraft,
    CommitOrigin,
    checkpoint,
    checkpoint_all,
)
from harken.core.clock import parse_rfc3339
from harken.core.commits import Checkpoint, CommitId, CommitType
from harken.core.events import (
    AgentCreated,
    ContextCommitted,
    Event,
    LlmRequest,
    LlmResponse,
    Usage,
)
from harken.core.ids import AgentId, MessageId, parse_id_number
from harken.core.messages import ChatMessage
from harken.formats.events import Event as ConversationEvent
from harken.formats.events import MetricEvent
from harken.formats.events_v1 import encode_events
from harken.recording.writer.agent_recorder import AgentRecorder
from harken.recording.writer.item import ContextPrefix, LoggedItem
from harken.session.state import AgentState
from harken.store.base import Store


@dataclass(slots=True)
class RunTotals:
    """The model calls of a session since the last end of a run, from the events of its log."""

    root: AgentId | None = None
    """The first agent."""
    turns: int = 0
    """The answers of the first agent."""
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = None
    is_cost_known: bool = True
    """Whether the cost of each response with usage is known."""
    started: str | None = None
    """The time of the first request."""
    last_response: LlmResponse | None = None
    """The last response to the first agent, or to any agent if it has none."""
    _last_commit: ContextCommitted | None = None
    """The last commit of the first agent."""

    def add(self, event: Event) -> None:
        """Process the next event of the log."""
        match event:
            case AgentCreated() if self.root is None:
                self.root = event.agent_id
            case LlmRequest() if self.started is None:
                self.started = event.time
            case LlmResponse():
                self._add_response(event)
            case ContextCommitted() if event.agent_id == self.root:
                if self._is_end(event):
                    self.turns, self.usage = 0, Usage()
                    self.cost_usd, self.is_cost_known = None, True
                    self.started = self.last_response = None
                self._last_commit = event

    def _is_end(self, event: ContextCommitted) -> bool:
        """Whether a commit ends a run, and has no messages: it covers what the last one covers."""
        before = self._last_commit
        is_empty = before is not None and (event.parent_ctx, event.upto) == (
            before.ctx,
            before.upto,
        )
        return is_empty and event.checkpoint == "session_end"

    def _add_response(self, event: LlmResponse) -> None:
        is_root = event.agent_id == self.root
        self.turns += is_root and event.entry is not None
        if is_root or self.last_response is None or self.last_response.agent_id != self.root:
            self.last_response = event
        if event.usage is None:
            return
        self.usage = _add_usage(self.usage, event.usage)
        self.is_cost_known = self.is_cost_known and event.cost_usd is not None
        self.cost_usd = (self.cost_usd or 0.0) + (event.cost_usd or 0.0)

    def metric(self, *, is_complete: bool) -> MetricEvent:
        """Return the totals. `is_complete`: whether the first agent waits for no result."""
        last = self.last_response
        status = "success" if is_complete else "interrupted"
        if last is not None and (last.error or last.stop_reason == "interrupted"):
            status = "error_during_execution" if last.error else "interrupted"
        return MetricEvent(
            input_tokens=self.usage.input_tokens,
            output_tokens=self.usage.output_tokens,
            cache_read_tokens=self.usage.cache_read_tokens,
            cache_write_tokens=self.usage.cache_write_tokens,
            cost_usd=self.cost_usd if self.is_cost_known else None,
            duration_seconds=_elapsed_s(self.started, None if last is None else last.time),
            turn_count=self.turns,
            status=status,
        )


def _add_usage(left: Usage, right: Usage) -> Usage:
    """Add token counts. A count that is unknown in both stays unknown."""
    counts: dict[str, int] = {}
    for name in Usage.__struct_fields__:
        counted = [n for n in (getattr(left, name), getattr(right, name)) if n is not None]
        if counted:
            counts[name] = sum(counted)
    return Usage(**counts)


def _elapsed_s(start: str | None, end: str | None) -> float | None:
    if start is None or end is None:
        return None
    return max(parse_rfc3339(end) - parse_rfc3339(start), 0) / 1e6


@dataclass(slots=True)
class SessionCommits:
    """The commits of one recorded session."""

    store: Store
    origin: CommitOrigin
    """The origin of the first agent. Other agents append their names to its principal."""
    is_named: bool = False
    """Whether the client named the session. Then agents have the client's names, too."""
    _commit_ids: dict[int, CommitId] = field(default_factory=dict)
    """`entries_hash` of the prefix of a context -> the commit that holds it."""

    def register(self, recorder: AgentRecorder, upto: MessageId, ctx: str) -> None:
        """Register a commit named in the log. It holds the context up to this entry."""
        newest = parse_id_number(upto, "msg_") or 0
        index = 0
        for item in recorder.items:
            if (parse_id_number(item.ids[-1], "msg_") or 0) > newest:
                break
            index += 1
        if index:
            self._commit_ids[recorder.prefix_at(index).entries_hash] = CommitId(ctx)

    def commit_new(self, recorder: AgentRecorder, trigger: Checkpoint) -> CommitId | None:
        """Commit the new messages of an agent's context.

        Return the commit, or None if there is nothing to commit.

        trigger: `compaction` if a summary replaces earlier messages. A context that must be
        committed in full, and is mostly in a commit already, waits until it has grown, or for the
        end of the session. Otherwise a client that changes the beginning with each request would
        store n copies. Raises StoreError if nothing was written; the messages stay pending. Raises
        LogError.
        """
        items, state = recorder.items, recorder.session.agent(recorder.agent_id)
        index = 0 if trigger == "compaction" else self._count_committed(recorder)
        if index == len(items):
            return None
        before = recorder.prefix_at(index)
        context = recorder.session.context(recorder.agent_id)
        base = self._commit_ids.get(before.entries_hash) if index else None
        if base is None and trigger == "turn_boundary" and not _is_worth_it(state, len(context)):
            return None
        stable_count = 0 if base is None else _count_stable(state, items[index:])
        stable = recorder.prefix_at(index + stable_count)
        new = context[before.message_count :]
        split = stable.message_count - before.message_count
        drafts = _create_drafts(state, new, base, trigger, split)
        origin = self._origin(recorder)
        commit_ids = checkpoint_all(self.store, [replace(draft, origin=origin) for draft in drafts])
        if stable_count and len(commit_ids) > 1:
            self._commit_ids[stable.entries_hash] = commit_ids[0]
        full_prefix = recorder.prefix_at(len(items))
        recorder.session.append(
            ContextCommitted(
                agent_id=recorder.agent_id,
                ctx=commit_ids[-1],
                parent_ctx=commit_ids[-2] if len(commit_ids) > 1 else drafts[0].parent,
                checkpoint=trigger,
                upto=_find_newest(state, full_prefix),
            )
        )
        self._commit_ids[full_prefix.entries_hash] = commit_ids[-1]
        return commit_ids[-1]

    def commit_end(self, recorder: AgentRecorder, totals: RunTotals) -> CommitId | None:
        """Commit the end of a run after the last commit of the first agent.

        Return None if its context is not committed, or if no call was recorded since the last end.
        Raises StoreError, LogError.
        """
        state = recorder.session.agent(recorder.agent_id)
        prefix = recorder.prefix_at(len(recorder.items))
        is_committed = self._commit_ids.get(prefix.entries_hash) == state.commit_id
        if state.commit_id is None or not is_committed or totals.last_response is None:
            return None
        context = recorder.session.context(recorder.agent_id)
        metric = totals.metric(is_complete=not (context and context[-1].tool_calls))
        time = totals.last_response.time
        draft = CommitDraft(
            data=encode_events([ConversationEvent(metric, time)]),
            parent=CommitId(state.commit_id),
            trigger="session_end",
            origin=self.origin,
            summary=metric.summary,
            message_count=0,
            token_count=0,
            created_at=time,
        )
        ctx = checkpoint(self.store, draft)
        recorder.session.append(
            ContextCommitted(
                agent_id=recorder.agent_id,
                ctx=ctx,
                parent_ctx=state.commit_id,
                checkpoint="session_end",
                upto=state.committed_upto,
            )
        )
        self._commit_ids[prefix.entries_hash] = ctx
        return ctx

    def _count_committed(self, recorder: AgentRecorder) -> int:
        """Return the length of the longest prefix of an agent's items that a commit holds."""
        index = len(recorder.items)
        while index and recorder.prefix_at(index).entries_hash not in self._commit_ids:
            index -= 1
        return index

    def _origin(self, recorder: AgentRecorder) -> CommitOrigin:
        state = recorder.session.agents[recorder.agent_id]
        if recorder.agent_id == recorder.session.state.root:
            return self.origin
        foreign = state.spec.foreign
        client_name = foreign.agent if self.is_named and foreign is not None else None
        name = client_name or state.name or recorder.agent_id
        return replace(self.origin, principal=f"{self.origin.principal}{SEPARATOR}{name}")


def _find_newest(state: AgentState, context: ContextPrefix) -> MessageId | None:
    """Return the entry of a transcript and of a context that was logged last."""
    number, newest_id = context.newest
    for entry in (state.transcript or ())[-1:]:
        if (parse_id_number(entry.message_id, "msg_") or 0) >= number:
            newest_id = entry.message_id
    return newest_id


def _is_worth_it(state: AgentState, count: int) -> bool:
    """Whether at least half of a context is newer than the agent's last commit."""
    if state.commit_id is None or state.committed_upto is None:
        return True
    upto = parse_id_number(state.committed_upto, "msg_") or 0
    newer = takewhile(
        lambda entry: (parse_id_number(entry.message_id, "msg_") or 0) > upto,
        reversed(state.transcript or ()),
    )
    return 2 * sum(1 for _ in newer) >= count


def _count_stable(state: AgentState, row: Sequence[LoggedItem]) -> int:
    """Return the length of the prefix that was in the agent's last commit as well.

    These items are likely to stay, so they get a commit of their own. Later items may be gone with
    the next request, which then still has this commit as its parent.
    """
    upto = parse_id_number(state.committed_upto or "", "msg_") or 0
    stable_items = takewhile(lambda item: (parse_id_number(item.ids[-1], "msg_") or 0) <= upto, row)
    return sum(1 for _ in stable_items)


def _create_drafts(
    state: AgentState,
    new: Sequence[ChatMessage],
    base: CommitId | None,
    trigger: Checkpoint,
    split: int,
) -> list[CommitDraft]:
    """Return the drafts to commit. Each is the parent of the next.

    new: the context after `base`, or all of it if `base` is None; split: the number of these
    messages that get a commit of their own.
    """
    if base is not None:
        first = CommitDraft(messages=new[: split or len(new)], parent=base, trigger=trigger)
        tail = new[split:] if split else []
        return [first, CommitDraft(messages=tail, trigger=trigger)] if tail else [first]
    before = state.commit_id or state.spawn_commit_id
    parent = None if before is None else CommitId(before)
    if state.commit_id is not None:
        kind: CommitType = "compaction" if trigger == "compaction" else "snapshot"
        return [CommitDraft(messages=new, parent=parent, type=kind, trigger=trigger)]
    if state.parent is None:
        return [CommitDraft(messages=new, trigger=trigger)]
    prompts = list(takewhile(lambda message: message.role != "assistant", new))
    spawn_draft = CommitDraft(
        messages=prompts or new, parent=parent, type="snapshot", trigger="spawn"
    )
    tail = new[len(prompts) :] if prompts else []
    return [spawn_draft, CommitDraft(messages=tail, trigger=trigger)] if tail else [spawn_draft]
