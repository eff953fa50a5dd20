"""Commit the contexts of recorded agents to a store while they are recorded.

The parent of a commit is the longest committed prefix of the context. After each answer, the part
after that prefix is committed. So if only the last messages changed, the next commit starts before
the change, and a fork starts where it diverged. A context that starts with no commit of the session
is committed in full, as a snapshot. With `start_after`, it starts with a commit of another run.

The log is the source of truth. If the store fails, recording continues, and the next commit
includes what was pending.

A run ends with a commit without messages: its usage, its turns, and how its last answer ended.

Source: docs/design/006-what-the-model-saw.md, decision 5, and "One session from several sources".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import takewhile

import msgspec

from harken.context.checkpoint import CommitDraft, CommitOrigin, checkpoint, checkpoint_all
from harken.core.clock import find_latest, parse_rfc3339
from harken.core.commits import Checkpoint, CommitId
from harken.core.events import (
    AgentCreated,
    ContextCommitted,
    Event,
    LlmRequest,
    LlmResponse,
    TranscriptEntry,
    Usage,
)
from harken.core.ids import AgentId, MessageId, parse_id_number
from harken.core.messages import ChatMessage
from harken.formats.base import ConversationEntry
from harken.formats.events import Event as ConversationEvent
from harken.formats.events import MetricEvent
from harken.formats.events_v1 import encode_events
from harken.recording.writer.agent_recorder import AgentRecorder
from harken.recording.writer.item import ContextPrefix, LoggedItem
from harken.session.state import AgentState
from harken.store.base import Store


class RunTotals(msgspec.Struct):
    """The model calls of a session since the last end of a run, from the events of its log."""

    root: AgentId | None = None
    """The first agent."""
    turns: int = 0
    """The answers of the first agent."""
    usage: Usage = msgspec.field(default_factory=Usage)
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


class SessionCommits(msgspec.Struct):
    """The commits of one recorded session."""

    store: Store
    origin_of: Callable[[str], CommitOrigin]
    """Returns the origin of an agent's commits for its name, which is empty for the first agent."""
    is_named: bool = False
    """Whether the client named the session. Then agents have the client's names, too."""
    entries: dict[MessageId, ConversationEntry] = msgspec.field(default_factory=dict)
    """Logged message -> its entry for the commit, if it has a source. A log has no place for it."""
    _commit_ids: dict[int, CommitId] = msgspec.field(default_factory=dict)
    """`entries_hash` of the prefix of a context -> the commit that holds it."""
    _starts: dict[AgentId, CommitId | None] = msgspec.field(default_factory=dict)
    """Agent -> the commit that its empty context follows, if it started after one."""

    def start_after(self, recorder: AgentRecorder, ctx: CommitId | None) -> None:
        """Let an agent's context start after a commit that is not in the log.

        So a delta can hold the context from its first message on. The first commit of a subagent
        has all messages so far, as in the import of a file.

        ctx: None if a history starts here.
        """
        self._starts[recorder.agent_id] = ctx

    def last_commit(self, recorder: AgentRecorder) -> CommitId | None:
        """Return the last commit of an agent, or else the commit before its first one.

        Return None if it has neither.
        """
        state = recorder.session.agents[recorder.agent_id]
        start = self._starts.get(recorder.agent_id, state.spawn_commit_id)
        ctx = state.commit_id or start
        return None if ctx is None else CommitId(ctx)

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

    def commit_new(
        self,
        recorder: AgentRecorder,
        trigger: Checkpoint,
        *,
        is_compaction: bool = False,
        created_at: str | None = None,
    ) -> CommitId | None:
        """Commit the new messages of an agent's context.

        Return the commit, or None if there is nothing to commit.

        is_compaction: whether a summary has replaced earlier messages; created_at: by default the
        time of the last message. A context that must be committed in full, and is mostly in a
        commit already, waits until it has grown, or for the end of the session. Otherwise a client
        that changes the beginning with each request would store n copies. Raises StoreError if
        nothing was written; the messages stay pending. Raises LogError.
        """
        items, state = recorder.items, recorder.session.agent(recorder.agent_id)
        index = 0 if is_compaction else self._count_committed(recorder)
        if index == len(items):
            return None
        before = recorder.prefix_at(index)
        context = recorder.session.context(recorder.agent_id)
        new = context[before.message_count :]
        stable_count = 0
        if index:
            stable_count = _count_stable(state, items[index:])
            stable = recorder.prefix_at(index + stable_count)
            split = stable.message_count - before.message_count
            drafts = _create_deltas(new, self._commit_ids[before.entries_hash], trigger, split)
        elif recorder.agent_id in self._starts and not is_compaction:
            drafts = [_create_first(state, new, self._starts[recorder.agent_id], trigger)]
        elif trigger == "turn_boundary" and not _is_worth_it(state, len(context)):
            return None
        else:
            parent = self.last_commit(recorder)
            # A log that begins with a compaction begins with a delta: there is nothing before it.
            is_first = state.commit_id is None and recorder.agent_id not in self._starts
            is_compaction = is_compaction and not is_first
            drafts = _create_full(state, new, parent, trigger, is_compaction=is_compaction)
        drafts = self._complete(drafts, recorder, created_at)
        commit_ids = checkpoint_all(self.store, drafts)
        if stable_count and len(commit_ids) > 1:
            self._commit_ids[stable.entries_hash] = commit_ids[0]
        parent = commit_ids[-2] if len(commit_ids) > 1 else drafts[0].parent
        upto = _find_newest(state, recorder.prefix_at(len(items)))
        self._log_commit(recorder, commit_ids[-1], parent, trigger, upto)
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
        event = ConversationEvent(metric, totals.last_response.time)
        return self.commit_events(recorder, [event], metric.summary)

    def commit_events(
        self, recorder: AgentRecorder, events: Sequence[ConversationEvent], summary: str
    ) -> CommitId:
        """Commit events that are not messages, after the last commit of an agent.

        Its whole context must be committed. Raises StoreError, LogError.
        """
        parent = self.last_commit(recorder)
        draft = CommitDraft(
            data=encode_events(events),
            parent=parent,
            trigger="session_end",
            summary=summary,
            message_count=0,
            token_count=0,
        )
        created_at = find_latest(event.timestamp for event in events)
        ctx = checkpoint(self.store, *self._complete([draft], recorder, created_at))
        upto = recorder.session.agents[recorder.agent_id].committed_upto
        self._log_commit(recorder, ctx, parent, "session_end", upto)
        return ctx

    def _complete(
        self, drafts: Sequence[CommitDraft], recorder: AgentRecorder, created_at: str | None
    ) -> list[CommitDraft]:
        """Return drafts with their origin and time, and the entries of their messages."""
        origin = self._origin(recorder)
        completed = [replace(draft, origin=origin, created_at=created_at) for draft in drafts]
        if not self.entries:
            return completed
        return [
            replace(draft, messages=(), entries=self._entries_of(draft.messages))
            for draft in completed
        ]

    def _entries_of(self, messages: Sequence[ChatMessage]) -> list[ConversationEntry]:
        logged_entries = (entry for entry in messages if isinstance(entry, TranscriptEntry))
        return [self.entries[entry.message_id] for entry in logged_entries]

    def _log_commit(
        self,
        recorder: AgentRecorder,
        ctx: CommitId,
        parent: CommitId | None,
        trigger: Checkpoint,
        upto: MessageId | None,
    ) -> None:
        """Log that a commit holds the context of an agent."""
        recorder.session.append(
            ContextCommitted(
                agent_id=recorder.agent_id,
                ctx=ctx,
                parent_ctx=parent,
                checkpoint=trigger,
                upto=upto,
            )
        )
        if recorder.items:
            self._commit_ids[recorder.prefix_at(len(recorder.items)).entries_hash] = ctx
        elif recorder.agent_id in self._starts:
            self._starts[recorder.agent_id] = ctx

    def _count_committed(self, recorder: AgentRecorder) -> int:
        """Return the length of the longest prefix of an agent's items that a commit holds."""
        index = len(recorder.items)
        while index and recorder.prefix_at(index).entries_hash not in self._commit_ids:
            index -= 1
        return index

    def _origin(self, recorder: AgentRecorder) -> CommitOrigin:
        state = recorder.session.agents[recorder.agent_id]
        if recorder.agent_id == recorder.session.state.root:
            return self.origin_of("")
        foreign = state.spec.foreign
        client_name = foreign.agent if self.is_named and foreign is not None else None
        return self.origin_of(client_name or state.name or recorder.agent_id)


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


def _create_deltas(
    new: Sequence[ChatMessage], base: CommitId, trigger: Checkpoint, split: int
) -> list[CommitDraft]:
    """Return the drafts of the messages after a commit. Each is the parent of the next.

    split: the number of these messages that get a commit of their own.
    """
    first = CommitDraft(messages=new[: split or len(new)], parent=base, trigger=trigger)
    tail = new[split:] if split else []
    return [first, CommitDraft(messages=tail, trigger=trigger)] if tail else [first]


def _create_first(
    state: AgentState, new: Sequence[ChatMessage], start: CommitId | None, trigger: Checkpoint
) -> CommitDraft:
    """Return the draft of the first messages of an agent. `start` is the commit before them."""
    if state.parent is not None and state.commit_id is None:
        return CommitDraft(messages=new, parent=start, type="snapshot", trigger="spawn")
    return CommitDraft(messages=new, parent=start, trigger=trigger)


def _create_full(
    state: AgentState,
    new: Sequence[ChatMessage],
    parent: CommitId | None,
    trigger: Checkpoint,
    *,
    is_compaction: bool,
) -> list[CommitDraft]:
    """Return the drafts of a context that starts with no commit. Each is the parent of the next."""
    if is_compaction and (state.commit_id is not None or state.parent is None):
        return [CommitDraft(messages=new, parent=parent, type="compaction", trigger=trigger)]
    if state.commit_id is not None:
        return [CommitDraft(messages=new, parent=parent, type="snapshot", trigger=trigger)]
    if state.parent is None:
        return [CommitDraft(messages=new, trigger=trigger)]
    prompts = list(takewhile(lambda message: message.role != "assistant", new))
    spawn_draft = CommitDraft(
        messages=prompts or new, parent=parent, type="snapshot", trigger="spawn"
    )
    tail = new[len(prompts) :] if prompts else []
    return [spawn_draft, CommitDraft(messages=tail, trigger=trigger)] if tail else [spawn_draft]
