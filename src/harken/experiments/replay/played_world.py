"""The world of a session that is played again: calls end, and files are read, as they were."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from harken.agents.initial_transcript import INTERRUPTED
from harken.agents.templates.template import Template
from harken.agents.tree.actions import parse_arguments_or_empty
from harken.core import events as ev
from harken.core.messages import FunctionCall, ToolCall, text_of
from harken.experiments.replay.agent_events import AgentEventLists
from harken.experiments.replay.progress import ReplayProgress
from harken.experiments.replay.recorded_agents import RecordedTemplates, template_of
from harken.experiments.replay.recorded_calls import (
    RecordedCall,
    RecordedCalls,
    RecordedEnds,
    call_key,
)
from harken.experiments.replay.recorded_world import RecordedWorld, recorded_tools
from harken.session.fold import reference_to
from harken.views.links import Links
from harken.world.result import ToolError, ToolResult
from harken.world.tool import Tool, ToolContext

_UNREADABLE = " cannot be read: "
_UNUSABLE = " cannot be used: "
_TEMPLATE = "template:"


class PlayedWorld(RecordedWorld):
    """Answers as the world of a recorded session did, call by call."""

    def __init__(self, events: Links, script: ReplayProgress) -> None:
        """Answer from these events."""
        super().__init__(RecordedCalls.of(events))
        self._script = script
        self._cut_off = {
            script.recorded.named(made.reference): made.reference
            for made in _made(events)
            if made.result is None or made.error.startswith(INTERRUPTED.format(made.result.name))
        }
        self._by_call = {
            script.recorded.named(call.reference): (key, call)
            for key, calls in self.calls.by_key.items()
            for call in calls
        }
        self._not_again = {
            made.call.function.name
            for made in _made(events)
            if made.error.startswith(INTERRUPTED.format(made.call.function.name))
        }
        self._ends = RecordedEnds(events)
        self._texts = _instructions(events, script.recorded)

    def offer(self, schemas: Iterable[Mapping[str, Any]], like: Iterable[Tool]) -> None:
        """Let agents see these tools from now on; `like`: as in `recorded_tools`.

        A tool that was cut off, and not run again, may not be: others may, as far as one can see.
        """
        self.tools = {
            tool.name: replace(tool, idempotent=tool.name not in self._not_again)
            for tool in recorded_tools(schemas, like)
        }

    async def call_tool(self, action: FunctionCall, caller: ToolContext) -> ToolResult:
        """Answer a call as it was answered. It ends where it was cut off before that."""
        made = self._script.again.named(caller.call)
        key, recorded = self._by_call.get(made, (None, None))
        if recorded is not None and key == call_key(caller.agent.name, action):
            await self._turn(recorded)
            return self.answer(recorded, caller)  # also the second time, after a crash
        reference = self._cut_off.get(made)
        if reference is not None:
            self.say_again(reference, self.calls.said.get(reference, ()), caller)
            await self._script.until(None)
            self._script.crash()
        return await super().call_tool(action, caller)

    async def _turn(self, call: RecordedCall) -> None:
        """Wait until a call ended in the record: others act meanwhile as they did then."""
        own = self.tools.get(call.result.name or "")

        def waits(name: str) -> bool:
            other = self.tools.get(name)
            both_read = own and own.reads_only and other and other.reads_only
            return other is not None and not both_read

        said = next(iter(call.said), None)
        await self._script.until(said or self._ends.of(call.reference, waits))

    def here(self, reference: str) -> str | None:
        """Return what a message of the record is called in the session that is played."""
        return self._script.here(reference)

    async def instructions(self, given: str, caller: ToolContext) -> str:
        """Return what instructions that were named said, in a file or elsewhere."""
        return self.read_instructions(given.removeprefix("file:"), caller)

    def read_instructions(self, path: str, caller: ToolContext | None = None) -> str:
        """Return what stood in a file when an agent was made of it. Raises ToolError as then."""
        call = "" if caller is None else self._script.again.named(caller.call)
        text, is_error = self._texts.get(call, (f"{path} was not read in the record", True))
        if is_error:
            raise ToolError(text)
        return text


def templates_of(events: Links, lanes: AgentEventLists) -> RecordedTemplates:
    """Return the templates that were used in a session."""
    prompts = _prompts(events, lanes)
    uses: list[tuple[str, Template | str]] = []
    for made in _made(events):
        given = str(parse_arguments_or_empty(made.call.function.arguments).get("instructions", ""))
        name = given.removeprefix(_TEMPLATE).strip()
        birth = prompts.get(lanes.named(made.reference))
        found = None if birth is None else template_of(*birth)
        if found is not None:
            uses.append((found.name, found))
        elif given.startswith(_TEMPLATE) and f"{given}{_UNUSABLE}" in made.error:
            uses.append((name, made.error.partition(f"{given}{_UNUSABLE}")[2]))
    return RecordedTemplates(uses)


def _instructions(links: Links, lanes: AgentEventLists) -> Mapping[str, tuple[str, bool]]:
    """Return, by call, the system prompt of the agent that was made, or why a file was not read."""
    prompts = _prompts(links, lanes)
    found = {call: (text, False) for call, (_, text) in prompts.items()}
    for made in _made(links):
        if _UNREADABLE in made.error:
            text = made.error.partition(_UNREADABLE)[2]
            found.setdefault(lanes.named(made.reference), (text, True))
    return found


def _prompts(links: Links, lanes: AgentEventLists) -> dict[str, tuple[ev.AgentCreated, str]]:
    """Return, by call, the agent that it made, and its system prompt."""
    births = [event for event in links if isinstance(event, ev.AgentCreated)]
    return {
        lanes.named(birth.cause): (birth, lanes.system_prompt(birth) or "")
        for birth in births
        if isinstance(birth.cause, str)
    }


@dataclass(frozen=True, slots=True)
class _Made:
    """A call that an agent made."""

    reference: ev.Reference
    call: ToolCall
    result: ev.TranscriptEntry | None

    @property
    def error(self) -> str:
        """What its result says, where it failed."""
        failed = self.result is not None and self.result.is_error
        return text_of(self.result.content) if failed and self.result is not None else ""


def _made(links: Links) -> list[_Made]:
    """Return every call that an agent made, in order, with its result."""
    results: dict[str, ev.TranscriptEntry] = {}
    made: list[tuple[ev.Reference, ToolCall]] = []
    for event in links:
        if not isinstance(event, ev.TranscriptEntry):
            continue
        if event.role == "tool":
            results |= {link.reference: event for link in links.up(event) if link.kind == "call"}
        made += [(reference_to(event, call.id), call) for call in event.tool_calls or ()]
    return [_Made(reference, call, results.get(reference)) for reference, call in made]
