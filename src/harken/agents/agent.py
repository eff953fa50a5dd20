"""`Agent`: the base class of every participant of a session, with a transcript and an answer.

An agent is an identity in a session. Its transcript, its place in the tree and its subagents are
read from the session's state, which is rebuilt from the log. An agent object can therefore be
dropped and created again at any time without any visible effect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from harken.agents.agent_classes import check_points, check_registered, get_agent_class
from harken.agents.guards import SELF_MADE, SELF_MADE_BY_AGENT, guarded_agents, is_guard, is_made
from harken.agents.initial_transcript import (
    INTERRUPTED,
    UNNAMED,
    begin_with,
    complete_transcript,
    message_dict,
)
from harken.agents.names import free_name
from harken.agents.runtime import AgentRuntime
from harken.agents.turn_lock import TurnLock
from harken.agents.unanswered_input import needs_no_answer
from harken.core.arguments import check_arguments, check_text
from harken.core.commits import Checkpoint, CommitId
from harken.core.events import AgentConfigured, Cause, Relation, TranscriptEntry
from harken.core.ids import AgentId, MessageId
from harken.core.logged_string import LoggedString
from harken.core.messages import Message
from harken.core.untrusted import escape_hook_markers
from harken.core.verdict import HOOK_POINTS, HookPoint, HookQuestion, Verdict, parse_allowed_verdict
from harken.errors import ConfigError, NameNotFound, NotBorn
from harken.session.fold import current_messages
from harken.session.session import Session
from harken.session.state import AgentState, OpenCall
from harken.world.loop_lock import LoopLock


@check_arguments
class Agent:
    """The interface of every agent: `harken(input)`, `await response()`, `inform(dst, txt)`."""

    kind: ClassVar[str] = "agent"
    """The kind that the birth records: `smart`, or the registered name of a dumb agent."""
    can_unload: ClassVar[bool] = False
    """Whether a long session may unload an idle object of exactly this class and create it again.
    """
    points: ClassVar[frozenset[HookPoint]] = HOOK_POINTS
    """The points at which it is asked while it is a hook, unless its spec names others."""
    can_restore: ClassVar[bool] = True
    """Whether it can be created from a dump file: not if the file would name code to run."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Check the points of a class. Raises TypeError, and ValueError for an unknown point."""
        super().__init_subclass__(**kwargs)
        check_points(cls)

    def __init__(
        self,
        session: Session,
        system_prompt: str | None = None,
        init_prompt: Sequence[Mapping[str, Any]] | None = None,
        *,
        runtime: AgentRuntime | None = None,
    ) -> None:
        """Allocate an agent id in the session. The caller logs the birth with `log_birth`.

        The system prompt is held back until then. `init_prompt` is a transcript to start from:
        messages of this session, known by their `message_id`, are not logged again; others are.
        Its system prompt gives way to the agent's own; a call in it that has no result gets one
        that says so. Raises ValueError where it is no transcript.
        """
        initial = complete_transcript(init_prompt or (), own_system=system_prompt is not None)
        self.bind(session, session.allocate_agent_id(), runtime or AgentRuntime())
        self.set_initial_transcript(initial)
        if system_prompt is not None:
            session.defer_messages(self.agent_id, [Message("system", str(system_prompt))])

    @classmethod
    def from_state(cls, session: Session, state: AgentState, runtime: AgentRuntime) -> Self:
        """Create the object of an agent whose birth is in the log already."""
        agent = cls.__new__(cls)
        agent.load_spec(state)
        agent.bind(session, state.id, runtime)
        agent.restore(state)
        return agent

    def load_spec(self, state: AgentState) -> None:
        """Read from the birth what `begin` needs."""

    def restore(self, state: AgentState) -> None:
        """Restore the state that the log has of this agent besides its transcript."""

    def bind(self, session: Session, agent_id: AgentId, runtime: AgentRuntime) -> None:
        """Bind the object to its identity in the session."""
        self.session = session
        self.agent_id = agent_id
        self.runtime = runtime
        self._initial: list[Mapping[str, Any]] = []
        self.birth_spec: dict[str, Any] = {}
        """Members that the birth records besides `spec()`; the creator of the agent may add to
        them."""
        self.question_lock = LoopLock()
        """A lock that allows one hook question at a time."""
        self.turn_lock = TurnLock()
        self.unread_results: list[TranscriptEntry] = []
        """Answers of subagents that a trigger woke, received at the next safe point."""
        session.live[agent_id] = self
        self.begin()

    def begin(self) -> None:
        """Set up an object, new or revived, before any state is restored.

        An agent made again from the log is not constructed anew: what a subclass needs is set
        here, not in `__init__`.
        """

    def spec(self) -> dict[str, Any]:
        """Return the members that the birth records besides name and model."""
        return {"kind": self.kind}

    @property
    def language_model(self) -> str | None:
        """The name of the model that decides for this agent, or None for a dumb agent."""
        return None

    def log_birth(
        self, cause: Cause = None, name: str | None = None, relation: Relation | None = None
    ) -> MessageId:
        """Log this agent's birth, with its spec; its system prompt and first messages follow.

        Raises TypeError for a class that was not registered: a resume would not find it.
        """
        self.check_kind()
        birth = self.session.log_agent_created(
            self.agent_id,
            cause,
            name,
            self.language_model,
            relation=relation,
            spec={**self.spec(), **self.birth_spec},
        )
        self.log_initial_transcript()
        return birth

    def check_kind(self) -> None:
        """Raise TypeError if a resume would not make an agent of this class."""
        if type(self) is not Agent:
            check_registered(type(self), self.kind, self.runtime.library)

    def set_initial_transcript(self, initial: Sequence[Mapping[str, Any]]) -> None:
        """Set the complete transcript to start from when the birth is logged."""
        self._initial += initial

    def log_initial_transcript(self) -> None:
        """Log the initial transcript: messages that are in the log by reference, others in full."""
        initial, self._initial = self._initial, []
        begin_with(self.session, self.agent_id, initial)

    def _own_entries(self) -> list[TranscriptEntry]:
        return self.state.transcript or []

    @property
    def state(self) -> AgentState:
        """The agent's state as folded from the log. Raises NotBorn before its birth is logged."""
        self.check_born()
        state = self.session.agent(self.agent_id)
        if self._initial:  # its birth was logged by `Session.log_agent_created`
            self.log_initial_transcript()
        return state

    @property
    def is_born(self) -> bool:
        """Whether the birth of this agent is in the log."""
        return self.agent_id in self.session.agents

    def check_born(self) -> None:
        """Raise NotBorn if the birth is not in the log yet."""
        if not self.is_born:
            raise NotBorn(self.agent_id, type(self).__name__)

    @property
    def name(self) -> str:
        """The agent's name, or its id if it has no name."""
        state = self.session.agents.get(self.agent_id)
        return (state.name if state is not None else None) or self.agent_id

    @property
    def transcript(self) -> list[dict[str, Any]]:
        """The context that its model would read now, as message dicts with ids, oldest first."""
        if not self.is_born:
            return [dict(message) for message in self._initial]
        return [message_dict(message) for message in current_messages(self.state)]

    @property
    def subagents(self) -> dict[str, Agent]:
        """The live subagents by name (by id if unnamed), in order of birth."""
        return {name: self.agent_by_id(agent_id) for name, agent_id in self.subagent_ids.items()}

    @property
    def subagent_ids(self) -> dict[str, AgentId]:
        """Ids of the live subagents by name, without reviving them."""
        agents = self.session.agents
        return {agents[id_].name or id_: id_ for id_ in self.state.subagents}

    @property
    def hooks(self) -> list[Agent]:
        """The hooks that watch this agent, in the order in which they are asked.

        Hooks that the agent installed itself come first, see `self_made`.
        """
        return [self.agent_by_id(agent_id) for agent_id in self.hook_ids]

    @property
    def hook_ids(self) -> list[AgentId]:
        """Ids of the hooks in the order in which they are asked, without reviving them."""
        agents = self.session.agents
        return sorted(self.state.hooks, key=lambda id_: is_guard(agents[id_].spec))

    def agent_by_id(self, agent_id: str) -> Agent:
        """Return another agent of the same session, reviving it if it is not in memory.

        Raises NameNotFound.
        """
        return load_agent(self.session, agent_id, self.runtime)

    def subagent(self, name: str) -> Agent:
        """Return a living subagent by its name. Raises NameNotFound with the names that exist."""
        ids = self.subagent_ids
        if name not in ids:
            raise NameNotFound("subagent", name, ids)
        return self.agent_by_id(ids[name])

    def harken(self, input: str) -> None:
        """Add a user message to the transcript and log it.

        What the input represents (`input.message_id`, where it is a LoggedString) becomes the
        entry's substance. Calls that were cut off get their result first. A line that begins as a
        hook's comment does gets a backslash: only hooks speak as hooks. Raises TypeError for an
        input that is no str, NotBorn before the agent's birth is logged.
        """
        check_text(input, f"the input of {self.name}")
        self.check_born()
        self.close_open_calls()
        event = TranscriptEntry(
            agent_id=self.agent_id,
            role="user",
            content=escape_hook_markers(str(input)),
            substance=getattr(input, "message_id", None),
        )
        self.session.append(event)

    async def response(self, input: str | None = None) -> LoggedString:
        """Answer the latest input. If `input` is given, append it first.

        Returns the final text with the id of its message. Raises ModelError where a model call
        fails, LogWriteError where the log cannot be written; both leave the session resumable.
        """
        raise ConfigError(f"{self.name} is a plain Agent: make a SmartAgent or a DumbAgent")

    def inform(self, dst: Agent, txt: str) -> None:
        """Send a text, with the id of the message that it represents, to another agent."""
        if not isinstance(dst, Agent):
            raise TypeError(f"inform(dst, txt): dst must be an Agent, not {dst!r}")
        dst.harken(txt)

    @property
    def hook_points(self) -> frozenset[HookPoint]:
        """The points at which it is asked while it is a hook."""
        points = self.state.spec.get("points")
        return self.points if points is None else HOOK_POINTS & frozenset(points)

    def should_ask(self, question: HookQuestion) -> bool:
        """Whether to ask this hook a question; if not, it counts as OK and is not logged.

        Override it in a hook that rarely comments. If it raises, the hook is asked.
        """
        return True

    async def judge_question(
        self, question: HookQuestion, question_id: MessageId
    ) -> tuple[Verdict, MessageId]:
        """Return the verdict on a question, with the id of the message that contains it.

        The question is in the transcript already. By default the answer is parsed as a verdict.
        Raises UnparsableVerdict if it is none.
        """
        answer = await self.response()
        return parse_allowed_verdict(str(answer), question.point), answer.message_id or question_id

    def after_verdict(self) -> None:
        """Do the follow-up work of a verdict, also of a failed one. A second call does nothing."""

    def install(self, agent: Agent, name: str | None = None) -> Self:
        """Install this hook on an agent. The birth names the agent's own birth as its cause.

        Existing subagents of the agent get copies now, later subagents at their birth. Raises
        TypeError for an unregistered class and for a hook without `judge`, before anything is
        logged.
        """
        if not isinstance(agent, Agent):
            raise TypeError(f"install(agent): agent must be an Agent, not {agent!r}")
        self.install_with_copies(agent, name or self.kind, agent.state.birth)
        return self

    def install_with_copies(self, agent: Agent, name: str, cause: Cause) -> None:
        """Log the birth of this hook on an agent, then give copies to existing subagents.

        The birth lists the agents that get copies.
        """
        self.log_hook_birth(agent, name, cause)
        self.copy_to_subagents()

    def log_hook_birth(self, agent: Agent, name: str, cause: Cause) -> None:
        """Log the birth of this hook on an agent. A self-made hook is not copied."""
        if not is_made(self.birth_spec) and (
            agent_ids := guarded_agents(self.session.agents, agent.state)
        ):
            self.birth_spec["reaches"] = list(agent_ids)
        self.log_birth(cause, name, "hook")

    def copy_to_subagents(self) -> None:
        """Install copies on the agents that the birth lists, and on their subagents.

        The copies are processed in a queue, not recursively, so the depth of the tree is not
        limited by Python's stack. A resume after a crash completes the work.
        """
        pending: list[Agent] = [self]
        for hook in pending:  # copy_to_children extends the queue
            pending += hook.copy_to_children()

    def copy_to_children(self) -> list[Agent]:
        """Install missing copies on the agents that the birth lists. Return the copies."""
        copies: list[Agent] = []
        if not self.state.spec.get("reaches"):
            return copies
        for agent in map(self.agent_by_id, self.state.spec["reaches"]):
            hooks = agent.hooks
            if self.original_id not in {hook.original_id for hook in hooks}:
                copy = self.logged_copy_for(agent)
                if copy is not None:
                    name = free_name(self.name, [hook.name for hook in hooks])
                    copy.log_hook_birth(agent, name, agent.state.birth)
                    copies.append(copy)
        self.session.append(AgentConfigured(agent_id=self.agent_id, spec={"reaches": []}))
        return copies

    @property
    def original_id(self) -> AgentId:
        """The id of the hook that this hook is a copy of, or its own id if it is no copy."""
        return AgentId(self.state.spec.get("original") or self.agent_id)

    def logged_copy_for(self, agent: Agent, *, below: bool = True) -> Agent | None:
        """Return a copy of this hook for another agent, or None if that agent gets no copy.

        below: the agent is a subagent of the watched agent; otherwise it takes the watched agent's
        place and is watched even by hooks that skip subagents. Points and the subagents setting are
        inherited.
        """
        spec = self.state.spec
        copy = None if below and spec.get("subagents") is False else self.copy_for(agent)
        if copy is not None:
            copy.birth_spec |= {
                name: spec[name] for name in ("points", "subagents") if name in spec
            }
            copy.birth_spec |= {SELF_MADE: SELF_MADE_BY_AGENT} if is_made(spec) else {}
            copy.birth_spec["original"] = self.original_id
        return copy

    def copy_for(self, agent: Agent) -> Agent | None:
        """Return a new hook for a new subagent of the watched agent, or None for no hook.

        An agent that became a hook only by a move watches a single agent.
        """
        return None

    @property
    def can_talk(self) -> bool:
        """Whether it can answer, not only judge. Otherwise it cannot take another agent's place."""
        return True

    @property
    def has_news(self) -> bool:
        """Whether there is unread input: from a trigger or from a subagent."""
        return bool(self.unread_results or self.session.agents[self.agent_id].undelivered)

    @property
    def is_busy(self) -> bool:
        """Whether the agent has activity or data in memory that the log does not show."""
        is_locked = (
            self.turn_lock.is_waited_for
            or not self.turn_lock.is_open
            or self.question_lock.is_locked
        )
        return bool(is_locked or self.unread_results or self._initial)

    @property
    def is_in_log(self) -> bool:
        """Whether the object can be unloaded, because the log has all of its state.

        The class declares this for itself with `can_unload`; subclasses do not inherit it.
        """
        return bool(vars(type(self)).get("can_unload")) and not self.is_busy

    def hear_news(self, most: int | None = None) -> list[TranscriptEntry]:
        """Append unread inputs to the transcript, at most `most` of them. Return the entries.

        Call it at the start of a turn or between two steps, where every call has its result.
        """
        trigger_entries = [
            TranscriptEntry(agent_id=self.agent_id, role="user", content=text, substance=piece)
            for piece, text in self.state.undelivered.items()
        ]
        entries = (trigger_entries + self.unread_results)[:most]
        self.unread_results = self.unread_results[max(0, len(entries) - len(trigger_entries)) :]
        self.session.append_all(entries)
        return entries

    @property
    def has_open_calls(self) -> bool:
        """Whether the agent owes an answer: its last turn was interrupted.

        A crash, an error or a cancellation interrupts a turn. `await response()` without input
        continues it.
        """
        for message in reversed(self.session.context(self.agent_id)):
            if message.role != "user" or not needs_no_answer(message):
                return message.role in ("user", "tool") or bool(self.state.open_calls)
        return False  # only comments of hooks

    def check_free(self) -> None:
        """Raise AgentBusy if the agent is in the middle of a turn and cannot receive input."""

    async def finish_calls(self) -> None:
        """Give interrupted calls a result before the next input.

        Raises AgentBusy in the middle of a turn, where calls are under way.
        """
        self.close_open_calls()

    def close_open_calls(self) -> None:
        """Give every call without a result a result that says it was interrupted."""
        for call in list(self.state.open_calls.values()):
            self.close_call(call)

    def checkpoint(self, trigger: Checkpoint = "explicit", summary: str = "") -> CommitId | None:
        """Commit the agent's context now. Return its last commit, or None without a store.

        Raises StoreError; the session can go on, and nothing is lost.
        """
        checkpoints = self.runtime.checkpoints
        if checkpoints is None:
            return None
        return checkpoints.commit_pending(self.session, self.agent_id, trigger, summary)

    def checkpoint_if_due(self, trigger: Checkpoint) -> None:
        """Take a checkpoint if the trigger requires one. A store error does not stop the agent."""
        checkpoints = self.runtime.checkpoints
        if checkpoints is not None:
            checkpoints.checkpoint_if_due(self.session, self.agent_id, trigger, self.runtime.notify)

    def is_retryable(self, call: OpenCall) -> bool:
        """Whether an interrupted call may simply be run again."""
        return False

    def interruption_note(self, call: OpenCall) -> str:
        """Return further information about an interrupted call."""
        return ""

    def close_call(self, call: OpenCall) -> MessageId:
        """Give a call without a result a result that says it was interrupted."""
        return self.session.append(
            TranscriptEntry(
                agent_id=self.agent_id,
                role="tool",
                content=INTERRUPTED.format(call.name) + self.interruption_note(call),
                tool_call_id=call.id,
                name=call.name or UNNAMED,
                is_error=True,
            )
        )


@check_arguments
def load_agent(session: Session, agent_id: str, runtime: AgentRuntime) -> Agent:
    """Return the agent with this id: the object in memory, else a new one built from the log.

    Terminated agents can be revived too, to be read or asked. Raises NameNotFound for an id without
    a birth and for an unregistered kind.
    """
    live = session.live_agent(AgentId(agent_id))
    if isinstance(live, Agent):
        return live
    state = session.agent(agent_id)
    kind = get_agent_class(state.spec.get("kind", "smart"), runtime.library)
    agent: Agent = kind.from_state(session, state, runtime)
    return agent


@check_arguments
def unload_agent(session: Session, agent_id: str) -> None:
    """Drop an agent from memory, object and transcript. It is revived on the next access."""
    session.evict(agent_id)
    session.live.pop(AgentId(agent_id), None)
