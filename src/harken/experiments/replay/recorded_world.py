"""A world in which things go as they went: tools answer what they answered in a recorded session.

    world = RecordedWorld(RecordedCalls.of(events), tools=recorded_tools(schemas))

Nothing outside is touched while calls are those of the record. What the record does not have is
asked of another world where there is one, else it is refused with a text that says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from harken.agents.action_schemas import ACTIONS, BASIC, GRANTED, OF_HOOKS
from harken.core import events as ev
from harken.core.ids import USER, AgentId, MessageId
from harken.core.messages import FunctionCall
from harken.errors import InvalidEvent
from harken.experiments.replay.recorded_calls import RecordedCall, RecordedCalls
from harken.session.session import Session
from harken.world.result import ToolResult
from harken.world.tool import Tool, ToolContext
from harken.world.world import World

NOT_RECORDED = (
    "Error: {} was not run: nothing was recorded for this call with these arguments, "
    "and nothing outside the record may be touched here."
)


class _Anything(msgspec.Struct):
    """The arguments of a tool that checks none: the record knows what it said to them."""


@dataclass(frozen=True, slots=True)
class RecordedTool(Tool):
    """A tool of which there is only what a model was shown."""

    shown: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Take any name: some model was shown it."""

    @property
    def schema(self) -> dict[str, Any]:
        """What the model was shown."""
        return dict(self.shown)


def recorded_tools(
    schemas: Iterable[Mapping[str, Any]],
    like: Iterable[Tool] = (),
    *,
    actions: Collection[str] = frozenset(ACTIONS),
) -> list[RecordedTool]:
    """Return tools with exactly these schemas, without the structural actions of agents.

    A schema does not say whether a tool only reads, or may be run again: that is taken from the
    tool of the same name in `like`, and not so where there is none.
    """
    known = {tool.name: tool for tool in like}
    tools: dict[str, RecordedTool] = {}
    for schema in schemas:
        inner = schema.get("function")
        named = inner if isinstance(inner, Mapping) else schema
        name = str(named.get("name", ""))
        if name not in actions and name not in tools:
            tools[name] = _recorded_tool(name, schema, known.get(name))
    return list(tools.values())


def recorded_actions(schemas: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Return the structural actions of agents without a list, from what one was offered.

    Where that one stood as a hook, it was not offered what hooks have only if they are granted it.

    >>> sorted(recorded_actions([{"name": "task"}, {"name": "read"}]))
    ['task']
    """
    names = frozenset(str(schema.get("name")) for schema in schemas) & ACTIONS.keys()
    if names & OF_HOOKS and names - OF_HOOKS - set(BASIC):
        names |= GRANTED
    return names or frozenset(BASIC)


def _recorded_tool(name: str, schema: Mapping[str, Any], like: Tool | None) -> RecordedTool:
    return RecordedTool(
        name=name,
        description=str(schema.get("description", "")),
        parameters={},
        function=_nothing,
        arguments=_Anything,
        reads_only=like is not None and like.reads_only,
        idempotent=like is not None and like.idempotent,
        shown=schema,
    )


def _nothing() -> str:
    raise AssertionError("a recorded tool is answered by its world")


class RecordedWorld(World):
    """Answers calls from the record; others live, where it may, or not at all."""

    def __init__(
        self, calls: RecordedCalls, *, tools: Iterable[Tool] = (), live: World | None = None
    ) -> None:
        """Answer from `calls`; what is not there is asked of `live`, or refused.

        `tools` are those that agents see, beside those of `live` (which are as they are there).
        Raises ValueError where two tools have one name.
        """
        super().__init__(tools, folder=None if live is None else live.folder)
        self.calls, self.live = calls, live
        self.differing: list[tuple[str, FunctionCall]] = []
        """Calls that are not in the record: the agent's name and the call, in order."""
        self.given: list[RecordedCall] = []
        """Calls that were answered from it, in order."""
        if live is not None:
            self.tools |= live.tools
            self.user, self.permissions = live.user, live.permissions
            self.variables, self.known = live.variables, live.known

    async def call_tool(self, action: FunctionCall, caller: ToolContext) -> ToolResult:
        """Answer a call from the record, with all that was logged because of it."""
        recorded = self.calls.take(caller.agent.name, action)
        if recorded is not None:
            self.given.append(recorded)
            return self.answer(recorded, caller)
        self.differing.append((caller.agent.name, action))
        if self.live is not None and action.name in self.live.tools:
            return await self.live.call_tool(action, caller)
        return ToolResult(NOT_RECORDED.format(action.name), is_error=True)

    def answer(self, recorded: RecordedCall, caller: ToolContext) -> ToolResult:
        """Log what was logged while the call ran; return its result."""
        ids = self.say_again(recorded.reference, recorded.said, caller)
        result = recorded.result
        return ToolResult(
            result.content,
            substance=self._new_id(result.substance, ids),
            cause=self._new_cause(result.cause, ids),
            is_error=result.is_error,
        )

    def here(self, reference: str) -> str | None:
        """Return what a message of the record is called here, where it is here at all."""
        del reference
        return None

    def say_again(
        self, call: ev.Reference, said: Iterable[ev.Event], caller: ToolContext
    ) -> Mapping[str, str]:
        """Log what was logged while a recorded call ran; return what its messages are now."""
        ids = {call: caller.call}
        for event in said:
            again = self._again(event, ids, caller.agent.session)
            if again is not None:
                with suppress(InvalidEvent):  # who heard it there cannot hear it here
                    ids[event.message_id] = caller.agent.session.append(again)
        return ids

    def _again(self, event: ev.Event, ids: Mapping[str, str], session: Session) -> ev.Event | None:
        """Return the event as it is to be logged here; None where nobody is here whose it is."""
        name = self.calls.names.get(event.agent_id or AgentId(""))
        states = reversed(list(session.agents.values()))
        named = (state.id for state in states if (state.name or state.id) == name)
        agent_id = USER if event.agent_id == USER else next(named, None)
        if agent_id is None or not isinstance(
            event,
            ev.TranscriptEntry | ev.PieceOfText | ev.MemoryOperation | ev.AgentConfigured,
        ):
            return None
        again = msgspec.structs.replace(
            event, agent_id=agent_id, unknown=None, cause=self._new_cause(event.cause, ids)
        )
        if isinstance(again, ev.TranscriptEntry):
            again.substance = self._new_id(again.substance, ids)
        return again

    def _new_id(self, id_: MessageId | None, ids: Mapping[str, str]) -> MessageId | None:
        new = None if id_ is None else ids.get(id_) or self.here(id_)
        return None if new is None else MessageId(new)

    def _new_cause(self, cause: ev.Cause, ids: Mapping[str, str]) -> ev.Cause:
        """Return a cause as it is called here; None where nothing of it is here."""
        named: Sequence[str] = [cause] if isinstance(cause, str) else cause or []
        found = [ids.get(one) or self.here(one) for one in named]
        here = [one for one in found if one is not None]
        return (here or None) if isinstance(cause, list) else next(iter(here), None)
