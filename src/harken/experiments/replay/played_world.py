"""The world of a replayed session: calls finish, and files are read, in recorded order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from harken.agents.templates.template import Template
from harken.agents.tree.actions import parse_arguments_or_empty
from harken.core import events as ev
from harken.core import structs
from harken.core.ids import USER
from harken.core.messages import FunctionCall, ToolCall, text_of
from harken.experiments.replay.agent_events import AgentEventLists
from harken.experiments.replay.progress import ReplayProgress
from harken.experiments.replay.recorded_agents import RecordedTemplates, template_from_creation
from harken.experiments.replay.recorded_calls import (
    RecordedCalls,
    call_key,
    find_concurrent_tools,
)
from harken.experiments.replay.recorded_world import RecordedWorld, recorded_tools
from harken.session.fold import format_call_reference
from harken.views.links import Links
from harken.world.result import ToolError, ToolResult
from harken.world.tool import Tool, ToolContext
from harken.world.user import ApprovalDecision, ApprovalRequest, UserQuestion, UserUnavailable

_UNREADABLE = " cannot be read: "
_UNUSABLE = " cannot be used: "
_TEMPLATE = "template:"


class RecordedUser:
    """Gives the answers of the user in discussions, as recorded."""

    def __init__(self, answers: Mapping[str, Iterable[str]]) -> None:
        """Answer each agent that leads a discussion, by name, in order."""
        self._answers = {name: iter(texts) for name, texts in answers.items()}

    @classmethod
    def of(cls, events: Links) -> RecordedUser | None:
        """Collect the answers of a session. Return None if the user took part in no discussion."""
        answers: dict[str, list[str]] = {}
        for event in events:
            if isinstance(event, ev.DiscussionSpoken) and event.by == USER:
                name = events.names.latest_name(event.agent_id) or ""
                answers.setdefault(name, []).append(event.heard or "")
        return cls(answers) if answers else None

    async def ask(self, asked: UserQuestion) -> str:
        """Return the next recorded answer. Raises UserUnavailable if there is no other."""
        text = next(iter(self._answers.get(asked.agent, ())), None)
        if text is None:
            raise UserUnavailable("the record has no other answer of the user")
        return text

    async def approve(self, wanted: ApprovalRequest) -> ApprovalDecision:
        """Raise UserUnavailable: approvals are recorded with the calls of tools."""
        raise UserUnavailable("approvals are recorded with the calls of tools")


class PlayedWorld(RecordedWorld):
    """Answers tool calls as in the recorded session."""

    def __init__(self, events: Links, script: ReplayProgress) -> None:
        """Answer from these events."""
        super().__init__(RecordedCalls.of(events))
        self._script = script
        self.user = RecordedUser.of(events)
        self._interrupted_calls = {
            script.recorded.stable_name(made.reference): made.reference
            for made in _collect_calls(events)
            if made.result is None or made.result.closed == "interrupted"
        }
        self._by_call = {
            script.recorded.stable_name(call.reference): (key, call)
            for key, calls in self.calls.by_key.items()
            for call in calls
        }
        self._interrupted_tools = {
            made.call.function.name
            for made in _collect_calls(events)
            if made.result is not None and made.result.closed == "interrupted"
        }
        self._concurrent_tools = find_concurrent_tools(events)
        self._texts = _collect_instructions(events, script.recorded)

    def offer(self, schemas: Iterable[Mapping[str, Any]], like: Iterable[Tool]) -> None:
        """Set the tools of agents. `like` is as in `recorded_tools`.

        A tool that was interrupted and not run again is marked as not idempotent.
        """
        self.tools = {
            tool.name: structs.replace(
                tool,
                idempotent=tool.name not in self._interrupted_tools,
                reads_only=tool.reads_only or tool.name in self._concurrent_tools,
            )
            for tool in recorded_tools(schemas, like)
        }

    async def call_tool(self, action: FunctionCall, caller: ToolContext) -> ToolResult:
        """Return the recorded result of a call. Stops the process if the call was interrupted."""
        call_name = self._script.replayed.stable_name(caller.call)
        key, recorded = self._by_call.get(call_name, (None, None))
        if recorded is not None and key == call_key(caller.agent.name, action):
            await self._script.wait_until(next(iter(recorded.events), recorded.result))
            result = self.answer(recorded, caller)  # Also for a repeated call after a crash.
            await self._script.wait_until(recorded.result)
            return result
        reference = self._interrupted_calls.get(call_name)
        if reference is not None:
            self.log_caused_events(reference, self.calls.events_by_call.get(reference, ()), caller)
            await self._script.wait_until(None)
            self._script.crash()
        return await super().call_tool(action, caller)

    def map_id(self, reference: str) -> str | None:
        """Return the id in the replayed session of a recorded message."""
        return self._script.map_id(reference)

    async def instructions(self, ref: str, caller: ToolContext) -> str:
        """Return the recorded text of instructions from a file or another source."""
        return self.read_instructions(ref.removeprefix("file:"), caller)

    def read_instructions(self, path: str, caller: ToolContext | None = None) -> str:
        """Return the recorded content of a file with instructions. Raises ToolError as recorded."""
        call = "" if caller is None else self._script.replayed.stable_name(caller.call)
        text, is_error = self._texts.get(call, (f"{path} was not read in the record", True))
        if is_error:
            raise ToolError(text)
        return text


def collect_templates(events: Links, lanes: AgentEventLists) -> RecordedTemplates:
    """Return the templates that were used in a session."""
    prompts = _collect_prompts(events, lanes)
    uses: list[tuple[str, Template | str]] = []
    for tool_call in _collect_calls(events):
        instructions = str(
            parse_arguments_or_empty(tool_call.call.function.arguments).get("instructions", "")
        )
        name = instructions.removeprefix(_TEMPLATE).strip()
        birth = prompts.get(lanes.stable_name(tool_call.reference))
        template = None if birth is None else template_from_creation(*birth)
        if template is not None:
            uses.append((template.name, template))
        elif instructions.startswith(_TEMPLATE) and f"{instructions}{_UNUSABLE}" in tool_call.error:
            uses.append((name, tool_call.error.partition(f"{instructions}{_UNUSABLE}")[2]))
    return RecordedTemplates(uses)


def _collect_instructions(links: Links, lanes: AgentEventLists) -> Mapping[str, tuple[str, bool]]:
    """Return, by call, the system prompt of the created agent, or the error of reading its file."""
    prompts = _collect_prompts(links, lanes)
    texts = {call: (text, False) for call, (_, text) in prompts.items()}
    for tool_call in _collect_calls(links):
        if _UNREADABLE in tool_call.error:
            text = tool_call.error.partition(_UNREADABLE)[2]
            texts.setdefault(lanes.stable_name(tool_call.reference), (text, True))
    return texts


def _collect_prompts(
    links: Links, lanes: AgentEventLists
) -> dict[str, tuple[ev.AgentCreated, str]]:
    """Return, by call, the agent that it created and the agent's system prompt."""
    births = [event for event in links if isinstance(event, ev.AgentCreated)]
    return {
        lanes.stable_name(birth.cause): (birth, lanes.system_prompt(birth) or "")
        for birth in births
        if isinstance(birth.cause, str)
    }


class _ToolCall(msgspec.Struct, frozen=True):
    """A tool call of an agent and its result."""

    reference: ev.Reference
    call: ToolCall
    result: ev.TranscriptEntry | None

    @property
    def error(self) -> str:
        """Text of the result if the call failed, otherwise empty."""
        failed = self.result is not None and self.result.is_error
        return text_of(self.result.content) if failed and self.result is not None else ""


def _collect_calls(links: Links) -> list[_ToolCall]:
    """Return all tool calls of agents in order, with their results."""
    results: dict[str, ev.TranscriptEntry] = {}
    calls: list[tuple[ev.Reference, ToolCall]] = []
    for event in links:
        if not isinstance(event, ev.TranscriptEntry):
            continue
        if event.role == "tool":
            results |= {
                link.reference: event for link in links.links_from(event) if link.kind == "call"
            }
        calls += [(format_call_reference(event, call.id), call) for call in event.tool_calls or ()]
    return [_ToolCall(reference, call, results.get(reference)) for reference, call in calls]
