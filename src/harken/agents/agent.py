"""`Agent`: something that hears and answers.

An agent is an identity in a session and nothing more that lasts: its transcript, its place and
its subagents are read from the session's state, which the log rebuilds. So an agent object can
be dropped and made again at any time without anyone noticing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from harken.agents.agent_classes import check_points, check_registered, get_agent_class
from harken.agents.guards import MADE, SELF_MADE, guarded, is_guard, is_made
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
from harken.core.arguments import check_arguments, check_text
from harken.core.commits import Checkpoint, CommitId
from harken.core.events import (
    AgentConfigured,
    Cause,
    Relation,
    TranscriptEntry,
)
from harken.core.ids import AgentId, MessageId
from harken.core.logged_string import LoggedString
from harken.core.messages import ChatMessage, Message, text_of
from harken.core.untrusted import from_outside
from harken.core.verdict import POINTS, HookPoint, HookQuestion, Verdict, verdict_in
from harken.errors import ConfigError, NameNotFound, NotBorn
from harken.session.fold import context_now
from harken.session.session import Session
from harken.session.state import AgentState, OpenCall
from harken.world.loop_lock import LoopLock

UNASKED = ("[hook ", "[the user did this: ")
"""How that begins which wants no answer. Of what came from a commit, nothing else says so."""


@check_arguments
class Agent:
    """The interface of every agent: `harken(input)`, `await response()`, `inform(dst, txt)`."""

    kind: ClassVar[str] = "agent"
    """What the birth calls it: `smart`, or the registered name of a dumb agent."""
    can_unload: ClassVar[bool] = False
    """Whether a long session may let go of an idle object of just this class, and make it anew."""
    points: ClassVar[frozenset[HookPoint]] = POINTS
    """Where it is asked while it stands as a hook, unless its spec says so."""
    can_restore: ClassVar[bool] = True
    """Whether it can be made anew from what a file says of it: not where that is code to run."""

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
        """Get an id from the session; whoever makes the agent logs its birth (`log_birth`).

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
        """Make the object for an agent that was born before."""
        agent = cls.__new__(cls)
        agent.load_spec(state)
        agent.bind(session, state.id, runtime)
        agent.restore(state)
        return agent

    def load_spec(self, state: AgentState) -> None:
        """Take from a birth what `begin` rests on."""

    def restore(self, state: AgentState) -> None:
        """Take back what the log knows of this agent beside its transcript."""

    def bind(self, session: Session, agent_id: AgentId, runtime: AgentRuntime) -> None:
        """Bind the object to its identity in the session."""
        self.session = session
        self.agent_id = agent_id
        self.runtime = runtime
        self._initial: list[Mapping[str, Any]] = []
        self.born_with: dict[str, Any] = {}
        """What its birth says besides its `spec`; whoever makes the agent may add to it."""
        self.asking = LoopLock()
        """Held while it is asked as a hook: one question at a time."""
        self.gate = TurnLock()
        self.news: list[TranscriptEntry] = []
        """What subagents say of what woke them: it hears it when it can."""
        session.live[agent_id] = self
        self.begin()

    def begin(self) -> None:
        """Set up an object, new or revived, before any state is restored.

        An agent made again from the log is not constructed anew: what a subclass needs is set
        here, not in `__init__`.
        """

    def spec(self) -> dict[str, Any]:
        """Return what the birth records of this agent beside its name and model."""
        return {"kind": self.kind}

    @property
    def language_model(self) -> str | None:
        """The name of the model that decides for it; None for a dumb agent."""
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
            spec={**self.spec(), **self.born_with},
        )
        self.log_initial_transcript()
        return birth

    def check_kind(self) -> None:
        """Raise TypeError if a resume would not make an agent of this class."""
        if type(self) is not Agent:
            check_registered(type(self), self.kind, self.runtime)

    def set_initial_transcript(self, initial: Sequence[Mapping[str, Any]]) -> None:
        """Start, when its birth is logged, from a transcript that is whole."""
        self._initial += initial

    def log_initial_transcript(self) -> None:
        """Begin with the initial transcript: by reference where it is in the log, else in full."""
        initial, self._initial = self._initial, []
        begin_with(self.session, self.agent_id, initial)

    def _own_entries(self) -> list[TranscriptEntry]:
        return self.state.transcript or []

    @property
    def state(self) -> AgentState:
        """What the log says of this agent. Raises NotBorn before its birth is logged."""
        self.check_born()
        state = self.session.agent(self.agent_id)
        if self._initial:  # its birth was logged by `Session.log_agent_created`
            self.log_initial_transcript()
        return state

    @property
    def is_born(self) -> bool:
        """Whether the log has its birth."""
        return self.agent_id in self.session.agents

    def check_born(self) -> None:
        """Raise NotBorn if the log does not have its birth yet."""
        if not self.is_born:
            raise NotBorn(self.agent_id, type(self).__name__)

    @property
    def name(self) -> str:
        """Its name, its id where it has none."""
        known = self.session.agents.get(self.agent_id)
        return (known.name if known is not None else None) or self.agent_id

    @property
    def transcript(self) -> list[dict[str, Any]]:
        """What its model would read now, as message dicts (with ids), oldest first."""
        if not self.is_born:
            return [dict(message) for message in self._initial]
        return [message_dict(message) for message in context_now(self.state)]

    @property
    def subagents(self) -> dict[str, Agent]:
        """Its living subagents by name (by id where they have none), in order of birth."""
        return {name: self.agent_by_id(agent_id) for name, agent_id in self.subagent_ids.items()}

    @property
    def subagent_ids(self) -> dict[str, AgentId]:
        """The same as ids: nobody is revived for it."""
        agents = self.session.agents
        return {agents[id_].name or id_: id_ for id_ in self.state.subagents}

    @property
    def hooks(self) -> list[Agent]:
        """The hooks that watch it, in the order in which they are asked.

        Those that it put there itself come first, see `self_made`.
        """
        return [self.agent_by_id(agent_id) for agent_id in self.hook_ids]

    @property
    def hook_ids(self) -> list[AgentId]:
        """The same as ids: nobody is revived for it."""
        agents = self.session.agents
        return sorted(self.state.hooks, key=lambda id_: is_guard(agents[id_].spec))

    def agent_by_id(self, agent_id: str) -> Agent:
        """Return another agent of the same session, revived where it is not in memory.

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
            content=from_outside(str(input)),
            substance=getattr(input, "message_id", None),
        )
        self.session.append(event)

    async def response(self, input: str | None = None) -> LoggedString:
        """Answer what was heard; with `input`, hear it first.

        Returns the final text with the id of its message. Raises ModelError where a model call
        fails, LogWriteError where the log cannot be written; both leave the session resumable.
        """
        raise ConfigError(f"{self.name} is a plain Agent: make a SmartAgent or a DumbAgent")

    def inform(self, dst: Agent, txt: str) -> None:
        """Let another agent hear a text, with whatever it represents."""
        if not isinstance(dst, Agent):
            raise TypeError(f"inform(dst, txt): dst must be an Agent, not {dst!r}")
        dst.harken(txt)

    @property
    def hook_points(self) -> frozenset[HookPoint]:
        """Where it is asked while it stands as a hook."""
        own = self.state.spec.get("points")
        return self.points if own is None else POINTS & frozenset(own)

    def should_ask(self, question: HookQuestion) -> bool:
        """Whether it wants to be asked this; what it does not is as if it were OK, and not logged.

        For a hook that seldom has something to say. One that raises here is asked.
        """
        return True

    async def judge_question(
        self, question: HookQuestion, asked: MessageId
    ) -> tuple[Verdict, MessageId]:
        """Return the verdict on a question that it has heard, with the message that says so.

        By default its answer is read as one. Raises UnparsableVerdict where it is none.
        """
        said = await self.response()
        return verdict_in(str(said), question.point), said.message_id or asked

    def after_verdict(self) -> None:
        """Do what is due now that a verdict was given, or failed. Done once, it does nothing."""

    def install(self, agent: Agent, name: str | None = None) -> Self:
        """Begin to watch an agent: the birth names the agent's own birth as its cause.

        Those who stand below it already get copies, as those will who come. Raises TypeError for a
        class that was not registered, and for a hook without `judge`: nothing was logged then.
        """
        if not isinstance(agent, Agent):
            raise TypeError(f"install(agent): agent must be an Agent, not {agent!r}")
        self.install_with_copies(agent, name or self.kind, agent.state.birth)
        return self

    def install_with_copies(self, agent: Agent, name: str, cause: Cause) -> None:
        """Log the birth of a hook of an agent, then give copies to those who stand there already.

        The birth says whom it reaches.
        """
        self.log_hook_birth(agent, name, cause)
        self.copy_to_subagents()

    def log_hook_birth(self, agent: Agent, name: str, cause: Cause) -> None:
        """Log the birth of a hook of an agent. A hook that the agent made reaches nobody."""
        if not is_made(self.born_with) and (reached := guarded(self.session.agents, agent.state)):
            self.born_with["reaches"] = list(reached)
        self.log_birth(cause, name, "hook")

    def copy_to_subagents(self) -> None:
        """Give copies to those whom its birth names; where a crash ended that, to the others.

        So do its copies, in a row: the depth of a tree is not that of Python's stack.
        """
        waiting: list[Agent] = [self]
        for hook in waiting:  # grows
            waiting += hook.copy_to_children()

    def copy_to_children(self) -> list[Agent]:
        """Give copies to those whom its birth names and who have none; return the copies."""
        made: list[Agent] = []
        if not self.state.spec.get("reaches"):
            return made
        for agent in map(self.agent_by_id, self.state.spec["reaches"]):
            there = agent.hooks
            if self.original_id not in {hook.original_id for hook in there}:
                copy = self.logged_copy_for(agent)
                if copy is not None:
                    called = free_name(self.name, [hook.name for hook in there])
                    copy.log_hook_birth(agent, called, agent.state.birth)
                    made.append(copy)
        self.session.append(AgentConfigured(agent_id=self.agent_id, spec={"reaches": []}))
        return made

    @property
    def original_id(self) -> AgentId:
        """Which hook it is a copy of, in the end; itself, where it is none."""
        original: AgentId = self.state.spec.get("original") or self.agent_id
        return original

    def logged_copy_for(self, agent: Agent, *, below: bool = True) -> Agent | None:
        """Return a copy of this hook for an agent to be watched; None: it gets none.

        below: the agent stands below whom the hook watches; else it takes that one's place, and is
        watched even by hooks that leave subagents alone. What was said of the hook when it was put
        there, where it is asked for one, holds for its copies.
        """
        spec = self.state.spec
        copy = None if below and spec.get("subagents") is False else self.copy_for(agent)
        if copy is not None:
            copy.born_with |= {name: spec[name] for name in ("points", "subagents") if name in spec}
            copy.born_with |= {SELF_MADE: MADE} if is_made(spec) else {}
            copy.born_with["original"] = self.original_id
        return copy

    def copy_for(self, agent: Agent) -> Agent | None:
        """Return a new hook for a new subagent of whom it watches; None for no hook.

        An agent that only came to stand as a hook watches that one agent.
        """
        return None

    @property
    def can_talk(self) -> bool:
        """Whether it can answer, and not only judge: else it cannot take the place of one."""
        return True

    @property
    def has_news(self) -> bool:
        """Whether there is something that it has not heard: from outside, or of a subagent."""
        return bool(self.news or self.session.agents[self.agent_id].undelivered)

    @property
    def is_busy(self) -> bool:
        """Whether something is under way with it that its log does not say."""
        waited = self.gate.is_waited_for or not self.gate.is_open or self.asking.is_held
        return bool(waited or self.news or self._initial)

    @property
    def is_in_log(self) -> bool:
        """Whether the object may be let go by itself, since it keeps nothing that the log has not.

        Its class says so of itself (`can_unload`), not of those that derive from it.
        """
        return bool(vars(type(self)).get("can_unload")) and not self.is_busy

    def hear_news(self, most: int | None = None) -> list[TranscriptEntry]:
        """Hear what there is to hear, or the first so many of it; return the entries.

        For the beginning of a turn, and between two steps of one: where every call has its result.
        """
        happened = [
            TranscriptEntry(agent_id=self.agent_id, role="user", content=text, substance=piece)
            for piece, text in self.state.undelivered.items()
        ]
        heard = (happened + self.news)[:most]
        self.news = self.news[max(0, len(heard) - len(happened)) :]
        self.session.append_all(heard)
        return heard

    @property
    def has_open_calls(self) -> bool:
        """Whether it owes an answer: a crash, an error or a cancellation ended its last turn.

        `await response()` without input goes on with that turn.
        """
        for message in reversed(self.session.context(self.agent_id)):
            if message.role != "user" or not asks_nothing(message):
                return message.role in ("user", "tool") or bool(self.state.open_calls)
        return False  # nothing but what hooks said

    def check_free(self) -> None:
        """Raise AgentBusy where it is in the middle of a turn and can hear nothing now."""

    async def finish_calls(self) -> None:
        """Give calls that were cut off a result, before the agent hears anything else.

        Raises AgentBusy in the middle of a turn, where calls are under way.
        """
        self.close_open_calls()

    def close_open_calls(self) -> None:
        """Give every call without a result one that says that it was cut off."""
        for call in list(self.state.open_calls.values()):
            self.close_call(call)

    def checkpoint(self, trigger: Checkpoint = "explicit", summary: str = "") -> CommitId | None:
        """Commit what it understands now; return its last commit, None: there is no store.

        Raises StoreError; the session can go on, and nothing is lost.
        """
        checkpoints = self.runtime.checkpoints
        if checkpoints is None:
            return None
        return checkpoints.take(self.session, self.agent_id, trigger, summary)

    def checkpoint_if_due(self, trigger: Checkpoint) -> None:
        """Take the checkpoint of an event where one is due; a store that refuses stops nobody."""
        checkpoints = self.runtime.checkpoints
        if checkpoints is not None:
            checkpoints.keep(self.session, self.agent_id, trigger, self.runtime.notify)

    def is_retryable(self, call: OpenCall) -> bool:
        """Whether a call that was cut off may simply be run again."""
        return False

    def interruption_note(self, call: OpenCall) -> str:
        """Return what more is known of a call that was cut off."""
        return ""

    def close_call(self, call: OpenCall) -> MessageId:
        """Give a call without a result one that says that it was cut off."""
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
    """Return the agent with this id: the one in memory, else made again from the log.

    Terminated agents can be revived too, to be read or asked. Raises NameNotFound for an id that
    was never born, and for a kind that nobody registered.
    """
    live = session.live_agent(AgentId(agent_id))
    if isinstance(live, Agent):
        return live
    state = session.agent(agent_id)
    kind = get_agent_class(state.spec.get("kind", "smart"), runtime)
    agent: Agent = kind.from_state(session, state, runtime)
    return agent


@check_arguments
def unload_agent(session: Session, agent_id: str) -> None:
    """Drop an agent from memory, object and transcript; whoever needs it revives it."""
    session.evict(agent_id)
    session.live.pop(AgentId(agent_id), None)


def asks_nothing(message: ChatMessage) -> bool:
    """Whether what an agent heard wants no answer: a hook said it, or it is what the user did."""
    if isinstance(message, TranscriptEntry):
        return message.cause is not None
    return text_of(message.content).startswith(UNASKED)
