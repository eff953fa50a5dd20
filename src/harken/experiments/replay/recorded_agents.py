"""Stand-ins for recorded agents without available code.

A dumb agent or a hook is a class of another program, which may not be available. Its answers and
saved states are in the log: a stand-in repeats them in order when it gets the same questions. A
smart agent runs its real code, except that compactions happen as recorded, because the log does not
tell the size of a model's context window.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeGuard

from harken.agents.agent import Agent, get_agent, is_to_be_self_made
from harken.agents.agent_classes import get_agent_class, registered_name
from harken.agents.hooks.hook import Hook
from harken.agents.hooks.options import HookOptions
from harken.agents.smart_agent import SmartAgent
from harken.agents.structure import is_code_call
from harken.agents.templates.template import Template, Templates
from harken.agents.turn.code_call import call_action
from harken.core import events as ev
from harken.core.event_types.spec import AgentSpec
from harken.core.ids import AgentId, MessageId
from harken.core.messages import text_of
from harken.core.verdict import HookQuestion, Verdict, create_verdict
from harken.errors import HarkenError, LogError, ModelError, NameNotFound
from harken.experiments.replay.agent_events import COMPACTOR, get_kind
from harken.experiments.replay.progress import ReplayProgress
from harken.session.state import AgentState
from harken.world.result import ToolError
from harken.world.tool import parse

_ERROR_PATTERN = re.compile(r"(\w+): (.*)", re.DOTALL)
"""The class and the text of an error that an action does not raise itself."""


class NotRecorded(HarkenError):
    """An agent got a question that it did not get in the record."""


class RecordedAgent(Hook):
    """A stand-in for a dumb agent or a hook."""

    script: ClassVar[ReplayProgress]
    recorded_spec: AgentSpec | None = None
    """The recorded spec of an agent that is being created."""

    def begin(self) -> None:
        """Initialize the saved state."""
        self._saves: ev.AgentStateSaved | None = None

    def _load_spec(self, state: AgentState) -> None:
        """Use default options: the answers are recorded."""
        self.options = HookOptions()

    def _load_state(self, state: AgentState) -> None:
        """Do nothing: no state is needed."""

    def _spec(self) -> AgentSpec:
        """Return the recorded spec."""
        return self.recorded_spec or super()._spec()

    def dump_state(self) -> Any:
        """Return the state that was saved at this point, or else the current one."""
        return self.state.saved_state if self._saves is None else self._saves.state

    def should_ask(self, question: HookQuestion) -> bool:
        """Whether it has yet to give a recorded verdict on this subject."""
        subject = self.script.replayed.stable_name(question.subject)
        return self.script.has_verdict(self.script.agent_key(self), subject)

    async def judge(self, question: HookQuestion) -> Verdict:
        """Return the recorded verdict, or raise the recorded error.

        Quit if the hook quit after it.
        """
        await self._repeat_calls()
        await self._wait_for_turn()
        events = self._next_events(3)
        verdict = events[0] if events else None
        if not isinstance(verdict, ev.HookVerdict):
            raise NotRecorded(f"the record has no such verdict of {self.name}")
        if any(isinstance(e, ev.AgentMoved) and e.cause == verdict.message_id for e in events):
            self._leave_after_verdict()
        self._saves = next((e for e in events[1:2] if isinstance(e, ev.AgentStateSaved)), None)
        if verdict.failed is not None:
            kind, _, message = verdict.failed.partition(": ")
            raise type(kind, (Exception,), {})(message)
        return create_verdict(verdict.verdict, verdict.text)

    async def answer(self, heard: str) -> str:
        """Return the recorded answer, or raise the recorded error."""
        await self._repeat_calls()
        result = self._find_error_result()
        if result is not None:
            await self.script.wait_until(result)
            raise _parse_error(result)
        await self._wait_for_turn()
        return self._next_text()

    def copy_for(self, agent: Agent) -> Hook | None:
        """Return a stand-in for the copy that was made for an agent, or None if there was none."""
        lanes = self.script.replayed.of_agent
        if agent.agent_id in lanes:
            birth = self.script.next_hook(lanes[agent.agent_id], self.name)
        else:
            lane = lanes.get(self.state.parent or AgentId(""), "")
            is_hook = is_to_be_self_made(agent)
            birth = self.script.hook_of_next(lane, self.name, is_hook=is_hook)
        if birth is None:
            return None
        kind = self.script.kinds[get_kind(birth)]
        copy = kind(agent.session, runtime=agent.runtime)
        assert isinstance(copy, Hook)
        if isinstance(copy, RecordedAgent):
            copy.recorded_spec = birth.spec
        return copy

    async def _repeat_calls(self) -> None:
        """Make the recorded calls of its code that come before its answer.

        Raises Crash if the process ended in one of them.
        """
        calls: dict[MessageId, asyncio.Task[None]] = {}
        while not self.script.has_diverged and (event := next(iter(self._next_events(1)), None)):
            if _is_code_call_entry(event) and event.message_id not in calls:
                await self.script.wait_until(event)
                calls[event.message_id] = asyncio.create_task(repeat_call(self, event, self.script))
            elif all(call.done() for call in calls.values()):
                break  # A call without its result was interrupted.
            await asyncio.sleep(0)
        await asyncio.gather(*calls.values())

    def _find_error_result(self) -> ev.TranscriptEntry | None:
        """Return the result that says that this agent failed instead of giving its next answer."""
        entries = (e for e in self._remaining_events() if isinstance(e, ev.TranscriptEntry))
        next_entry = next(entries, None)
        if self.state.parent is None or (next_entry is not None and next_entry.role != "user"):
            return None
        parent = get_agent(self, self.state.parent)
        for event in self.script.remaining_events(self.script.agent_key(parent)):
            if isinstance(event, ev.TranscriptEntry) and event.tool_call_id is not None:
                call = parent.state.open_calls.get(event.tool_call_id)
                is_interrupted = event.closed == "interrupted"
                if call is not None and call.name in ("task", "discuss"):
                    return event if event.is_error and not is_interrupted else None
        return None

    async def _wait_for_turn(self) -> None:
        """Wait until the recorded time of the next answer; other agents act meanwhile."""
        next_event = next(iter(self._next_events(1)), None)
        if next_event is not None:
            await self.script.wait_until(next_event)

    def _next_events(self, limit: int) -> list[ev.Event]:
        """Return the next recorded events of the agent: its answer, state, or removal."""
        return self._remaining_events()[:limit]

    def _remaining_events(self) -> list[ev.Event]:
        return self.script.remaining_events(self.script.agent_key(self))

    def _next_text(self) -> str:
        """Return the next recorded text, and set the state that was saved with it."""
        entry, saved_state = [*self._next_events(2), None, None][:2]
        self._saves = saved_state if isinstance(saved_state, ev.AgentStateSaved) else None
        if not isinstance(entry, ev.TranscriptEntry):
            raise NotRecorded(f"the record has no such question to {self.name}")
        return text_of(entry.content)


class RecordedSmartAgent(SmartAgent):
    """A smart agent whose context is compacted as recorded."""

    script: ClassVar[ReplayProgress]
    recorded_spec: AgentSpec | None = None
    """The recorded spec of an agent that the program passed to a call."""

    def _spec(self) -> AgentSpec:
        """Return the recorded spec, if any."""
        return self.recorded_spec or super()._spec()

    def _is_full(self) -> bool:
        """Whether its context was compacted at this point."""
        return self.script.is_compacted_next(self.script.agent_key(self))


def _is_code_call_entry(event: ev.Event | None) -> TypeGuard[ev.TranscriptEntry]:
    """Whether an event is the message of an agent that makes a call of code."""
    return isinstance(event, ev.TranscriptEntry) and bool(event.tool_calls) and is_code_call(event)


def _parse_error(result: ev.TranscriptEntry) -> Exception:
    """Return the error of which `run_catching` made a result."""
    text = text_of(result.content).removeprefix("Error: ")
    match = _ERROR_PATTERN.fullmatch(text.removeprefix(f"{result.name}: "))
    if match is None or not text.startswith(f"{result.name}: "):
        return ToolError(text)
    error: Exception = type(match[1], (Exception,), {})(match[2])
    return error


async def repeat_call(agent: Agent, entry: ev.TranscriptEntry, script: ReplayProgress) -> None:
    """Make a recorded call of code again. An error of it is in the log, as in the record.

    Raises NotRecorded if it fails before it is logged.
    """
    call = (entry.tool_calls or [])[0]
    try:
        arguments = dict(parse(call.function.name, call.function.arguments))
        kind, objects = arguments.pop("agent", None), None
        if kind is not None:
            new_agent = _repeat_construction(agent, kind, entry, script)
            is_class = isinstance(new_agent, SmartAgent) and "instructions" in arguments
            objects = {"agent": (kind, type(new_agent) if is_class else new_agent)}
        await call_action(agent, call.function.name, arguments, objects, call.id)
    except (ModelError, LogError):
        raise
    except Exception as error:
        if not script.is_replayed(entry):
            raise NotRecorded(f"{call.function.name} failed: {error}") from error


async def repeat_program_calls(
    agent: Agent, entry: ev.TranscriptEntry, script: ReplayProgress
) -> None:
    """Make a recorded call of the program, and calls for the same agent that began meanwhile."""
    lane, calls = script.agent_key(agent), dict[MessageId, asyncio.Task[None]]()
    event: ev.Event | None = entry
    try:
        while not all(call.done() for call in calls.values()) or not calls:
            if (
                _is_code_call_entry(event)
                and event.message_id not in calls
                and script.recorded.positions[event.message_id][0] == lane
            ):
                calls[event.message_id] = asyncio.create_task(repeat_call(agent, event, script))
            await asyncio.sleep(0)
            event = script.next()
        await asyncio.gather(*calls.values())
    finally:
        for call in calls.values():
            call.cancel()
        await asyncio.gather(*calls.values(), return_exceptions=True)


def _repeat_construction(
    agent: Agent, kind: str, entry: ev.TranscriptEntry, script: ReplayProgress
) -> Agent:
    """Return a new agent like the object that the program passed to a recorded call."""
    new_class: type[Agent] = get_agent_class(kind, agent.runtime.library)
    birth, prompt = script.creation(entry), script.initial_prompt(entry)
    spec = (None if birth is None else birth.spec) or AgentSpec()
    session, runtime = agent.session, agent.runtime
    if issubclass(new_class, SmartAgent):
        model = None if birth is None else birth.language_model
        tools, budget = spec.limits.tools, spec.limits.budget
        new_agent: Agent = new_class(
            session, prompt, runtime=runtime, model=model, tools=tools, budget=budget
        )
    elif issubclass(new_class, Hook) and not issubclass(new_class, RecordedAgent):
        new_agent = new_class(session, prompt, runtime=runtime, options=spec.options)
    else:
        new_agent = new_class(session, prompt, runtime=runtime)
    if isinstance(new_agent, RecordedAgent | RecordedSmartAgent):
        new_agent.recorded_spec = None if birth is None else birth.spec
    return new_agent


def build_kinds(script: ReplayProgress, own: Mapping[str, type[Agent]]) -> dict[str, type[Agent]]:
    """Return a class for each kind of recorded agent. Classes in `own` are used unchanged."""
    kinds: dict[str, type[Agent]] = {}
    for lane in script.recorded.agents:
        kind = get_kind(script.recorded.events[lane][0])
        if kind == COMPACTOR or kind in kinds:
            continue
        has_requests = script.recorded.count(lane, ev.LlmRequest) > 0
        base = (
            RecordedSmartAgent
            if has_requests or kind == registered_name(SmartAgent)
            else RecordedAgent
        )
        stand_in = type(base.__name__, (base,), {"_kind": kind, "script": script})
        kinds[kind] = own.get(kind, stand_in)
    script.kinds = kinds
    return kinds


class RecordedTemplates(Templates):
    """The templates of recorded agents."""

    def __init__(self, uses: Iterable[tuple[str, Template | str]]) -> None:
        """Return these templates, or raise these errors, by name and in order of their use."""
        super().__init__()
        self.template_list = ""
        """Description of the templates for models."""
        self._uses: dict[str, list[Template | str]] = {}
        for name, template in uses:
            self._uses.setdefault(name, []).append(template)

    def find(self, name: str) -> Template:
        """Return the template for its next recorded use. Raises the recorded error."""
        uses = self._uses.get(name)
        if not uses:
            raise NameNotFound("template", name, sorted(self._uses))
        template = uses.pop(0)
        if isinstance(template, str):
            raise HarkenError(template)
        return template

    def listing(self) -> str:
        """Return the description of the templates for models."""
        return self.template_list


def template_from_creation(birth: ev.AgentCreated, instructions: str) -> Template | None:
    """Return the template of an agent, as far as its creation event has it."""
    spec = birth.spec or AgentSpec()
    origin, tools = spec.template, spec.limits.tools
    if origin is None:
        return None
    return Template(
        name=origin.name,
        instructions=instructions,
        tools=None if tools is None else tuple(tools),
        model=birth.language_model,
        path=Path("recorded"),
        hash=origin.hash or "",
    )
