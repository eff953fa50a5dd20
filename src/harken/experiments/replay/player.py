"""`Replayer`: replay a recorded session into a new log.

External inputs are replayed from the record: creations, user messages, configuration changes, and
manual edits. The actions of agents must follow by themselves and are never copied. The replay stops
at the first event that differs from the record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from harken.agents.action_schemas import BASIC_ACTIONS
from harken.agents.agent import Agent, get_agent, load_agent
from harken.agents.compaction_text import parse_summary_request
from harken.agents.dumb_agent import DumbAgent
from harken.agents.load import load_session
from harken.agents.open_calls import answer_or_stop, has_open_calls
from harken.agents.runtime import ActionPolicy, AgentLibrary, AgentRuntime, ModelSettings, Observers
from harken.agents.smart_agent import SmartAgent
from harken.agents.structure import is_code_call
from harken.agents.tool_agent import can_go_on
from harken.core import events as ev
from harken.core import structs
from harken.core.ids import USER, AgentId, MessageId, reference_message_id
from harken.core.logged_string import LoggedString
from harken.core.messages import text_of
from harken.errors import AgentBusy, ConfigError, HarkenError, InvalidEvent
from harken.experiments.replay.agent_events import COMPACTOR, AgentEventLists, get_kind
from harken.experiments.replay.branch_changes import BranchStart
from harken.experiments.replay.played_world import PlayedWorld, collect_templates
from harken.experiments.replay.progress import Crash, ReplayProgress
from harken.experiments.replay.recorded_agents import build_kinds, repeat_program_calls
from harken.experiments.replay.recorded_hooks import RecordedHooks
from harken.experiments.replay.recorded_model import INTERRUPTED as INTERRUPTED_CALL
from harken.experiments.replay.recorded_model import (
    RecordedAnswers,
    RecordedModel,
    collect_models,
    collect_parameters,
    find_first_model,
)
from harken.experiments.replay.recorded_world import recorded_actions
from harken.experiments.replay.triggered_turns import TriggeredTurns
from harken.llm.replay import ReplayLog
from harken.session.fold import Resolver
from harken.session.log.reader import iter_events as read
from harken.session.session import Session, SessionOptions
from harken.views.links import Links
from harken.world.tool import Tool

_EXTERNAL_EVENTS = (
    ev.AgentConfigured
    | ev.TriggerArmed
    | ev.TriggerDisarmed
    | ev.AgentStateSaved
    | ev.ContextLoaded
)
"""Events that agents never create themselves."""


class ReplayExtras(msgspec.Struct, frozen=True, kw_only=True):
    """Code and settings that the caller of a replay provides."""

    kinds: Mapping[str, type[Agent]] = msgspec.field(default_factory=dict)
    """Agent classes to run, by the kind in the log; other agents are replaced by stand-ins."""
    tools: Sequence[Tool] = ()
    """Tools whose properties (`reads_only`, ...) are used; they are not run."""
    resolver: Resolver | None = None
    """Returns the messages of commits that agents started from."""


class Replayer:
    """A replay of a session."""

    def __init__(self, events: Links, log: Path, own: ReplayExtras) -> None:
        """Prepare the replay of these events into the new file `log`."""
        self._links, self.recorded = events, AgentEventLists.of(events)
        self.progress = ReplayProgress(self.recorded, crash=self.crash)
        self.notes: list[str] = []
        """Messages about problems."""
        self.answers = _collect_answers(events, self.recorded)
        self.answers.progress, self.answers.stop = self.progress, self.stop
        self.world = PlayedWorld(events, self.progress)
        self._extras, self._manual_entries = own, self.recorded.find_manual_entries()
        self._branch_start = BranchStart.of(events)
        self._turn: asyncio.Task[object] | None = None
        self._current_agent: Agent | None = None
        self._crashed = False
        self._triggered_turns = TriggeredTurns(self.progress, events, self._get_agent)
        self._tool_lists: frozenset[str] = frozenset()
        self._actions = set(BASIC_ACTIONS)
        """The structural actions of agents without a tool list, as recorded."""
        self._options = SessionOptions(durability="none", resolver=own.resolver)
        self._templates = collect_templates(events, self.recorded)
        self._hooks = RecordedHooks(self.progress)
        self._runtime = AgentRuntime(
            model=RecordedModel(self.answers, find_first_model(events)),
            models=ModelSettings(
                resolver=lambda name: RecordedModel(self.answers, name),
                by_model=collect_parameters(self.recorded),
                allowed=collect_models(self.recorded),
            ),
            world=self.world,
            library=AgentLibrary(
                kinds=build_kinds(self.progress, own.kinds),
                templates=self._templates,
                hooks=self._hooks,
            ),
            policy=ActionPolicy(actions=self._actions),
            observers=Observers(on_notice=self.notes.append),
        )
        self.session = Session(log, options=self._options)
        self.session.add_listener(self._on_event)

    async def play(self) -> None:
        """Replay all events until the end or the first difference.

        Raises ConfigError if the commit that an agent starts from is not available.
        """
        while not self.has_diverged and (event := self.progress.next()) is not None:
            if event.message_id in self._branch_start.changes:
                self._change(event)
                continue
            if self._crashed:
                self._resume()
                continue
            try:
                await self._replay_event(event)
            except (AgentBusy, InvalidEvent, LookupError) as error:
                if isinstance(event, ev.ContextLoaded):
                    raise ConfigError(str(error)) from None
                self.notes.append(str(error))
            if not self.progress.is_replayed(event):
                return

    @property
    def has_diverged(self) -> bool:
        """Whether an event differed from the record."""
        return self.progress.has_diverged

    def stop(self) -> None:
        """Cancel the current turn."""
        turn = self._triggered_turns.current() or self._turn
        if turn is not None:
            turn.cancel()

    def crash(self) -> NoReturn:
        """Stop the replay like a crash: concurrent agents cannot log anything more."""
        self._crashed = True
        self.session.close()
        raise Crash

    def close(self) -> None:
        """Close the log. Closing twice has no effect."""
        self.session.close()

    def _on_event(self, event: ev.Event) -> None:
        lane = self.progress.add_event(event)
        is_acting = self._turn is not None and not self._turn.done()
        if is_acting and not self.has_diverged and lane and self._is_crash_point():
            self.crash()
        if isinstance(event, ev.AgentCreated) and lane:
            self._set_listings(self.recorded.first_tools(lane))
        next_event = None if self._turn is None or self.has_diverged else self.progress.next()
        if next_event is not None and self._is_from_trigger(next_event):
            self._append(next_event)  # It happened during this turn.
        elif self._turn is not None and lane is not None and not self.has_diverged:
            self._triggered_turns.deliver_due(lane, next_event)

    async def _replay_event(self, event: ev.Event) -> None:
        """Replay an external input, or let the agent of the event act."""
        match event:
            case ev.AgentCreated() if get_kind(event) == COMPACTOR:
                await self._compact(event)
            case ev.AgentCreated() if not self._is_caused_by_agent(event.cause):
                self._create_agent(event)
            case ev.TranscriptEntry() | ev.PieceOfText() if self._is_from_command(event):
                self._append(event)
            case ev.TranscriptEntry() if self._is_initial_entry(event):
                self._append(event)
            case ev.TranscriptEntry(role="tool") if self._closes_open_call(event):
                await self._close_calls(event)
            case ev.TranscriptEntry(role="user", cause=None) if event.agent_id != USER:
                self._send_input(event)
            case ev.TranscriptEdited() if not self._is_from_compactor(event):
                self._append(event)
            case ev.AgentMoved() | ev.InterlocutorsSet() if not self._is_caused_by_agent(
                event.cause
            ):
                self._append(event)
            case ev.MemoryOperation(cause=None) | ev.PieceOfText(trigger=str()):
                self._append(event)
            case _ if isinstance(event, _EXTERNAL_EVENTS):
                self._append(event)
            case _:
                self._set_tools(event)
                if (caller := self._calling_agent(event)) is not None:
                    assert isinstance(event, ev.TranscriptEntry)
                    work = repeat_program_calls(caller, event, self.progress)
                    await self._run_turn(caller, work)
                    return
                agent = self._acting_agent(event)
                await self._run_turn(agent, answer_or_stop(agent))

    async def _close_calls(self, result: ev.TranscriptEntry) -> None:
        """Close interrupted calls: by a resume, or by the input that gave them up."""
        agent = self._get_agent(result.agent_id)
        call = agent.state.open_calls.get(result.tool_call_id or "")
        if call is None or not can_go_on(agent, call):
            self._resume()
            return
        next_input = self._find_next_input(result)
        await self._run_turn(agent, answer_or_stop(agent, next_input))

    def _find_next_input(self, event: ev.TranscriptEntry) -> LoggedString | None:
        """Return the next input of the agent of an event, in the record."""
        lane, index = self.recorded.positions[event.message_id]
        for later in self.recorded.events[lane][index:]:
            if isinstance(later, ev.TranscriptEntry) and self._is_external_input(later):
                return LoggedString(text_of(later.content))
        return None

    def _send_input(self, event: ev.TranscriptEntry) -> None:
        """Send a recorded input to an agent."""
        if not isinstance(event.content, str):
            self._append(event)
            return
        substance = None if event.substance is None else self._map_id(event.substance)
        agent = self._get_agent(event.agent_id)
        self._triggered_turns.remove_news(agent, substance)
        agent.harken(LoggedString(event.content, substance))

    async def _compact(self, birth: ev.AgentCreated) -> None:
        """Replay a compaction by the user, or continue a turn that starts with a compaction."""
        lane = self.recorded.of_agent[birth.agent_id or AgentId("")]
        parent = self.recorded.parent(lane) or ""
        self._set_tools(birth)
        agent = self._get_agent(self.recorded.agents[parent])
        if not isinstance(agent, SmartAgent) or self.recorded.is_asked_next(parent, birth):
            await self._run_turn(agent, answer_or_stop(agent))
            return
        entries = (
            entry for entry in self.recorded.events[lane] if isinstance(entry, ev.TranscriptEntry)
        )
        prompts = [
            text_of(entry.content)
            for entry in entries
            if (entry.role, entry.cause) == ("user", None)
        ]
        await self._run_turn(
            agent, agent.compact(parse_summary_request(prompts[-1]) if prompts else "")
        )

    async def _run_turn(self, agent: Agent, work: Coroutine[Any, Any, object]) -> None:
        """Run a turn until it ends, fails, or is cancelled."""
        self._current_agent = agent
        turn = self._turn = asyncio.create_task(work)
        try:
            await asyncio.wait([turn])
            if not turn.cancelled():
                turn.result()
            await self._triggered_turns.wait(self._acting_agent)
        except (Crash, HarkenError) as error:
            if not self._crashed:
                self.notes.append(str(error))
        finally:
            self._turn = None

    def _change(self, event: ev.Event) -> None:
        """Append a change of a branch: its session is not resumed before it has all changes."""
        self._triggered_turns.cancel()
        self.session.close()
        with Session.load(self.session.path, options=self._options) as self.session:
            self.session.add_listener(self._on_event)
            self._append(event)
        self._crashed = True

    def _resume(self) -> None:
        """Resume after a crash, as in the record."""
        log = self.session.path
        self._triggered_turns.cancel()
        self.session.close()
        self._crashed = False
        _, self.session = load_session(log, runtime=self._runtime, options=self._options)
        self.progress.replayed = AgentEventLists()
        for event in read(log):
            self._on_event(event)
        self.session.add_listener(self._on_event)

    def _set_tools(self, event: ev.Event) -> None:
        """Set the tools that agents had at an event."""
        tool_lists = self.recorded.tools_from(event)
        if frozenset(tool_lists) != self._tool_lists:
            self._tool_lists = frozenset(tool_lists)
            schemas = [
                schema for list_id in tool_lists for schema in self.recorded.tools[list_id].tools
            ]
            self.world.offer(schemas, self._extras.tools)
            self._actions.clear()
            self._actions |= recorded_actions(schemas)
            self._set_listings(tool_lists)
            self.session.live.clear()  # Agents with other tools are reloaded from the log.

    def _set_listings(self, tool_lists: Sequence[MessageId]) -> None:
        """Set the templates and hooks that these tool lists describe."""
        self._templates.template_list = self.recorded.listing("task", tool_lists)
        self._hooks.hook_list = self.recorded.listing("hook", tool_lists)

    def _create_agent(self, event: ev.AgentCreated) -> None:
        cause: Any = None if event.cause is None else self._map_cause(event.cause)
        agent_id = self.session.allocate_agent_id()
        replayed = structs.replace(event, agent_id=agent_id, cause=cause, unknown=None)
        self.session.append(replayed)

    def _append(self, event: ev.Event) -> None:
        """Append a recorded event with the ids of the replayed session."""
        assert not isinstance(event, ev.UnknownEvent)
        replayed = msgspec.convert(self._with_new_ids(ev.event_dict(event)), type(event))
        self.session.append(replayed)

    def _with_new_ids(self, data: dict[str, object]) -> dict[str, object]:
        """Return the members of an event with the ids of the replayed session."""
        for name in ("agent_id", "parent", "replaces"):
            if isinstance(data.get(name), str):
                data[name] = self._map_agent_id(str(data[name]))
        for name in ("substance", "summary"):
            if isinstance(data.get(name), str):
                data[name] = self._map_id(str(data[name]))
        for name in ("speakers", "listeners"):
            ids = data.get(name)
            if isinstance(ids, list):
                data[name] = [self._map_agent_id(id_) for id_ in ids]
        if data.get("cause") is not None:
            data["cause"] = self._map_cause(data["cause"])
        segments = data.get("segments")
        for segment in segments if isinstance(segments, list) else ():
            if "entries" in segment:
                segment["entries"] = [self._map_id(id_) for id_ in segment["entries"]]
        return data

    def _map_cause(self, cause: object) -> object:
        if isinstance(cause, list):
            return [self._map_cause(reference) for reference in cause]
        return self._map_id(str(cause))

    def _map_id(self, recorded: str) -> MessageId:
        """Return the replayed id of a recorded message.

        Raises LookupError if it does not exist yet.
        """
        replayed_id = self.progress.map_id(recorded)
        if replayed_id is None:
            raise LookupError(f"{recorded} did not occur in the replay")
        return MessageId(replayed_id)

    def _map_agent_id(self, recorded: str) -> AgentId:
        if recorded == USER:
            return USER
        return self.progress.replayed.agents[self.recorded.of_agent[AgentId(recorded)]]

    def _get_agent(self, recorded: str | None) -> Agent:
        return load_agent(self.session, self._map_agent_id(recorded or ""), self._runtime)

    def _acting_agent(self, event: ev.Event) -> Agent:
        """Return the agent that must act for an event.

        For an event of a hook, the watched agent.
        """
        lane, _ = self.recorded.positions[event.message_id]
        lane = lane.removeprefix(f"{USER} of ")
        agent = load_agent(self.session, self.progress.replayed.agents[lane], self._runtime)
        while agent.state.place == "hook" and agent.state.parent is not None:
            agent = get_agent(agent, agent.state.parent)
        return agent

    def _calling_agent(self, event: ev.Event) -> Agent | None:
        """Return the agent by which the program called an action, outside of its turns."""
        if not isinstance(event, ev.TranscriptEntry) or not event.tool_calls:
            return None
        agent = self._get_agent(event.agent_id) if is_code_call(event) else None
        is_answering = isinstance(agent, DumbAgent) and has_open_calls(agent)
        is_judging = event.cause is not None
        return None if is_answering or is_judging else agent

    def _is_caused_by_agent(self, cause: ev.Cause) -> bool:
        """Whether a tool call of an agent, or a verdict of a hook, caused the event."""
        first = cause if isinstance(cause, str) else (cause or [""])[0]
        lane, index = self.recorded.positions.get(reference_message_id(first), ("", 0))
        cause_event = self.recorded.events[lane][index] if lane else None
        is_entry = isinstance(cause_event, ev.TranscriptEntry) and cause_event.agent_id != USER
        return is_entry or isinstance(cause_event, ev.HookVerdict)

    def _is_from_trigger(self, event: ev.Event) -> bool:
        """Whether a trigger fired, or has ended."""
        if isinstance(event, ev.TriggerDisarmed):
            return not self._is_caused_by_agent(event.cause)
        return isinstance(event, ev.PieceOfText) and event.trigger is not None

    def _is_from_command(self, event: ev.TranscriptEntry | ev.PieceOfText) -> bool:
        """Whether an event is, or follows directly from, a command of the user."""
        if isinstance(event, ev.TranscriptEntry) and event.agent_id == USER:
            if event.substance is not None:  # An answer of an agent that was passed through.
                source = self._links.get(event.substance)
                return isinstance(source, ev.TranscriptEntry) and source.content == event.content
            if event.cause is None:
                return _is_command(event)
        source = self._first_cause(event)
        if isinstance(source, ev.TranscriptEntry) and source.role == "assistant":
            # The text of a hook.
            return _is_command(source) or _is_command(self._first_cause(source))
        return False

    def _first_cause(self, event: ev.TranscriptEntry | ev.PieceOfText) -> ev.Event | None:
        first = event.cause if isinstance(event.cause, str) else (event.cause or [""])[0]
        return self._links.get(reference_message_id(first))

    def _is_initial_entry(self, event: ev.TranscriptEntry) -> bool:
        """Whether an entry is part of an agent's creation, or was logged manually."""
        if event.agent_id == USER:
            return False
        if event.message_id in self._manual_entries:
            return True
        lane, index = self.recorded.positions[event.message_id]
        if event.role == "system":
            return True
        return index < self.recorded.initial(lane)

    def _is_from_compactor(self, event: ev.TranscriptEdited) -> bool:
        """Whether a compactor made this edit."""
        lane, _ = self.recorded.positions.get(event.summary or MessageId(""), ("", 0))
        return bool(lane) and get_kind(self.recorded.events[lane][0]) == COMPACTOR

    def _is_crash_point(self) -> bool:
        """Whether the process ended at this event, within a turn."""
        next_event = self.progress.next()
        if self._current_agent is None:
            return False
        if next_event is not None and self._branch_start.is_begun_by(next_event):
            return True
        if next_event is None:  # The session was not resumed.
            return has_open_calls(self._current_agent) or bool(self.session.state.requests)
        if isinstance(next_event, ev.TranscriptEntry) and self._is_external_input(next_event):
            lane, _ = self.recorded.positions[next_event.message_id]
            return lane == self.progress.agent_key(self._current_agent) and has_open_calls(
                self._current_agent
            )
        return self._is_from_resume(next_event)

    def _is_external_input(self, event: ev.TranscriptEntry) -> bool:
        """Whether the entry is an external input of an agent."""
        if event.role != "user" or event.agent_id == USER or event.cause or event.substance:
            return False
        lane, _ = self.recorded.positions[event.message_id]
        return get_kind(self.recorded.events[lane][0]) != COMPACTOR

    def _is_from_resume(self, event: ev.Event | None) -> bool:
        """Whether an event is logged by a resume for an interrupted operation."""
        if isinstance(event, ev.LlmResponse):
            return event.stop_reason == INTERRUPTED_CALL
        return isinstance(event, ev.TranscriptEntry) and event.closed == "interrupted"

    def _closes_open_call(self, event: ev.TranscriptEntry) -> bool:
        """Whether a result closes an interrupted call."""
        return (
            event.is_error
            and event.tool_call_id in self._get_agent(event.agent_id).state.open_calls
        )


def _collect_answers(events: Links, lanes: AgentEventLists) -> RecordedAnswers:
    recording = ReplayLog()
    for event in events:
        recording.add(event)
    too_long: set[MessageId] = set()
    for id_, request in recording.requests.items():
        response = recording.responses.get(id_)
        if response is not None and response.error and lanes.is_compacted_after(request):
            too_long.add(id_)
    return RecordedAnswers(recording, frozenset(too_long))


def _is_command(event: ev.Event | None) -> bool:
    """Whether the event is a command of the user."""
    match event:
        case ev.TranscriptEntry(role="assistant", cause=None) if event.agent_id == USER:
            return True
        case _:
            return False
