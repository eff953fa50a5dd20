"""`Agent`: the base class of every participant of a session, with a transcript and an answer.

An agent is an identity in a session. Its transcript, its place in the tree and its subagents are
read from the session's state, which is rebuilt from the log. An agent object can therefore be
dropped and created again at any time without any visible effect.

The public members are those that a user of an agent needs. Members with an underscore belong to
the package `harken.agents`; other packages use the functions beside the class, here and in
`open_calls`, `inputs` and `checkpoints`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

from harken.agents import texts
from harken.agents.agent_classes import check_registered, get_agent_class, kind_name, register_lazy
from harken.agents.guards import guarded_agents, order_hooks
from harken.agents.initial_transcript import (
    UNNAMED,
    begin_with,
    complete_transcript,
    message_dict,
)
from harken.agents.judgment import AgentJudgment
from harken.agents.names import free_name
from harken.agents.runtime import AgentRuntime
from harken.agents.structure import CODE_CALL_PREFIX, AgentStructure, call_runner
from harken.agents.turn_lock import TurnLock
from harken.core.arguments import check_arguments, check_text
from harken.core.event_types.spec import SMART, AgentSpec
from harken.core.events import Cause, Relation, TranscriptEntry
from harken.core.ids import AgentId, MessageId
from harken.core.logged_string import LoggedString
from harken.core.messages import Message
from harken.core.untrusted import escape_hook_markers
from harken.errors import AgentBusy, ConfigError, NameNotFound, NotBorn
from harken.session.fold import current_messages
from harken.session.session import Session
from harken.session.state import AgentState, OpenCall
from harken.world.loop_lock import LoopLock

register_lazy({SMART: "harken.agents.smart_agent"})


@check_arguments
class Agent(AgentJudgment, AgentStructure["Agent"]):
    """The interface of every agent: `harken(input)`, `await response()`, `inform(dst, txt)`.

    `Agent(session, system_prompt)` creates a `SmartAgent`, as a resume does if a birth names no
    kind.
    """

    _kind: ClassVar[str] = "agent"
    """The kind that the birth records: `smart`, or the registered name of a dumb agent."""
    _can_unload: ClassVar[bool] = False
    """Whether a long session may unload an idle object of exactly this class and create it again.
    """
    _can_restore: ClassVar[bool] = True
    """Whether it can be created from a dump file: not if the file would name code to run."""

    def __init__(
        self,
        session: Session,
        system_prompt: str | None = None,
        init_prompt: Sequence[Mapping[str, Any]] | None = None,
        *,
        runtime: AgentRuntime | None = None,
    ) -> None:
        """Allocate an agent id in the session. The caller logs the birth with `log_birth(agent)`.

        The system prompt is held back until then. `init_prompt` is a transcript to start from:
        messages of this session, known by their `message_id`, are not logged again; others are.
        Its system prompt gives way to the agent's own; a call in it that has no result gets one
        that says so. Raises ValueError where it is no transcript.
        """
        runtime = runtime or AgentRuntime()
        if type(self) is Agent:
            default = get_agent_class(SMART, runtime.library)
            self.__class__ = default
            default.__init__(self, session, system_prompt, init_prompt, runtime=runtime)
            return
        initial = complete_transcript(init_prompt or (), own_system=system_prompt is not None)
        self._bind(session, session.allocate_agent_id(), runtime)
        self._initial += initial
        if system_prompt is not None:
            session.defer_messages(self.agent_id, [Message("system", str(system_prompt))])

    @classmethod
    def _from_state(cls, session: Session, state: AgentState, runtime: AgentRuntime) -> Self:
        """Create the object of an agent whose birth is in the log already."""
        agent = cls.__new__(cls)
        agent._load_spec(state)
        agent._bind(session, state.id, runtime)
        agent._load_state(state)
        return agent

    def _load_spec(self, state: AgentState) -> None:
        """Read from the birth what `_set_up` needs."""

    def _load_state(self, state: AgentState) -> None:
        """Restore the state that the log has of this agent besides its transcript."""

    def _bind(self, session: Session, agent_id: AgentId, runtime: AgentRuntime) -> None:
        """Bind the object to its identity in the session."""
        self.session = session
        self.agent_id = agent_id
        self.runtime = runtime
        self._initial: list[Mapping[str, Any]] = []
        self._birth_spec = AgentSpec()
        """Members that the birth records besides `_spec()`; the creator of the agent may add to
        them."""
        self._question_lock = LoopLock()
        """A lock that allows one hook question at a time."""
        self._turn_lock = TurnLock()
        self._unread_results: list[TranscriptEntry] = []
        """Answers of subagents that a trigger woke, received at the next safe point."""
        session.live[agent_id] = self
        self._set_up()

    def _set_up(self) -> None:
        """Set up an object, new or revived, before any state is restored.

        An agent made again from the log is not constructed anew: what a subclass needs is set
        here, not in `__init__`.
        """

    def _spec(self) -> AgentSpec:
        """Return the spec that the birth records."""
        return AgentSpec(kind=self._kind_name)

    @property
    def _kind_name(self) -> str:
        return kind_name(type(self), self.runtime.library)

    @property
    def _language_model(self) -> str | None:
        """The name of the model that decides for this agent, or None for a dumb agent."""
        return None

    def _check_kind(self) -> None:
        """Raise TypeError if a resume would not make an agent of this class."""
        if type(self) is not Agent:
            check_registered(type(self), self._kind_name, self.runtime.library)

    def _log_initial_transcript(self) -> None:
        """Log the initial transcript: messages that are in the log by reference, others in full."""
        initial, self._initial = self._initial, []
        begin_with(self.session, self.agent_id, initial)

    def _own_entries(self) -> list[TranscriptEntry]:
        return self.state.transcript or []

    @property
    def state(self) -> AgentState:
        """The agent's state as folded from the log. Raises NotBorn before its birth is logged."""
        if not is_born(self):
            raise NotBorn(self.agent_id, type(self).__name__)
        state = self.session.agent(self.agent_id)
        if self._initial:  # its birth was logged by `Session.log_agent_created`
            self._log_initial_transcript()
        return state

    @property
    def name(self) -> str:
        """The agent's name, or its id if it has no name."""
        state = self.session.agents.get(self.agent_id)
        return (state.name if state is not None else None) or self.agent_id

    @property
    def transcript(self) -> list[dict[str, Any]]:
        """The context that its model would read now, as message dicts with ids, oldest first."""
        if not is_born(self):
            return [dict(message) for message in self._initial]
        return [message_dict(message) for message in current_messages(self.state)]

    @property
    def subagents(self) -> Mapping[str, Agent]:
        """The live subagents by name (by id if unnamed), in order of birth.

        An agent is loaded when it is looked up. An unknown name raises NameNotFound with the names
        that exist.
        """
        return _Subagents(self)

    @property
    def hooks(self) -> list[Agent]:
        """The hooks that watch this agent, in the order in which they are asked.

        Hooks that the agent installed itself come first.
        """
        return [get_agent(self, id_) for id_ in order_hooks(self.session.agents, self.state)]

    def harken(self, input: str) -> None:
        """Add a user message to the transcript and log it.

        What the input represents (`input.message_id`, where it is a LoggedString) becomes the
        entry's substance. Calls that were cut off get their result first. A line that begins as a
        hook's comment does gets a backslash: only hooks speak as hooks. Raises TypeError for an
        input that is no str, NotBorn before the agent's birth is logged, AgentBusy in the middle of
        a turn: between a call and its result, or a request and its answer, a message would be out
        of place.
        """
        check_free(self)
        self._receive(input)

    def _receive(self, input: str) -> None:
        """Add a user message, also at the start of a turn."""
        check_text(input, f"the input of {self.name}")
        self._close_open_calls()
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
        name = type(self).__name__
        raise ConfigError(f"{name} has no `response`: derive it from SmartAgent or DumbAgent")

    def inform(self, dst: Agent, txt: str) -> None:
        """Send a text, with the id of the message that it represents, to another agent."""
        if not isinstance(dst, Agent):
            raise TypeError(f"inform(dst, txt): dst must be an Agent, not {dst!r}")
        dst.harken(txt)

    def install(self, agent: Agent, name: str | None = None, *, cause: Cause = None) -> Self:
        """Install this hook on an agent. The birth names `cause`, or the birth of the agent.

        Existing subagents of the agent get copies now, later subagents at their birth. All these
        births are one group of events: if one fails, none is logged. Raises TypeError for an
        unregistered class and for a hook without `judge`, before anything is logged.
        """
        if not isinstance(agent, Agent):
            raise TypeError(f"install(agent): agent must be an Agent, not {agent!r}")
        with self.session.group():
            log_birth(self, cause or agent.state.birth, name or self._kind_name, "hook")
            self._copy_to_subagents(agent)
        return self

    def _copy_to_subagents(self, agent: Agent) -> None:
        """Install copies on the agents below the watched agent. A self-made hook is not copied.

        The copies are processed in a queue, not recursively, so the depth of the tree is not
        limited by Python's stack.
        """
        pending: list[tuple[Agent, Agent]] = (
            [] if self.state.spec.standing.is_made else [(self, agent)]
        )
        for hook, watched in pending:  # the loop extends it
            pending += hook._copy_to_children(watched)

    def _copy_to_children(self, watched: Agent) -> list[tuple[Agent, Agent]]:
        """Install missing copies on the agents directly below. Return them with their agents."""
        copies: list[tuple[Agent, Agent]] = []
        for agent_id in guarded_agents(self.session.agents, watched.state):
            agent = get_agent(self, agent_id)
            hooks = agent.hooks
            if self._original_id not in {hook._original_id for hook in hooks}:
                copy = self._logged_copy_for(agent)
                if copy is not None:
                    name = free_name(self.name, [hook.name for hook in hooks])
                    log_birth(copy, agent.state.birth, name, "hook")
                    copies.append((copy, agent))
        return copies

    @property
    def _original_id(self) -> AgentId:
        """The id of the hook that this hook is a copy of, or its own id if it is no copy."""
        return self.state.spec.original or self.agent_id

    def _logged_copy_for(self, agent: Agent, *, below: bool = True) -> Agent | None:
        """Return a copy of this hook for another agent, or None if that agent gets no copy.

        below: the agent is a subagent of the watched agent; otherwise it takes the watched agent's
        place and is watched even by hooks that skip subagents. Points and the subagents setting are
        inherited.
        """
        spec = self.state.spec
        copy = self._copy_for(agent) if spec.is_for_subagents or not below else None
        if copy is not None:
            copy._birth_spec = copy._birth_spec.merge(spec.inherited_by_copy(self._original_id))
        return copy

    def _copy_for(self, agent: Agent) -> Agent | None:
        """Return a new hook for a new subagent of the watched agent, or None for no hook.

        An agent that became a hook only by a move watches a single agent. `Hook.copy_for` is the
        public form.
        """
        return None

    @property
    def _is_busy(self) -> bool:
        """Whether the agent has activity or data in memory that the log does not show."""
        is_locked = (
            self._turn_lock.is_waited_for
            or not self._turn_lock.is_open
            or self._question_lock.is_locked
        )
        return bool(is_locked or self._unread_results or self._initial)

    @property
    def _is_in_log(self) -> bool:
        """Whether the object can be unloaded, because the log has all of its state.

        The class declares this for itself with `_can_unload`; subclasses do not inherit it.
        """
        return bool(vars(type(self)).get("_can_unload")) and not self._is_busy

    def _has_unjudged_answer(self) -> bool:
        """Whether its last answer waits for the verdicts of hooks."""
        return False

    async def _finish_open_calls(self) -> None:
        """Give interrupted calls a result before the next input.

        Raises AgentBusy in the middle of a turn, where calls are under way.
        """
        self._close_open_calls()

    def _close_open_calls(self) -> None:
        """Give every call without a result a result that says it was interrupted."""
        for call in list(self.state.open_calls.values()):
            self._close_call(call)

    def _close_call(self, call: OpenCall) -> MessageId:
        """Give a call without a result a result that says how far it had come."""
        is_begun = call.is_started or call.reference in self.session.state.rounds
        is_begun = is_begun or call.id.startswith(CODE_CALL_PREFIX)
        if is_begun:
            note = call_runner().describe_interrupted_call(self, call)
            text = texts.INTERRUPTED.format(call.name) + note
        else:
            text = texts.GIVEN_UP.format(call.name)
        return self.session.append(
            TranscriptEntry(
                agent_id=self.agent_id,
                role="tool",
                content=text,
                tool_call_id=call.id,
                name=call.name or UNNAMED,
                is_error=True,
                closed="interrupted" if is_begun else "not_run",
            )
        )


class _Subagents(Mapping[str, Agent]):
    """The subagents of an agent by name. An agent is loaded when it is looked up."""

    def __init__(self, parent: Agent) -> None:
        self._parent, self._ids = parent, subagent_ids(parent)

    def __getitem__(self, name: str) -> Agent:
        if name not in self._ids:
            raise NameNotFound("subagent", name, self._ids)
        return get_agent(self._parent, self._ids[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, name: object) -> bool:
        return name in self._ids

    def get(self, name: str, default: Any = None, /) -> Any:
        """Return a subagent, or `default` if there is none of this name."""
        return self[name] if name in self._ids else default

    def __repr__(self) -> str:
        return f"<subagents: {', '.join(self._ids) or 'none'}>"


@check_arguments
def log_birth(
    agent: Agent, cause: Cause = None, name: str | None = None, relation: Relation | None = None
) -> MessageId:
    """Log the birth of an agent, with its spec; its system prompt and first messages follow.

    Raises TypeError for a class that was not registered: a resume would not find it.
    """
    agent._check_kind()
    spec = birth_spec(agent)
    with agent.session.group():
        birth = agent.session.log_agent_created(
            agent.agent_id,
            cause,
            name,
            agent._language_model,
            relation=relation,
            spec=spec.with_points() if relation == "hook" else spec,
        )
        agent._log_initial_transcript()
        if relation == "hook":
            agent._update_duty(is_hook=True, points=agent.state.spec.standing.points)
    return birth


def birth_spec(agent: Agent) -> AgentSpec:
    """Return the spec that the birth of an agent records, before it is logged."""
    return agent._spec().merge(agent._birth_spec)


def subagent_ids(agent: Agent) -> dict[str, AgentId]:
    """Return the ids of the live subagents by name (by id if unnamed), in order of birth."""
    agents = agent.session.agents
    return {agents[id_].name or id_: id_ for id_ in agent.state.subagents}


def is_born(agent: Agent) -> bool:
    """Whether the birth of an agent is in the log."""
    return agent.agent_id in agent.session.agents


def is_to_be_self_made(agent: Agent) -> bool:
    """Whether the birth of an agent, not logged yet, will mark it as self-made."""
    return agent._birth_spec.standing.is_made


def check_free(agent: Agent) -> None:
    """Raise AgentBusy if an agent is in the middle of a turn and cannot receive input."""
    if agent._turn_lock.busy:
        raise AgentBusy(agent.name)


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
    kind = get_agent_class(state.spec.kind or SMART, runtime.library)
    agent: Agent = kind._from_state(session, state, runtime)
    return agent


def get_agent(member: Agent, agent_id: str) -> Agent:
    """Return an agent of the session of `member`, revived if it is not in memory.

    Raises NameNotFound.
    """
    return load_agent(member.session, agent_id, member.runtime)


@check_arguments
def unload_agent(session: Session, agent_id: str) -> None:
    """Drop an agent from memory, object and transcript. It is revived on the next access."""
    session.evict(agent_id)
    session.live.pop(AgentId(agent_id), None)
