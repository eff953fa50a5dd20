"""`ForkedAgent`: the agent of a fork point in another program's session, in a new session.

The agent has exactly the tools of the recorded call. The other agents and the hooks of that program
are not available. Sessions of Harken are branched instead: see `scene_branch`.

The agent of the new session starts with a context, which is stored as a commit.

The common prefix of the context with existing commits is not stored again: the new commit continues
from the last of them. Without a common prefix the commit is a snapshot, whose parent still tells
its origin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from harken.agents.action_schemas import ACTIONS
from harken.agents.agent import Agent, log_birth
from harken.agents.agent_classes import get_agent_class
from harken.agents.initial_transcript import complete_transcript, message_dict
from harken.agents.load import start_from_commit
from harken.agents.runtime import AgentRuntime
from harken.agents.smart_agent import Position, SmartAgent
from harken.context.checkpoint import CommitDraft, CommitOrigin, checkpoint
from harken.context.commit_content import read_entries
from harken.context.materialize import select_commits
from harken.core import events as ev
from harken.core.commits import CommitId
from harken.core.event_types.message_parser import parse_message
from harken.core.event_types.spec import AgentSpec
from harken.core.events import Segment, TranscriptEdited
from harken.core.ids import AgentId, MessageId
from harken.core.messages import ChatMessage
from harken.errors import ConfigError, NameNotFound
from harken.experiments.change import Change
from harken.experiments.fork_point import ForkPoint
from harken.experiments.replay.recorded_world import RecordedTool, RecordedWorld, recorded_tools
from harken.recording.writer.item import message_key
from harken.session.session import Session, build_entry
from harken.store.base import Store, StoredCommit
from harken.world.tool import Tool


def set_initial_context(
    agent: Agent,
    messages: Sequence[ChatMessage],
    *,
    store: Store | None,
    tip: str | None,
    origin: CommitOrigin,
    time: str,
) -> None:
    """Set the initial context of a newly created agent.

    `tip` is the nearest existing commit; `time` is the time of the context in RFC 3339. Without a
    store, the messages are written to the log. Raises StoreError.
    """
    if not messages:
        return
    if store is None:
        _log_messages(agent.session, agent.agent_id, messages)
        return
    start_from_commit(agent, commit_context(store, messages, tip=tip, origin=origin, time=time))


def commit_context(
    store: Store,
    messages: Sequence[ChatMessage],
    *,
    tip: str | None,
    origin: CommitOrigin,
    time: str,
) -> CommitId:
    """Return a commit for a context. Equal contexts have the same commit. Raises StoreError."""
    existing = _select_existing(store, tip)
    parent, shared = _find_shared(store, existing, messages)
    if shared == len(messages) and parent is not None:
        return parent
    draft = CommitDraft(messages=messages[shared:], parent=parent, origin=origin, created_at=time)
    if parent is None and existing:
        draft = replace(draft, parent=existing[-1].id, type="snapshot")
    return checkpoint(store, draft)


def _select_existing(store: Store, tip: str | None) -> list[StoredCommit]:
    """Return the commits of a conversation, oldest first. Empty if the store does not have it."""
    try:
        return [] if tip is None else select_commits(store, CommitId(tip))
    except NameNotFound:
        return []


def _find_shared(
    store: Store, existing: Sequence[StoredCommit], messages: Sequence[ChatMessage]
) -> tuple[CommitId | None, int]:
    """Return the last commit that is a prefix of the context, and the number of its messages."""
    parent, count = None, 0
    for commit in existing:
        commit_keys = [message_key(entry.message) for entry in read_entries(store, [commit])]
        if commit_keys != [
            message_key(message) for message in messages[count : count + len(commit_keys)]
        ]:
            break
        parent, count = commit.id, count + len(commit_keys)
    return parent, count


def _log_messages(session: Session, agent_id: AgentId, messages: Sequence[ChatMessage]) -> None:
    """Write the messages to the transcript as the context before any new message."""
    completed = complete_transcript([message_dict(message) for message in messages])
    ids = [session.append(build_entry(agent_id, parse_message(message))) for message in completed]
    edit = TranscriptEdited(
        agent_id=agent_id, segments=[Segment(entries=ids)], reason="context_loaded"
    )
    session.append(edit)


class ForkedAgent(SmartAgent):
    """A smart agent with recorded tool schemas."""

    def __init__(
        self,
        session: Session,
        *,
        runtime: AgentRuntime,
        spec: AgentSpec,
        tools: Sequence[Tool],
    ) -> None:
        """Create an agent without its creation event. `spec` is added to the recorded spec."""
        super().__init__(session, runtime=runtime)
        self._birth_options = spec
        self._recorded_inputs: (
            tuple[RecordedWorld, Mapping[MessageId, Sequence[ev.TranscriptEntry]]] | None
        ) = None
        self.set_tools(tools)

    def _check_kind(self) -> None:
        """Accept any kind: a resume continues with a plain smart agent after the recorded calls."""

    def accept_calls(self, names: Iterable[str]) -> None:
        """Accept calls of hidden tools, which are answered from the record.

        Another program may have run tools that were not logged as available.
        """
        hidden = recorded_tools([{"name": name} for name in names], actions=())
        existing = self._get_toolset().by_name
        existing.update({tool.name: tool for tool in hidden if tool.name not in existing})

    def set_recorded_inputs(
        self, world: RecordedWorld, told: Mapping[MessageId, Sequence[ev.TranscriptEntry]]
    ) -> None:
        """Set the inputs to append after recorded results."""
        self._recorded_inputs = (world, told)

    async def _act(self, position: Position) -> None:
        """Run calls, then append the inputs that followed their results."""
        if self._recorded_inputs is None:
            await super()._act(position)
            return
        world, inputs = self._recorded_inputs
        first_index = len(world.used_calls)
        await super()._act(position)
        for call in world.used_calls[first_index:]:
            for entry in inputs.get(call.result.message_id, ()):
                self.session.append(build_entry(self.agent_id, entry))


def build_tools(schemas: Sequence[Mapping[str, Any]], *, is_own: bool) -> list[Tool]:
    """Return tools with these schemas. Structural actions of Harken's own agents are executed."""
    tools: list[Tool] = []
    for schema in schemas:
        action = ACTIONS.get(str(schema.get("name"))) if is_own else None
        if action is not None:
            tools.append(_with_schema(action, schema))
        else:
            tools += recorded_tools([schema], actions=ACTIONS if is_own else ())
    return tools


def _with_schema(action: Tool, schema: Mapping[str, Any]) -> Tool:
    return RecordedTool(
        name=action.name,
        description=str(schema.get("description", "")),
        parameters={},
        function=action.function,
        arguments=action.arguments,
        recorded_schema=schema,
    )


def begin_fork(
    point: ForkPoint,
    change: Change,
    session: Session,
    *,
    runtime: AgentRuntime,
    schemas: Sequence[Mapping[str, Any]],
    store: Store | None = None,
) -> ForkedAgent:
    """Create the agent of a fork point with the changed context and tools with these schemas."""
    spec = AgentSpec(
        parameters=change.merge_parameters(point.parameters), rerun=provenance(point, change)
    )
    agent = ForkedAgent(
        session, runtime=runtime, spec=spec, tools=build_tools(schemas, is_own=False)
    )
    log_birth(agent, name=point.name)
    recorded = point.agent
    set_initial_context(
        agent,
        change.context(point.context),
        store=store,
        tip=recorded.commit_id or recorded.spawn_commit_id,
        origin=CommitOrigin(
            template="",
            principal=f"{point.session}/{recorded.name or recorded.id}",
            session_id=point.session,
        ),
        time=point.request.time,
    )
    session.sync()
    return agent


def provenance(point: ForkPoint, change: Change) -> dict[str, Any]:
    """Return the provenance that the creation event records."""
    source: dict[str, Any] = {
        "session": point.session,
        "request": point.request.message_id,
        "number": point.number,
        "agent": point.agent_id,
    }
    changes = change.describe()
    return {**source, "changes": changes} if changes else source


def check_hooks(point: ForkPoint, change: Change, runtime: AgentRuntime) -> None:
    """Raise NameNotFound or ConfigError for a hook that does not exist or is not registered."""
    if not point.is_run_by_harken:
        if change.without_hooks:
            raise ConfigError(f"{point.session}: the hooks of another program are unknown")
        return
    hooks = [agent for agent in point.state.agents.values() if agent.place == "hook"]
    names = [hook.name or hook.id for hook in hooks]
    for name in change.without_hooks:
        if name not in names:
            raise NameNotFound("hook", name, names)
    for hook in hooks:
        if hook.name not in change.without_hooks:
            try:
                get_agent_class(str(hook.spec.kind), runtime.library)
            except NameNotFound as error:
                raise ConfigError(
                    f"{error}; rerun it in the program that registers it, or without that hook"
                ) from None


def parse_rerun_origin(spec: AgentSpec) -> tuple[str, MessageId] | None:
    """Return the session and request that an agent is a rerun of, or None if it is no rerun."""
    source = spec.rerun
    if source is None:
        return None
    session, request = source.get("session"), source.get("request")
    if not isinstance(session, str) or not isinstance(request, str):
        return None
    return session, MessageId(request)
