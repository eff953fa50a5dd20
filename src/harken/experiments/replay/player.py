"""Playing: a recorded session is done again, in a log of its own.

What came from outside is done again as it stands in the record: births, the user's words, new names
and models, what somebody changed by hand. What agents do has to come about by itself: nothing that
an agent made is ever copied. Where an event is not the recorded one, playing ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from harken.agents.action_schemas import BASIC
from harken.agents.agent import Agent, load_agent
from harken.agents.compaction_text import instructions_in
from harken.agents.initial_transcript import INTERRUPTED
from harken.agents.load import load_session
from harken.agents.runtime import AgentRuntime
from harken.agents.smart_agent import SmartAgent
from harken.agents.turn.interrupted import MAKING
from harken.agents.turn.model_call import LOST_USAGE
from harken.core import events as ev
from harken.core.ids import USER, AgentId, MessageId, reference_message_id
from harken.core.logged_string import LoggedString
from harken.core.messages import text_of
from harken.core.verdict import FAILED
from harken.errors import AgentBusy, ConfigError, HarkenError, InvalidEvent
from harken.experiments.replay.agent_events import COMPACTOR, AgentEventLists, kind_of
from harken.experiments.replay.played_world import PlayedWorld, templates_of
from harken.experiments.replay.progress import Crash, ReplayProgress
from harken.experiments.replay.recorded_agents import kinds_for
from harken.experiments.replay.recorded_model import INTERRUPTED as INTERRUPTED_CALL
from harken.experiments.replay.recorded_model import RecordedAnswers, RecordedModel
from harken.experiments.replay.recorded_world import recorded_actions
from harken.experiments.replay.triggered_turns import TriggeredTurns
from harken.llm.replay import ReplayLog
from harken.session.fold import Resolver
from harken.session.log.reader import events as read
from harken.session.session import Session, SessionOptions
from harken.views.links import Links
from harken.world.tool import Tool

_BY_HAND = ev.AgentConfigured | ev.AgentStateSaved | ev.ContextLoaded
"""What no agent does by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayExtras:
    """What whoever plays a session brings along."""

    kinds: Mapping[str, type[Agent]] = field(default_factory=dict)
    """Kinds of agents whose code runs, by the name that logs record; others are stand-ins."""
    tools: Sequence[Tool] = ()
    """Tools of which is known what they are like (`reads_only`, ...); none of them runs."""
    resolver: Resolver | None = None
    """Gives the messages of commits that agents started from."""


class Replayer:
    """A session while it is played again."""

    def __init__(self, events: Links, log: Path, own: ReplayExtras) -> None:
        """Get ready to play these events into `log`, which is new."""
        self._links, self.recorded = events, AgentEventLists.of(events)
        self.script = ReplayProgress(self.recorded, crash=self.crash)
        self.notes: list[str] = []
        """What went wrong, in words."""
        self.answers = _answers(events, self.recorded)
        self.answers.script, self.answers.stop = self.script, self.stop
        self.world = PlayedWorld(events, self.script)
        self._own, self._by_hand = own, self.recorded.by_hand()
        self._turn: asyncio.Task[object] | None = None
        self._answering: Agent | None = None
        self._crashed = False
        self._woken = TriggeredTurns(self.script, events, self._agent)
        self._offered: frozenset[str] = frozenset()
        self._actions = set(BASIC)
        """The structural actions that agents without a list were offered then."""
        self._options = SessionOptions(durability="none", resolver=own.resolver)
        self._templates = templates_of(events, self.recorded)
        self._runtime = AgentRuntime(
            model=RecordedModel(self.answers, _first_model(events)),
            models=lambda name: RecordedModel(self.answers, name),
            world=self.world,
            kinds=kinds_for(self.script, own.kinds),
            templates=self._templates,
            actions=self._actions,
            model_parameters=_parameters(self.recorded),
            on_notice=self.notes.append,
        )
        self.session = Session(log, options=self._options)
        self.session.add_listener(self._hear)

    async def play(self) -> None:
        """Do everything again, as far as it goes on as it did.

        Raises ConfigError where the commit that an agent began from is not at hand.
        """
        while not self.parted and (event := self.script.next()) is not None:
            if self._crashed:
                self._resume()
                continue
            try:
                await self._bring(event)
            except (AgentBusy, InvalidEvent, LookupError) as error:
                if isinstance(event, ev.ContextLoaded):
                    raise ConfigError(str(error)) from None
                self.notes.append(str(error))
            if not self.script.is_done(event):
                return

    @property
    def parted(self) -> bool:
        """Whether something happened otherwise than in the record."""
        return self.script.parted

    def stop(self) -> None:
        """Cut off the turn that runs."""
        turn = self._woken.own() or self._turn
        if turn is not None:
            turn.cancel()

    def crash(self) -> NoReturn:
        """End everything here: whoever acts at the same time can log nothing more."""
        self._crashed = True
        self.session.close()
        raise Crash

    def close(self) -> None:
        """Close the log. A second call does nothing."""
        self.session.close()

    def _hear(self, event: ev.Event) -> None:
        lane = self.script.hear(event)
        is_acting = self._turn is not None and not self._turn.done()
        if is_acting and not self.parted and lane and self._ended_here():
            self.crash()
        if isinstance(event, ev.AgentCreated) and lane:
            self._templates.shown = self.recorded.listing(self.recorded.first_tools(lane))
        coming = None if self._turn is None or self.parted else self.script.next()
        if isinstance(coming, ev.PieceOfText) and coming.trigger is not None:
            self._append(coming)  # something happened in the middle of this turn
        elif self._turn is not None and lane is not None and not self.parted:
            self._woken.look(lane, coming)

    async def _bring(self, event: ev.Event) -> None:
        """Do what came from outside, or let the agent act whose event it is."""
        match event:
            case ev.AgentCreated() if kind_of(event) == COMPACTOR:
                await self._compact(event)
            case ev.AgentCreated() if not self._is_of_a_call(event.cause):
                self._birth(event)
            case ev.TranscriptEntry() | ev.PieceOfText() if self._is_by_command(event):
                self._append(event)
            case ev.TranscriptEntry() if self._is_told(event):
                self._append(event)
            case ev.TranscriptEntry(role="tool") if self._is_open(event):
                self._resume()
            case ev.TranscriptEntry(role="user", cause=None) if event.agent_id != USER:
                self._say(event)
            case ev.TranscriptEdited() if not self._is_summed_up(event):
                self._append(event)
            case ev.AgentMoved() | ev.InterlocutorsSet() if not self._is_of_a_call(event.cause):
                self._append(event)
            case ev.MemoryOperation(cause=None) | ev.PieceOfText(trigger=str()):
                self._append(event)
            case _ if isinstance(event, _BY_HAND):
                self._append(event)
            case _:
                self._offer(event)
                agent = self._acting(event)
                await self._let(agent, agent.response())

    def _say(self, event: ev.TranscriptEntry) -> None:
        """Let an agent hear what it heard."""
        if not isinstance(event.content, str):
            self._append(event)
            return
        substance = None if event.substance is None else self._id(event.substance)
        agent = self._agent(event.agent_id)
        self._woken.drop(agent, substance)
        agent.harken(LoggedString(event.content, substance))

    async def _compact(self, birth: ev.AgentCreated) -> None:
        """Let the user ask for a summary, as then; or go on with a turn that begins with one."""
        lane = self.recorded.of_agent[birth.agent_id or AgentId("")]
        parent = self.recorded.parent(lane) or ""
        self._offer(birth)
        agent = self._agent(self.recorded.agents[parent])
        if not isinstance(agent, SmartAgent) or self.recorded.is_asked_next(parent, birth):
            await self._let(agent, agent.response())
            return
        entries = (e for e in self.recorded.events[lane] if isinstance(e, ev.TranscriptEntry))
        asked = [text_of(e.content) for e in entries if (e.role, e.cause) == ("user", None)]
        await self._let(agent, agent.compact(instructions_in(asked[-1]) if asked else ""))

    async def _let(self, agent: Agent, work: Coroutine[Any, Any, object]) -> None:
        """Let an agent act until it has done, has failed, or is cut off."""
        self._answering = agent
        turn = self._turn = asyncio.create_task(work)
        try:
            await asyncio.wait([turn])
            if not turn.cancelled():
                turn.result()
            await self._woken.settle(self._acting)
        except (Crash, HarkenError) as error:
            if not self._crashed:
                self.notes.append(str(error))
        finally:
            self._turn = None

    def _resume(self) -> None:
        """Go on after a crash, as whoever resumed the session did."""
        log = self.session.path
        self._woken.cancel()
        self.session.close()
        self._crashed = False
        _, self.session = load_session(log, runtime=self._runtime, options=self._options)
        self.script.again = AgentEventLists()
        for event in read(log):
            self._hear(event)
        self.session.add_listener(self._hear)

    def _offer(self, event: ev.Event) -> None:
        """Let agents see the tools that they saw then."""
        defined = self.recorded.tools_from(event)
        if frozenset(defined) != self._offered:
            self._offered = frozenset(defined)
            schemas = [schema for one in defined for schema in self.recorded.tools[one].tools]
            self.world.offer(schemas, self._own.tools)
            self._actions.clear()
            self._actions |= recorded_actions(schemas)
            self._templates.shown = self.recorded.listing(defined)
            self.session.live.clear()  # who was offered others is made again from the log

    def _birth(self, event: ev.AgentCreated) -> None:
        cause = None if event.cause is None else self._cause(event.cause)
        new = self.session.allocate_agent_id()
        born = msgspec.structs.replace(event, agent_id=new, cause=cause, unknown=None)
        self.session.append(born)

    def _append(self, event: ev.Event) -> None:
        """Log an event as it was, with the ids of here."""
        assert not isinstance(event, ev.UnknownEvent)
        again = msgspec.convert(self._renamed(ev.event_dict(event)), type(event))
        self.session.append(again)

    def _renamed(self, data: dict[str, object]) -> dict[str, object]:
        """Return an event's members with the ids of here."""
        for name in ("agent_id", "parent", "replaces"):
            if isinstance(data.get(name), str):
                data[name] = self._agent_id(str(data[name]))
        for name in ("substance", "summary"):
            if isinstance(data.get(name), str):
                data[name] = self._id(str(data[name]))
        for name in ("speakers", "listeners"):
            ids = data.get(name)
            if isinstance(ids, list):
                data[name] = [self._agent_id(one) for one in ids]
        if data.get("cause") is not None:
            data["cause"] = self._cause(data["cause"])
        segments = data.get("segments")
        for segment in segments if isinstance(segments, list) else ():
            if "entries" in segment:
                segment["entries"] = [self._id(one) for one in segment["entries"]]
        return data

    def _cause(self, cause: object) -> object:
        if isinstance(cause, list):
            return [self._cause(one) for one in cause]
        return self._id(str(cause))

    def _id(self, recorded: str) -> MessageId:
        """Return what a message is called here. Raises LookupError where it is not here."""
        here = self.script.here(recorded)
        if here is None:
            raise LookupError(f"{recorded} has not happened here")
        return MessageId(here)

    def _agent_id(self, recorded: str) -> AgentId:
        if recorded == USER:
            return USER
        return self.script.again.agents[self.recorded.of_agent[AgentId(recorded)]]

    def _agent(self, recorded: str | None) -> Agent:
        return load_agent(self.session, self._agent_id(recorded or ""), self._runtime)

    def _acting(self, event: ev.Event) -> Agent:
        """Return who has to act for an event to happen: of a hook's, whom it watches."""
        lane, _ = self.recorded.places[event.message_id]
        lane = lane.removeprefix(f"{USER} of ")
        agent = load_agent(self.session, self.script.again.agents[lane], self._runtime)
        while agent.state.place == "hook" and agent.state.parent is not None:
            agent = agent.agent_by_id(agent.state.parent)
        return agent

    def _is_of_a_call(self, cause: ev.Cause) -> bool:
        """Whether an agent caused it, with a call, or a hook with a verdict."""
        first = cause if isinstance(cause, str) else (cause or [""])[0]
        lane, at = self.recorded.places.get(reference_message_id(first), ("", 0))
        made_by = self.recorded.events[lane][at] if lane else None
        return isinstance(made_by, ev.TranscriptEntry) and made_by.agent_id != USER

    def _is_by_command(self, event: ev.TranscriptEntry | ev.PieceOfText) -> bool:
        """Whether it is what the user did with a command, or what was said only because of that."""
        if isinstance(event, ev.TranscriptEntry) and event.agent_id == USER:
            if event.substance is not None:  # what an agent said, handed through
                said = self._links.get(event.substance)
                return isinstance(said, ev.TranscriptEntry) and said.content == event.content
            if event.cause is None:
                return _is_command(event)
        said = self._first_cause(event)
        if isinstance(said, ev.TranscriptEntry) and said.role == "assistant":
            return _is_command(said) or _is_command(self._first_cause(said))  # what a hook said
        return False

    def _first_cause(self, event: ev.TranscriptEntry | ev.PieceOfText) -> ev.Event | None:
        first = event.cause if isinstance(event.cause, str) else (event.cause or [""])[0]
        return self._links.get(reference_message_id(first))

    def _is_told(self, event: ev.TranscriptEntry) -> bool:
        """Whether an entry came with an agent's birth, or by hand: a prompt, a transcript."""
        if event.agent_id == USER:
            return False
        if event.message_id in self._by_hand:
            return True
        lane, at = self.recorded.places[event.message_id]
        if event.role == "system":
            return not text_of(event.content).startswith(FAILED)
        return at < self.recorded.initial(lane)

    def _is_summed_up(self, event: ev.TranscriptEdited) -> bool:
        """Whether an agent that sums up made this edit."""
        lane, _ = self.recorded.places.get(event.summary or MessageId(""), ("", 0))
        return bool(lane) and kind_of(self.recorded.events[lane][0]) == COMPACTOR

    def _ended_here(self) -> bool:
        """Whether the process ended at this event, in the middle of a turn."""
        coming = self.script.next()
        if self._answering is None:
            return False
        if coming is None:  # nobody went on
            return self._answering.has_open_calls or bool(self.session.state.requests)
        if isinstance(coming, ev.TranscriptEntry) and self._is_input(coming):
            lane, _ = self.recorded.places[coming.message_id]
            return lane == self.script.lane(self._answering) and self._answering.has_open_calls
        return self._is_of_a_resume(coming)

    def _is_input(self, event: ev.TranscriptEntry) -> bool:
        """Whether an agent heard this from outside."""
        if event.role != "user" or event.agent_id == USER or event.cause or event.substance:
            return False
        lane, _ = self.recorded.places[event.message_id]
        return kind_of(self.recorded.events[lane][0]) != COMPACTOR

    def _is_of_a_resume(self, event: ev.Event | None) -> bool:
        """Whether an event is what a resume says of what a crash cut off."""
        if isinstance(event, ev.LlmResponse):
            return event.stop_reason == INTERRUPTED_CALL or event.error == LOST_USAGE
        if isinstance(event, ev.AgentMoved) and isinstance(event.cause, str):
            call = self._links.called(event.cause)
            return call is not None and call.function.name in {"task", *MAKING}  # half made
        if not isinstance(event, ev.TranscriptEntry) or not event.is_error:
            return False
        return text_of(event.content).startswith(INTERRUPTED.format(event.name))

    def _is_open(self, event: ev.TranscriptEntry) -> bool:
        """Whether a result closes a call that was cut off."""
        return event.is_error and event.tool_call_id in self._agent(event.agent_id).state.open_calls


def _answers(events: Links, lanes: AgentEventLists) -> RecordedAnswers:
    recording = ReplayLog()
    for event in events:
        recording.take(event)
    too_long: set[MessageId] = set()
    unended: dict[MessageId, ev.TranscriptEntry] = {}
    for id_, request in recording.requests.items():
        response = recording.responses.get(id_)
        answer = lanes.after(request)
        if response is None or response.error == LOST_USAGE:
            if isinstance(answer, ev.TranscriptEntry) and answer.role == "assistant":
                unended[id_] = answer
        elif response.error and lanes.is_compacted_after(request):
            too_long.add(id_)
    return RecordedAnswers(recording, frozenset(too_long), unended)


def _is_command(event: ev.Event | None) -> bool:
    """Whether the user did something with a command."""
    match event:
        case ev.TranscriptEntry(role="assistant", cause=None) if event.agent_id == USER:
            return True
        case _:
            return False


def _parameters(lanes: AgentEventLists) -> dict[str, Mapping[str, Any]]:
    """Return with which parameters the agents that were made later asked each model."""
    found: dict[str, Mapping[str, Any]] = {}
    for births in lanes.births.values():
        for birth in births:
            parameters = (birth.spec or {}).get("parameters")
            if isinstance(parameters, Mapping) and birth.language_model is not None:
                found.setdefault(birth.language_model, parameters)
    return found


def _first_model(events: Links) -> str:
    return next((event.model for event in events if isinstance(event, ev.LlmRequest)), "none")
