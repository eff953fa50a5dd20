"""What a session amounts to after its events so far: agents, their places and transcripts.

Plain data, changed only by `fold`. Live agents and resumed ones read the same objects, so a
resumed session equals the live one by construction.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from harken.core.events import (
    AgentStateSaved,
    Json,
    LlmRequest,
    Place,
    Reference,
    Segment,
    TranscriptEdited,
    TranscriptEntry,
)
from harken.core.ids import AgentId, MessageId, parse_id_number
from harken.core.messages import ChatMessage


@dataclass(slots=True)
class UsageTotals:
    """What an agent's own model calls have cost so far; what a provider did not say counts 0."""

    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0

    @property
    def tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens


class OpenCall(msgspec.Struct, frozen=True, gc=False):
    """A tool call that has no result yet."""

    id: str
    name: str
    arguments: str
    reference: Reference
    """`msg_003`, or `msg_003.call_abc` where the message made several calls."""


@dataclass(frozen=True, slots=True)
class ContextTokens:
    """What a provider has counted of a context."""

    messages: int
    """So many from its beginning: those of the last model call, and the answer."""
    tokens: int


@dataclass(frozen=True, slots=True)
class TriggerState:
    """The last time that a trigger told of something."""

    time: str
    """UTC, RFC 3339."""
    seen: Json = None
    """How far it had looked."""


@dataclass(slots=True)
class AgentState:
    """One agent that was ever born in the session."""

    id: AgentId
    birth: MessageId
    name: str | None = None
    language_model: str | None = None
    parent: AgentId | None = None
    """Above it in the tree; for a hook, the agent that it watches."""
    place: Place = "subagent"
    placed: MessageId = MessageId("")
    """Since when it stands there: its birth, or a move of it or of whom it changed places with."""
    spec: dict[str, Json] = field(default_factory=dict)
    subagents: list[AgentId] = field(default_factory=list)
    hooks: list[AgentId] = field(default_factory=list)
    """In the order in which they are asked."""
    former_hooks: list[AgentId] = field(default_factory=list)
    """Who stood there as its hook and is gone, in the order in which they went."""
    speakers: list[AgentId] = field(default_factory=list)
    listeners: list[AgentId] = field(default_factory=list)
    saved_state: Json = None
    """The last saved state of a dumb agent."""
    pending_state: AgentStateSaved | None = None
    """One that counts as soon as the agent has said what it belongs to, and only then."""
    transcript: list[TranscriptEntry] | None = field(default_factory=list)
    """All entries ever, oldest first; None while evicted from memory."""
    context: list[ChatMessage] | None = None
    """What the model reads next, where an edit or a commit made it differ from `transcript`."""
    request: LlmRequest | None = None
    """The last model call, where the context begins with all that it saw."""
    context_prefix: list[Segment] = field(default_factory=list)
    """What the context begins with where that is not `request`: after an edit or a commit."""
    new_entries: list[MessageId] = field(default_factory=list)
    """The entries after that: those added since the last request or edit."""
    open_calls: dict[str, OpenCall] = field(default_factory=dict)
    """Calls without a result, by call id, in the order in which they were made."""
    usage: UsageTotals = field(default_factory=UsageTotals)
    counted_tokens: ContextTokens | None = None
    """None: nobody has counted the context as it begins now."""
    commit_id: str | None = None
    """Its last commit, or the one that it started from."""
    spawn_commit_id: str | None = None
    """The last commit of its parent when it was born."""
    committed_upto: MessageId | None = None
    """The last of its entries that `ctx` covers; None: none of this session."""
    uncommitted_edit: TranscriptEdited | None = None
    """The last edit that `ctx` does not know of: what the agent reads does not begin with it."""
    trigger_states: dict[str, TriggerState] = field(default_factory=dict)
    """Name of a trigger that is armed -> when it last told of something."""
    undelivered: dict[MessageId, str] = field(default_factory=dict)
    """What happened outside and the agent has not heard yet, oldest first: piece -> its text."""

    @property
    def is_recorded(self) -> bool:
        """Whether another program runs it: what it reads is what was seen, whatever it is."""
        return "recorded" in self.spec

    def segments(self) -> list[Segment]:
        """Return the current context as segments."""
        before = self.context_prefix
        if self.request is not None:
            last = self.request
            before = [Segment(request=last.message_id, start=0, stop=last.count)]
        return [*before, Segment(entries=list(self.new_entries))] if self.new_entries else [*before]

    @property
    def context_hash_state(self) -> tuple[int, str]:
        """How many messages of the context have a known rolling hash, and that hash."""
        if self.request is None:
            return 0, ""
        return self.request.count, self.request.context_hash


@dataclass(slots=True)
class SessionState:
    """Everything that a log says, after some prefix of it."""

    session_id: str | None = None
    agents: dict[AgentId, AgentState] = field(default_factory=dict)
    root: AgentId | None = None
    """The first agent without a cause."""
    primary: AgentId | None = None
    """Whom the user talks to."""
    last_id: MessageId = MessageId("")
    """The id of the last event; ids only grow."""
    next_agent: int = 1
    cause_owners: dict[MessageId, AgentId] = field(default_factory=dict)
    """Events that can be the cause of a birth (births, calls in progress) -> whose they are."""
    copied_messages: set[MessageId] = field(default_factory=set)
    """Events that have a substance: they are nobody's original."""
    open_references: set[Reference] = field(default_factory=set)
    """Calls without a result, named as a cause names them."""
    tools: dict[str, MessageId] = field(default_factory=dict)
    """Hash of a list of tool schemas -> the event that holds it in full."""
    requests: dict[AgentId, LlmRequest] = field(default_factory=dict)
    """The last model call of each agent that has no `llm_response` yet."""
    pending_reports: dict[AgentId, MessageId | None] = field(default_factory=dict)
    """Agents that heard what happened outside, and whose parent has not heard what they made of it
    -> the last that they said of it."""
    last_shown_message: MessageId = MessageId("")
    """The last utterance of which the user was shown something that a hook, or a command, made."""
    ended: bool = False
    _counted: tuple[str, int] = ("", 0)
    """An id that was the last one, and the number after it."""

    @property
    def next_message(self) -> int:
        """The number of the next event; foreign ids have none and count 0."""
        if self._counted[0] is not self.last_id:
            number = parse_id_number(self.last_id, "msg_")
            self._counted = self.last_id, 0 if number is None else number + 1
        return self._counted[1]

    def is_live(self, agent_id: AgentId) -> bool:
        """Whether the agent and everybody above it is still there."""
        agent = self.agents.get(agent_id)
        for _ in self.agents:  # a foreign log might name a circle
            if agent is None or agent.place == "gone":
                return False
            if agent.parent is None:
                return True
            agent = self.agents.get(agent.parent)
        return False

    def describe(self) -> dict[str, Any]:
        """Return the whole state as JSON values, entries by id: equal states, equal values."""
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
            "agents": {agent.id: _describe(agent) for agent in self.agents.values()},
        }


def _describe(agent: AgentState) -> dict[str, Any]:
    plain = {
        name: getattr(agent, name)
        for name in (
            *("name", "language_model", "parent", "place", "saved_state", "pending_state"),
            *("birth", "commit_id", "spawn_commit_id", "committed_upto", "uncommitted_edit"),
        )
    }
    copied = {
        name: list(getattr(agent, name))
        for name in ("subagents", "hooks", "speakers", "listeners", "new_entries", "open_calls")
    }
    return {
        **plain,
        **copied,
        "spec": dict(agent.spec),
        "happened": {name: (one.time, one.seen) for name, one in agent.trigger_states.items()},
        "unheard": dict(agent.undelivered),
        "segments": agent.segments(),
        "hashed": agent.context_hash_state,
        "counted": agent.counted_tokens,
        "spent": (agent.usage.model_calls, agent.usage.tokens, agent.usage.cost_usd),
        "transcript": [entry.message_id for entry in agent.transcript or ()],
        "context": None if agent.context is None else [m.content for m in agent.context],
    }
