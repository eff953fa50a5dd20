"""The state of a session after its events so far: agents, their places and transcripts.

The objects are plain data, changed only by `fold`. Live and resumed agents read the same objects,
so a resumed session equals the live one by construction.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, TypeAlias

import msgspec

from harken.core.event_types.spec import NO_SPEC, AgentSpec, HookPoint
from harken.core.events import (
    DiscussionChosen,
    DiscussionJudged,
    DiscussionOpened,
    DiscussionSpoken,
    HookLeaving,
    HookVerdict,
    Json,
    LlmRequest,
    NoteKept,
    Place,
    Reference,
    Segment,
    TranscriptEdited,
    TranscriptEntry,
    TriggerArmed,
    TurnStop,
)
from harken.core.ids import AgentId, MessageId, parse_id_number
from harken.core.messages import ChatMessage

DiscussionStep: TypeAlias = DiscussionSpoken | DiscussionChosen | DiscussionJudged


class UsageTotals(msgspec.Struct):
    """The usage of an agent's own model calls so far. Unreported values count as 0."""

    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0

    @property
    def tokens(self) -> int:
        """The sum of input and output tokens."""
        return self.input_tokens + self.output_tokens


class Review(msgspec.Struct):
    """The verdicts on a message or call of an agent that may still have an effect."""

    watched: AgentId
    point: HookPoint
    given: list[HookVerdict] = msgspec.field(default_factory=list)
    """Oldest first."""
    has_stopped: bool = False
    """Whether a turn of the watched agent was stopped since."""

    @property
    def denial(self) -> HookVerdict | None:
        """The verdict that denies the subject, or None."""
        return next((verdict for verdict in self.given if verdict.verdict == "deny"), None)

    @property
    def stop(self) -> HookVerdict | None:
        """The verdict that is still to end the turn of the watched agent, or None."""
        if self.has_stopped:
            return None
        return next((verdict for verdict in self.given if verdict.verdict == "stop"), None)

    @property
    def replacement(self) -> HookVerdict | None:
        """The last verdict that rewrites the subject, or None."""
        rewrites = (verdict for verdict in reversed(self.given) if verdict.verdict == "rewrite")
        return next(rewrites, None)


class StoppedTurn(msgspec.Struct, frozen=True):
    """The end of a turn without an answer, until the agent gets its next input or place."""

    event: TurnStop
    text: str
    """The text that others read in place of an answer."""


class Round(msgspec.Struct):
    """A discussion whose call has no result yet. `session.folds.discussions` finds the due step."""

    opening: DiscussionOpened
    """Its `message_id` is empty if the discussion is not in the log (a user's command)."""
    steps: list[DiscussionStep] = msgspec.field(default_factory=list)
    """The answers, choices and verdicts so far, oldest first."""
    user_question: MessageId | None = None
    """The question to the user whose turn it is."""
    user_answer: TranscriptEntry | None = None
    """The answer to that question: it is no step yet."""

    @property
    def opened(self) -> MessageId:
        """The id of the `discussion_opened`."""
        return self.opening.message_id

    @property
    def spoken(self) -> list[DiscussionSpoken]:
        """The answers so far, oldest first."""
        return [step for step in self.steps if isinstance(step, DiscussionSpoken)]

    @property
    def open_steps(self) -> list[DiscussionStep]:
        """The choices and verdicts since the last answer."""
        count = 0
        while count < len(self.steps) and not isinstance(self.steps[-1 - count], DiscussionSpoken):
            count += 1
        return self.steps[len(self.steps) - count :]


class OpenCall(msgspec.Struct, frozen=True, gc=False):
    """A tool call that has no result yet."""

    id: str
    name: str
    arguments: str
    reference: Reference
    """`msg_003`, or `msg_003.call_abc` if the message has several calls."""
    index: int = 0
    """The position among the calls of its message."""
    is_started: bool = False
    """Whether a tool that is not idempotent may have begun to act."""
    rewritten_by: MessageId | None = None
    """The verdict that the last `action_rewritten` names."""


class ContextTokens(msgspec.Struct, frozen=True):
    """The number of tokens that a provider counted for the beginning of a context."""

    messages: int
    """The number of counted messages: those of the last model call, and the answer."""
    tokens: int


class TriggerState(msgspec.Struct, frozen=True):
    """The last event of a trigger."""

    piece: MessageId
    time: str
    """UTC, RFC 3339."""
    seen: Json = None
    """The position up to which the trigger had read."""


class AgentState(msgspec.Struct):
    """The state of an agent of the session, also of a removed one."""

    id: AgentId
    birth: MessageId
    name: str | None = None
    language_model: str | None = None
    parent: AgentId | None = None
    """The agent above it in the tree; for a hook, the agent that it watches."""
    place: Place = "subagent"
    placed_by: MessageId = MessageId("")
    """The event that put it there: its birth, or a move of it or of the agent it swapped with."""
    spec: AgentSpec = NO_SPEC
    subagents: list[AgentId] = msgspec.field(default_factory=list)
    hooks: list[AgentId] = msgspec.field(default_factory=list)
    """Its hooks, in the order in which they are asked."""
    former_hooks: list[AgentId] = msgspec.field(default_factory=list)
    """Its removed hooks, in the order of removal."""
    speakers: list[AgentId] = msgspec.field(default_factory=list)
    listeners: list[AgentId] = msgspec.field(default_factory=list)
    saved_state: Json = None
    """The last saved state of a dumb agent."""
    transcript: list[TranscriptEntry] | None = msgspec.field(default_factory=list)
    """All entries, oldest first; None while evicted from memory."""
    context: list[ChatMessage] | None = None
    """The current context, if an edit or a commit made it differ from `transcript`."""
    request: LlmRequest | None = None
    """The last model call, if the context begins with all of its messages."""
    context_prefix: list[Segment] = msgspec.field(default_factory=list)
    """The beginning of the context if `request` is None: after an edit or a commit."""
    new_entries: list[MessageId] = msgspec.field(default_factory=list)
    """The entries that were added since the last request or edit."""
    open_calls: dict[str, OpenCall] = msgspec.field(default_factory=OrderedDict)
    """Calls without a result, by call id, oldest first. The oldest of an `OrderedDict` is found at
    once, while a dict looks through all that were removed before it."""
    early_results: list[tuple[OpenCall, TranscriptEntry]] = msgspec.field(default_factory=list)
    """Results that are in the log, but not in the context yet: an earlier call of their message has
    none. The context has results in the order of the calls."""
    usage: UsageTotals = msgspec.field(default_factory=UsageTotals)
    counted_tokens: ContextTokens | None = None
    """None if no provider has counted the beginning of the current context."""
    commit_id: str | None = None
    """Its last commit, or the commit that it started from."""
    spawn_commit_id: str | None = None
    """The last commit of its parent when it was born."""
    committed_upto: MessageId | None = None
    """The last of its entries that `commit_id` covers; None if it covers none of this session."""
    uncommitted_edit: TranscriptEdited | None = None
    """The last edit after `commit_id`: the current context does not begin with that commit."""
    triggers: dict[str, TriggerArmed] = msgspec.field(default_factory=dict)
    """The armed triggers by name."""
    trigger_states: dict[str, TriggerState] = msgspec.field(default_factory=dict)
    """Name of a trigger -> its last event."""
    replaced_by: AgentId | None = None
    """The agent that took its place in its last move."""
    last_piece: tuple[MessageId, str] | None = None
    """Its last `piece_of_text` and the text."""
    stop: StoppedTurn | None = None
    """How its last turn was stopped; None if it was not, or after the next input or move."""
    undelivered: dict[MessageId, str] = msgspec.field(default_factory=dict)
    """Trigger events that were not delivered to the agent yet, oldest first: piece -> its text."""
    notes: list[NoteKept] = msgspec.field(default_factory=list)
    """The notes that a hook kept since its last verdict."""
    leaving: HookLeaving | None = None
    """Set if a hook ends its watch with its next verdict."""
    owed_comments: list[HookVerdict] = msgspec.field(default_factory=list)
    """Comments of hooks that were not delivered to the agent yet, oldest first."""
    denials: int = 0
    """The number of answers that were returned in the current turn."""
    given_answer: MessageId | None = None
    """The last answer of a guarded agent that its hooks let through."""
    questions: dict[Reference, MessageId] = msgspec.field(default_factory=dict)
    """For a hook: subject -> the entry with the question that waits for its verdict."""

    @property
    def is_recorded(self) -> bool:
        """Whether another program runs it, so that its context is recorded without checks."""
        return self.spec.is_recorded

    def segments(self) -> list[Segment]:
        """Return the current context as segments."""
        before = self.context_prefix
        if self.request is not None:
            last = self.request
            before = [Segment(request=last.message_id, start=0, stop=last.count)]
        return [*before, Segment(entries=list(self.new_entries))] if self.new_entries else [*before]

    @property
    def context_hash_state(self) -> tuple[int, str]:
        """The number of context messages with a known rolling hash, and that hash."""
        if self.request is None:
            return 0, ""
        return self.request.count, self.request.context_hash


class SessionState(msgspec.Struct):
    """The state of a session after a prefix of its log."""

    session_id: str | None = None
    agents: dict[AgentId, AgentState] = msgspec.field(default_factory=dict)
    root: AgentId | None = None
    """The first agent without a cause."""
    primary: AgentId | None = None
    """The agent that the user talks to."""
    last_id: MessageId = MessageId("")
    """The id of the last event; ids only grow."""
    next_agent: int = 1
    cause_owners: dict[MessageId, AgentId] = msgspec.field(default_factory=dict)
    """Events that can be the cause of a birth (births, open calls) -> their agents."""
    copied_messages: set[MessageId] = msgspec.field(default_factory=set)
    """Events that have a substance, so that they are not originals."""
    open_references: set[Reference] = msgspec.field(default_factory=set)
    """References to calls without a result."""
    tools: dict[str, MessageId] = msgspec.field(default_factory=dict)
    """Hash of a list of tool schemas -> the event that holds it in full."""
    requests: dict[AgentId, LlmRequest] = msgspec.field(default_factory=dict)
    """The last model call of each agent that has no `llm_response` yet."""
    rounds: dict[Reference, Round] = msgspec.field(default_factory=dict)
    """Call without a result -> its discussion."""
    reviews: dict[Reference, Review] = msgspec.field(default_factory=dict)
    """Subject -> its verdicts, until they have had their effect."""
    pending_reports: dict[AgentId, MessageId | None] = msgspec.field(default_factory=dict)
    """Agents that received a trigger event and whose parent has not received their answer
    -> their last message about it."""
    ended: bool = False
    _next_number_cache: tuple[str, int] = ("", 0)
    """A cache: the value of `last_id`, and the number after it."""

    @property
    def next_message(self) -> int:
        """The number of the next event; foreign ids have none and count 0."""
        if self._next_number_cache[0] is not self.last_id:
            number = parse_id_number(self.last_id, "msg_")
            self._next_number_cache = self.last_id, 0 if number is None else number + 1
        return self._next_number_cache[1]

    def replace(self, other: SessionState) -> None:
        """Take over the values of another state. The objects of agents in both are kept."""
        agents = {}
        for id_, agent in other.agents.items():
            agents[id_] = self.agents.get(id_, agent)
            if agents[id_] is not agent:
                _copy_fields(agent, agents[id_])
        _copy_fields(other, self)
        self.agents = agents

    def is_live(self, agent_id: AgentId) -> bool:
        """Whether the agent and all of its ancestors are still in the tree."""
        agent = self.agents.get(agent_id)
        for _ in self.agents:  # A foreign log may contain a cycle of parents.
            if agent is None or agent.place == "gone":
                return False
            if agent.parent is None:
                return True
            agent = self.agents.get(agent.parent)
        return False

    def describe(self) -> dict[str, Any]:
        """Return the state as JSON values, with entries by id. Equal states give equal values."""
        return {
            "session_id": self.session_id,
            "root": self.root,
            "primary": self.primary,
            "next_message": self.next_message,
            "next_agent": self.next_agent,
            "tools": dict(self.tools),
            "open_requests": {id_: request.message_id for id_, request in self.requests.items()},
            "ended": self.ended,
            "reporting": dict(self.pending_reports),
            "rounds": {
                call: [open_round.opened, [event.message_id for event in open_round.steps]]
                for call, open_round in self.rounds.items()
            },
            "reviews": {
                subject: [
                    review.watched,
                    review.point,
                    [verdict.message_id for verdict in review.given],
                ]
                for subject, review in self.reviews.items()
            },
            "agents": {agent.id: _describe(agent) for agent in self.agents.values()},
        }


def _copy_fields(source: Any, target: Any) -> None:
    for name in source.__struct_fields__:
        setattr(target, name, getattr(source, name))


def _describe(agent: AgentState) -> dict[str, Any]:
    values = {
        name: getattr(agent, name)
        for name in (
            *("name", "language_model", "parent", "place", "saved_state"),
            *("birth", "commit_id", "spawn_commit_id", "committed_upto", "uncommitted_edit"),
        )
    }
    lists = {
        name: list(getattr(agent, name))
        for name in ("subagents", "hooks", "speakers", "listeners", "new_entries", "open_calls")
    }
    return {
        **values,
        **lists,
        "spec": msgspec.to_builtins(agent.spec),
        "triggers": {name: event.message_id for name, event in agent.triggers.items()},
        "happened": {
            name: (trigger_state.piece, trigger_state.time, trigger_state.seen)
            for name, trigger_state in agent.trigger_states.items()
        },
        "unheard": dict(agent.undelivered),
        "early_results": [entry.message_id for _, entry in agent.early_results],
        "notes": [note.message_id for note in agent.notes],
        "leaving": None if agent.leaving is None else agent.leaving.message_id,
        "owed_comments": [verdict.message_id for verdict in agent.owed_comments],
        "questions": dict(agent.questions),
        "turn": (agent.denials, agent.given_answer),
        "stop": None if agent.stop is None else agent.stop.event.message_id,
        "segments": agent.segments(),
        "hashed": agent.context_hash_state,
        "counted": agent.counted_tokens,
        "spent": (agent.usage.model_calls, agent.usage.tokens, agent.usage.cost_usd),
        "transcript": [entry.message_id for entry in agent.transcript or ()],
        "context": None if agent.context is None else [m.content for m in agent.context],
    }
