"""A world with tools that return the results of a recorded session.

    world = RecordedWorld(RecordedCalls.of(events), tools=recorded_tools(schemas))

Recorded calls have no external effects. Calls that are not recorded are passed to another world if
there is one; otherwise they are refused with an explanation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from harken.agents.action_schemas import ACTIONS, BASIC_ACTIONS, GRANTED_HOOK_ACTIONS, HOOK_ACTIONS
from harken.core import events as ev
from harken.core import structs
from harken.core.ids import USER, AgentId, MessageId
from harken.core.messages import FunctionCall
from harken.errors import InvalidEvent
from harken.experiments.replay.recorded_calls import RecordedCall, RecordedCalls
from harken.session.session import Session
from harken.world.local_world import LocalWorld
from harken.world.result import ToolResult
from harken.world.tool import Tool, ToolContext
from harken.world.world import World

NOT_RECORDED = (
    "Error: {} was not run: nothing was recorded for this call with these arguments, "
    "and nothing outside the record may be touched here."
)


class _Anything(msgspec.Struct):
    """Accepts any arguments of a recorded tool."""


class RecordedTool(Tool, frozen=True):
    """A tool that is known by its recorded schema only."""

    recorded_schema: Mapping[str, Any] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Accept any tool name."""

    @property
    def schema(self) -> dict[str, Any]:
        """The recorded schema."""
        return dict(self.recorded_schema)


def recorded_tools(
    schemas: Iterable[Mapping[str, Any]],
    like: Iterable[Tool] = (),
    *,
    actions: Collection[str] = frozenset(ACTIONS),
) -> list[RecordedTool]:
    """Return tools with exactly these schemas, without the structural actions of agents.

    A schema does not tell whether a tool is read-only or idempotent. These properties are copied
    from the tool of the same name in `like`; by default they are false.
    """
    tools_by_name = {tool.name: tool for tool in like}
    tools: dict[str, RecordedTool] = {}
    for schema in schemas:
        function = schema.get("function")
        tool_schema = function if isinstance(function, Mapping) else schema
        name = str(tool_schema.get("name", ""))
        if name not in actions and name not in tools:
            tools[name] = _recorded_tool(name, schema, tools_by_name.get(name))
    return list(tools.values())


def recorded_actions(schemas: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Return the structural actions of agents without a tool list, from the tools of one agent.

    If that agent was a hook, actions that hooks have only by permission are added.

    >>> sorted(recorded_actions([{"name": "task"}, {"name": "read"}]))
    ['task']
    """
    names = frozenset(str(schema.get("name")) for schema in schemas) & ACTIONS.keys()
    if names & HOOK_ACTIONS and names - HOOK_ACTIONS - set(BASIC_ACTIONS):
        names |= GRANTED_HOOK_ACTIONS
    return names or frozenset(BASIC_ACTIONS)


def _recorded_tool(name: str, schema: Mapping[str, Any], like: Tool | None) -> RecordedTool:
    return RecordedTool(
        name=name,
        description=str(schema.get("description", "")),
        parameters={},
        function=_not_callable,
        arguments=_Anything,
        reads_only=like is not None and like.reads_only,
        idempotent=like is not None and like.idempotent,
        recorded_schema=schema,
    )


def _not_callable() -> str:
    raise AssertionError("a recorded tool is answered by its world")


class RecordedWorld(LocalWorld):
    """Answers calls from the record. Others run in another world or are refused."""

    def __init__(
        self, calls: RecordedCalls, *, tools: Iterable[Tool] = (), live: World | None = None
    ) -> None:
        """Answer from `calls`. Other calls are passed to `live`, or refused without it.

        `tools` are visible to agents in addition to those of `live`, which take precedence. Raises
        ValueError if two tools have the same name.
        """
        super().__init__(tools, folder=None if live is None else live.folder)
        self.calls, self.live = calls, live
        self.unrecorded_calls: list[tuple[str, FunctionCall]] = []
        """Agent name and call of each call that is not in the record, in order."""
        self.used_calls: list[RecordedCall] = []
        """The recorded calls that were used, in order."""
        if live is not None:
            self.tools |= live.tools
            self.user, self.permissions = live.user, live.permissions
            self._variables, self._file_states = live.variables, live.file_states

    async def call_tool(self, action: FunctionCall, caller: ToolContext) -> ToolResult:
        """Return the recorded result, after logging the events that the call caused."""
        recorded = self.calls.get_next(caller.agent.name, action)
        if recorded is not None:
            self.used_calls.append(recorded)
            return self.answer(recorded, caller)
        self.unrecorded_calls.append((caller.agent.name, action))
        if self.live is not None and action.name in self.live.tools:
            return await self.live.call_tool(action, caller)
        return ToolResult(NOT_RECORDED.format(action.name), is_error=True)

    def answer(self, recorded: RecordedCall, caller: ToolContext) -> ToolResult:
        """Log the events that the call caused, and return its result."""
        ids = self.log_caused_events(recorded.reference, recorded.events, caller)
        result = recorded.result
        return ToolResult(
            result.content,
            substance=self._map_id(result.substance, ids),
            cause=self._map_cause(result.cause, ids),
            is_error=result.is_error,
            closed=result.closed,
        )

    def map_id(self, reference: str) -> str | None:
        """Return the current id of a recorded message, or None. Subclasses override this."""
        del reference
        return None

    def log_caused_events(
        self, call: ev.Reference, events: Iterable[ev.Event], caller: ToolContext
    ) -> Mapping[str, str]:
        """Log the events that a recorded call caused. Return a map from old to new ids."""
        ids = {call: caller.call}
        for event in events:
            new_event = self._with_new_ids(event, ids, caller.agent.session)
            if new_event is not None:
                # A recipient in the record may not be able to receive it here.
                with suppress(InvalidEvent):
                    ids[event.message_id] = caller.agent.session.append(new_event)
        return ids

    def _with_new_ids(
        self, event: ev.Event, ids: Mapping[str, str], session: Session
    ) -> ev.Event | None:
        """Return an event with current ids, or None if its agent does not exist here."""
        name = self.calls.names.get(event.agent_id or AgentId(""))
        states = reversed(list(session.agents.values()))
        matching_ids = (state.id for state in states if (state.name or state.id) == name)
        agent_id = USER if event.agent_id == USER else next(matching_ids, None)
        if agent_id is not None and isinstance(event, ev.ActionStarted):
            return ev.ActionStarted(agent_id=agent_id, call=ids[event.call])
        if agent_id is None or not isinstance(
            event,
            ev.TranscriptEntry
            | ev.PieceOfText
            | ev.MemoryOperation
            | ev.TriggerArmed
            | ev.TriggerDisarmed,
        ):
            return None
        cause: Any = self._map_cause(event.cause, ids)
        new_event = structs.replace(event, agent_id=agent_id, unknown=None, cause=cause)
        if isinstance(new_event, ev.TranscriptEntry):
            new_event.substance = self._map_id(new_event.substance, ids)
        return new_event

    def _map_id(self, id_: MessageId | None, ids: Mapping[str, str]) -> MessageId | None:
        new_id = None if id_ is None else ids.get(id_) or self.map_id(id_)
        return None if new_id is None else MessageId(new_id)

    def _map_cause(self, cause: ev.Cause, ids: Mapping[str, str]) -> ev.Cause:
        """Map the references of a cause. Return None if none of them exists here."""
        references: Sequence[str] = [cause] if isinstance(cause, str) else cause or []
        new_ids = [ids.get(reference) or self.map_id(reference) for reference in references]
        existing = [reference for reference in new_ids if reference is not None]
        return (existing or None) if isinstance(cause, list) else next(iter(existing), None)
