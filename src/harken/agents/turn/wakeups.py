"""`TriggerListener`: what happens outside becomes a message of the agent that asked for it.

It is logged at once, as a piece of text with the call that asked for it as its cause, and heard at
the next safe point: at the beginning of a turn, or between two of its steps. An agent that is in no
turn is woken. What it answers is told to its parent in the same way, at a safe point of the parent,
which is woken in its turn, up to the primary agent, whose answer the user hears.

So what a crash cuts off is in the log: what was not heard is heard after a resume, and an agent
whose parent has not heard its answer is asked once more, which repeats nothing that it has done.

Source: docs/explanation/events.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from typing import TypeAlias

from harken.agents.agent import Agent, load_agent
from harken.agents.dumb_agent import DumbAgent
from harken.agents.runtime import AgentRuntime
from harken.core.events import AgentConfigured, AgentMoved, Event, PieceOfText, TranscriptEntry
from harken.core.ids import AgentId, MessageId
from harken.core.logged_string import LoggedString
from harken.core.messages import text_of
from harken.errors import InvalidEvent, LogError
from harken.session.session import Session
from harken.world.result import ToolError
from harken.world.triggers.base import TriggerEvent, TriggerSource
from harken.world.triggers.file_watch import Own
from harken.world.triggers.sources import Sources
from harken.world.triggers.timer import TriggerClock
from harken.world.triggers.trigger import AnyArmed, armed_in, log_armed

Key: TypeAlias = tuple[AgentId, str, str]
"""An agent, the name of its trigger, and the call that armed it."""
UNHEARD = 3
"""So many happenings of one trigger may wait for their agent; later ones are summed up then."""
_LOOK_S = 0.5


class TriggerListener:
    """Of one session: the sources that are open, and the turns of the agents that they wake.

    The primary agent is not woken here: whoever talks with it lets it answer, see `Conversation`.
    """

    def __init__(self, session: Session, runtime: AgentRuntime) -> None:
        """Prepare it; `open` begins."""
        self.session, self.runtime = session, runtime
        self.stirred = asyncio.Event()
        """Set whenever something may be different; whoever waits for it clears it."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watching: dict[Key, asyncio.Task[None]] = {}
        self._turns: dict[AgentId, asyncio.Task[None]] = {}
        self._tried: dict[AgentId, Collection[MessageId]] = {}
        """What an agent had not heard when it failed: that alone is no reason to try again."""
        self._failure: BaseException | None = None
        session.add_listener(self._hear)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Listen until the end of the block, in tasks of the running loop."""
        sources = self.runtime.world.sources
        self._loop, self.stirred = asyncio.get_running_loop(), asyncio.Event()
        if sources is not None:
            sources.listening = True
        state = self.session.state
        for agent_id in list(state.pending_reports):  # a crash has kept its answer from its parent
            if state.is_live(agent_id) and agent_id != state.primary:
                self._begin_turn(agent_id, is_owed=True)
        self._stir()
        try:
            yield
        finally:
            self._loop = None
            await _ended([*self._watching.values(), *self._turns.values()])
            if sources is not None:
                await sources.close()

    @property
    def is_busy(self) -> bool:
        """Whether something may come without anybody saying a thing."""
        has_armed = self.runtime.world.sources is not None and armed_triggers(self.session)
        return bool(self._turns or has_armed or self._with_news())

    def check(self) -> None:
        """Raise what no turn should raise: a log that fails, a bug."""
        if self._failure is not None:
            raise self._failure

    def _hear(self, event: Event) -> None:
        """Take note of what may change what is to be done; in any thread."""
        loop = self._loop
        changes = isinstance(event, (AgentConfigured, AgentMoved)) or (
            isinstance(event, PieceOfText) and event.trigger is not None
        )
        if changes and loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._stir)

    def _stir(self) -> None:
        """Open what is armed, close what is not, and wake who has news."""
        if self._loop is None:
            return
        try:
            self._follow(armed_triggers(self.session))
            for agent_id in self._with_news():
                self._begin_turn(agent_id)
            self._stop_the_gone()
        except Exception as error:  # noqa: BLE001 - raised by `check`: this is nobody's turn
            self._fail(error)
        self.stirred.set()

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self.stirred.set()

    def _follow(self, armed: dict[Key, AnyArmed]) -> None:
        """Have a source for what is armed, and for nothing else."""
        sources = self.runtime.world.sources
        for key in self._watching.keys() - armed.keys():
            self._watching.pop(key).cancel()
        for key, one in armed.items() if sources is not None else ():
            if key not in self._watching and sources is not None:
                self._watching[key] = asyncio.create_task(self._watch(sources, key, one))

    async def _watch(self, sources: Sources, key: Key, armed: AnyArmed) -> None:
        """Tell of all that one source tells of, until it is over."""
        agent_id, name, _ = key
        last = self.session.agents[agent_id].trigger_states.get(name)
        try:
            if last is None or not armed.is_once:  # else only this was cut off
                make = partial(sources.source, armed, agent_id, last)
                await self._tell_all(make, sources.alarm, key, armed)
            self._disarm(key, armed)
        except Exception as error:  # noqa: BLE001 - as in `_stir`
            self._fail(error)
        finally:
            if self._watching.get(key) is asyncio.current_task():
                del self._watching[key]
            self.stirred.set()

    async def _tell_all(
        self, make: Callable[[Own], TriggerSource], alarm: TriggerClock, key: Key, armed: AnyArmed
    ) -> None:
        """Make a source, and log what it tells, as often as its agent can bear."""
        told: list[MessageId] = []
        try:
            source = make(partial(self._own, key[0]))
            async with source.open():
                is_over = False
                while not is_over:
                    happening = await source.wait()
                    told.append(self._happened(key, armed, happening))
                    is_over = happening.is_last
                    if not is_over:
                        await alarm.pause(source.pause_s)
                        await self._heard(key[0], told)
        except ToolError as error:
            self._happened(key, armed, TriggerEvent(text=f"nothing more will be told: {error}"))

    async def _heard(self, agent_id: AgentId, told: list[MessageId]) -> None:
        """Return when an agent has heard most of what it was told."""
        while True:
            unheard = self.session.agents[agent_id].undelivered
            told[:] = [piece for piece in told if piece in unheard]
            if len(told) < UNHEARD:
                return
            await asyncio.sleep(_LOOK_S)

    def _happened(self, key: Key, armed: AnyArmed, happening: TriggerEvent) -> MessageId:
        """Log what happened; return its piece."""
        agent_id, name, _ = key
        note = f"\nYou noted: {armed.note}" if armed.note else ""
        piece = PieceOfText(
            agent_id=agent_id,
            content=f"[event {name}] {happening.text}{note}",
            cause=armed.cause,
            trigger=name,
            seen=happening.seen,
        )
        try:
            self.session.append(piece)
        except InvalidEvent:  # it was armed in another session
            piece.cause = self.session.agents[agent_id].birth
            self.session.append(piece)
        self.session.sync()
        if happening.on_logged is not None:
            happening.on_logged()
        return piece.message_id

    def _disarm(self, key: Key, armed: AnyArmed) -> None:
        """Log that a trigger is over."""
        agent = self._agent(key[0])
        triggers = dict(agent.state.spec.get("triggers") or {})
        if armed_triggers(self.session, [agent.agent_id]).get(key) is not None:
            del triggers[key[1]]
            log_armed(agent, triggers, self.session.agents[key[0]].birth)

    def _own(self, agent_id: AgentId, names: Collection[str]) -> Collection[str]:
        """Return which of these files an agent knows as they are now."""
        agent, known = self._agent(agent_id), self.runtime.world.known
        mine, changed = known.of(agent), known.changed(agent)
        return [name for name in names if name in mine and name not in changed]

    def _agent(self, agent_id: AgentId) -> Agent:
        return load_agent(self.session, agent_id, self.runtime)

    def _with_news(self) -> list[AgentId]:
        """Return the agents that are to be woken."""
        state = self.session.state
        return [
            id_
            for id_ in state.agents
            if id_ != state.primary
            and (news := news_of(self.session, id_))
            and not news <= set(self._tried.get(id_, ()))
            and state.is_live(id_)
        ]

    def _stop_the_gone(self) -> None:
        """Cut off the turns of agents that were terminated."""
        for id_, turn in self._turns.items():
            if not self.session.state.is_live(id_):
                turn.cancel()

    def _begin_turn(self, agent_id: AgentId, *, is_owed: bool = False) -> None:
        if agent_id not in self._turns:
            self._turns[agent_id] = asyncio.create_task(self._turn(agent_id, is_owed=is_owed))

    async def _turn(self, agent_id: AgentId, *, is_owed: bool) -> None:
        """Let an agent answer what it has not heard, and let its parent know."""
        name = self.session.agents[agent_id].name or agent_id
        try:
            agent = self._agent(agent_id)
            await agent.gate.opened()
            news = news_of(self.session, agent_id)  # it may have heard all in a turn meanwhile
            if (news or is_owed) and agent_id != self.session.state.primary:
                self._tried[agent_id] = news
                self._tell_parent(agent, await self._answer(agent))
        except LogError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 - the border: nobody waits for this turn
            self.runtime.notify(f"{name} was woken and could not answer: {error}")
        finally:
            del self._turns[agent_id]
            self._stir()

    async def _answer(self, agent: Agent) -> LoggedString:
        """Let an agent take its turn; where it has answered already, return that."""
        if isinstance(agent, DumbAgent) and not agent.has_news and not agent.has_open_calls:
            last = (agent.state.transcript or [])[-1]
            return LoggedString(text_of(last.content), last.message_id)
        is_hook = agent.state.place == "hook"  # then it is asked nothing meanwhile
        async with agent.asking.here() if is_hook else nullcontext():
            with agent.gate.by_event():
                return await agent.response()

    def _tell_parent(self, agent: Agent, said: LoggedString) -> None:
        """Let the agent above hear an answer that nobody waited for, when it can."""
        state = agent.state
        if state.parent is None or agent.agent_id not in self.session.state.pending_reports:
            return
        if state.place == "hook":
            text, substance, cause = f"[hook {agent.name}]: {said}", None, said.message_id
        else:
            text, substance, cause = said.as_said_by(agent.name), said.message_id, None
        told = TranscriptEntry(
            agent_id=state.parent, role="user", content=str(text), substance=substance, cause=cause
        )
        self._agent(state.parent).news.append(told)


def armed_triggers(session: Session, only: Iterable[AgentId] | None = None) -> dict[Key, AnyArmed]:
    """Return the triggers of agents (None: of all) that live."""
    state = session.state
    return {
        (id_, name, armed.call): armed
        for id_ in (state.agents if only is None else only)
        if state.agents[id_].spec.get("triggers") and state.is_live(id_)
        for name, armed in armed_in(state.agents[id_].spec).items()
    }


def news_of(session: Session, agent_id: AgentId) -> set[MessageId]:
    """Return what an agent has not heard: pieces, and what its subagents say of theirs."""
    agent = session.live.get(agent_id)
    told = agent.news if isinstance(agent, Agent) else ()
    links = (entry.substance or entry.cause for entry in told)
    return {*session.agents[agent_id].undelivered, *(MessageId(str(link)) for link in links)}


async def _ended(tasks: Collection[asyncio.Task[None]]) -> None:
    """Cancel tasks, and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
