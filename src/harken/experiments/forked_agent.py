"""`ForkedAgent`: the agent of a fork point in a new session, with all that stood below it.

It is offered exactly the tools that the recorded call was offered. Of one that Harken ran, hooks,
subagents and whom it talks to are there again, each as it was just before the call; the agents of
other programs are not at hand, and neither are their hooks.

Starting: an agent of a new session begins with a context, which a commit holds.

One idea: what a context has in common with commits that are there, from its beginning on, is not
stored again: the new commit goes on from the last of them. Where it has nothing in common, it is a
snapshot, whose parent still says where it comes from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harken.agents.action_schemas import ACTIONS
from harken.agents.agent import Agent, load_agent
from harken.agents.agent_classes import get_agent_class
from harken.agents.initial_transcript import complete_transcript, message_dict
from harken.agents.load import start_from_commit
from harken.agents.runtime import AgentRuntime
from harken.agents.smart_agent import SmartAgent
from harken.agents.tool_agent import Toolset
from harken.context.checkpoint import CommitDraft, CommitOrigin, checkpoint
from harken.context.commit_content import entries_in
from harken.context.materialize import select_commits
from harken.core import events as ev
from harken.core.commits import CommitId
from harken.core.events import Segment, TranscriptEdited
from harken.core.ids import AgentId, MessageId
from harken.core.messages import ChatMessage, message_from, message_hash
from harken.errors import ConfigError, NameNotFound
from harken.experiments.change import Change
from harken.experiments.fork_point import ForkPoint
from harken.experiments.replay.recorded_world import RecordedTool, RecordedWorld, recorded_tools
from harken.session.fold import context_now
from harken.session.session import Session, entry_of
from harken.session.state import AgentState, OpenCall
from harken.store.base import Store, StoredCommit
from harken.world.tool import Tool


def begin_with(
    agent: Agent,
    messages: Sequence[ChatMessage],
    *,
    store: Store | None,
    tip: str | None,
    origin: CommitOrigin,
    time: str,
) -> None:
    """Let an agent that was just born begin with a context.

    `tip`: the commit that is nearest to it; `time`: of the context, RFC 3339. Without a store the
    messages stand in the log. Raises StoreError.
    """
    if not messages:
        return
    if store is None:
        _write_down(agent.session, agent.agent_id, messages)
        return
    start_from_commit(agent, commit_of(store, messages, tip=tip, origin=origin, time=time))


def commit_of(
    store: Store,
    messages: Sequence[ChatMessage],
    *,
    tip: str | None,
    origin: CommitOrigin,
    time: str,
) -> CommitId:
    """Return a commit that stands for a context; the same for the same. Raises StoreError."""
    before = _picked(store, tip)
    parent, shared = _shared(store, before, messages)
    if shared == len(messages) and parent is not None:
        return parent
    draft = CommitDraft(messages=messages[shared:], parent=parent, origin=origin, created_at=time)
    if parent is None and before:
        draft = replace(draft, parent=before[-1].id, type="snapshot")
    return checkpoint(store, draft)


def _picked(store: Store, tip: str | None) -> list[StoredCommit]:
    """Return the commits of a conversation, oldest first; none where the store has it not."""
    try:
        return [] if tip is None else select_commits(store, CommitId(tip))
    except NameNotFound:
        return []


def _shared(
    store: Store, before: Sequence[StoredCommit], messages: Sequence[ChatMessage]
) -> tuple[CommitId | None, int]:
    """Return the last of these commits with which a context begins, and how much of it that is."""
    parent, at = None, 0
    for one in before:
        held = [_key(entry.message) for entry in entries_in(store, [one])]
        if held != [_key(message) for message in messages[at : at + len(held)]]:
            break
        parent, at = one.id, at + len(held)
    return parent, at


def _key(message: ChatMessage) -> tuple[Any, ...]:
    """Return what makes a message the same here: also the ids by which results name their calls."""
    ids = tuple(call.id for call in message.tool_calls or ())
    return message_hash(message), ids, message.tool_call_id


def _write_down(session: Session, agent_id: AgentId, messages: Sequence[ChatMessage]) -> None:
    """Let the messages enter the agent's transcript, as what it had read before anything new."""
    taken = complete_transcript([message_dict(message) for message in messages])
    ids = [session.append(entry_of(agent_id, message_from(message))) for message in taken]
    edit = TranscriptEdited(
        agent_id=agent_id, segments=[Segment(entries=ids)], reason="context_loaded"
    )
    session.append(edit)


_KEPT = ("kind", "tools", "budget", "template")
"""What of an agent's spec is true of its fork, too."""


class ForkedAgent(SmartAgent):
    """A smart agent that is offered tools as they were recorded."""

    def __init__(
        self,
        session: Session,
        *,
        runtime: AgentRuntime,
        spec: Mapping[str, Any],
        tools: Sequence[Tool],
    ) -> None:
        """Make an agent, without its birth. `spec`: what the birth records beside the usual."""
        super().__init__(session, runtime=runtime)
        self._given |= {"parameters": None} | dict(spec)
        self._told: (
            tuple[RecordedWorld, Mapping[MessageId, Sequence[ev.TranscriptEntry]]] | None
        ) = None
        self._offered = Toolset(("recorded",), {tool.name: tool for tool in tools})

    def check_kind(self) -> None:
        """Accept the class: a resume goes on with a plain smart agent, after the recorded calls."""

    def take(self, names: Iterable[str]) -> None:
        """Take calls of these tools, too, which it is not shown: the record answers them.

        What a program offers is not always on record, what it ran is.
        """
        hidden = recorded_tools([{"name": name} for name in names], actions=())
        self._offered.by_name.update(
            {tool.name: tool for tool in hidden if tool.name not in self._offered.by_name}
        )

    def hear_with(
        self, world: RecordedWorld, told: Mapping[MessageId, Sequence[ev.TranscriptEntry]]
    ) -> None:
        """Hear with a recorded result what was said with it then."""
        self._told = (world, told)

    async def _act(self, calls: Sequence[OpenCall]) -> None:
        """Run calls; then hear what came with their results."""
        if self._told is None:
            await super()._act(calls)
            return
        world, told = self._told
        before = len(world.given)
        await super()._act(calls)
        for one in world.given[before:]:
            for entry in told.get(one.result.message_id, ()):
                self.session.append(entry_of(self.agent_id, entry))

    def toolbox(self) -> Toolset:
        """Return the recorded tools, whatever there is today."""
        return self._offered


def offered(schemas: Sequence[Mapping[str, Any]], *, is_own: bool) -> list[Tool]:
    """Return tools with these schemas; the structural actions of Harken's own agents act."""
    tools: list[Tool] = []
    for schema in schemas:
        action = ACTIONS.get(str(schema.get("name"))) if is_own else None
        if action is not None:
            tools.append(_as_shown(action, schema))
        else:
            tools += recorded_tools([schema], actions=ACTIONS if is_own else ())
    return tools


def _as_shown(action: Tool, schema: Mapping[str, Any]) -> Tool:
    return RecordedTool(
        name=action.name,
        description=str(schema.get("description", "")),
        parameters={},
        function=action.function,
        arguments=action.arguments,
        shown=schema,
    )


@dataclass(slots=True)
class SessionForker:
    """Brings a fork point into a new session."""

    point: ForkPoint
    change: Change
    session: Session
    runtime: AgentRuntime
    store: Store | None = None
    _ids: dict[AgentId, AgentId] = field(default_factory=dict)
    """What agents of the recorded session are called here."""

    def begin(
        self, messages: Sequence[ChatMessage], schemas: Sequence[Mapping[str, Any]]
    ) -> ForkedAgent:
        """Return the agent, which has read these messages and is offered these tools."""
        point, was = self.point, self.point.agent
        spec = {name: was.spec[name] for name in _KEPT if name in was.spec and point.is_own}
        spec["parameters"] = self.change.asked_with(point.parameters)
        spec["rerun"] = self.provenance()
        tools = offered(schemas, is_own=point.is_own)
        agent = ForkedAgent(self.session, runtime=self.runtime, spec=spec, tools=tools)
        agent.log_birth(name=point.name)
        self._ids[was.id] = agent.agent_id
        self._read(agent.agent_id, was, messages)
        if point.is_own:
            self._below(was)
        self.session.sync()
        return agent

    def provenance(self) -> dict[str, Any]:
        """Return what the birth says of where the agent comes from."""
        said: dict[str, Any] = {
            "session": self.point.session,
            "request": self.point.request.message_id,
            "number": self.point.number,
            "agent": self.point.agent_id,
        }
        changes = self.change.said()
        return {**said, "changes": changes} if changes else said

    def _below(self, top: AgentState) -> None:
        """Bring all agents below one, parents first, then whom each of them talks to."""
        agents = self.point.state.agents
        waiting = [top]
        for above in waiting:  # grows
            hooks = [agents[id_] for id_ in above.hooks]
            for hook in hooks:
                if hook.name not in self.change.without_hooks:
                    self._bear(hook, above, "hook")
            for child in [agents[id_] for id_ in above.subagents]:
                self._bear(child, above, "subagent")
                self._read(self._ids[child.id], child, context_now(child))
                waiting.append(child)
        for state in waiting:
            self._introduce(state)

    def _bear(self, was: AgentState, above: AgentState, relation: ev.Relation) -> None:
        id_ = self._ids[was.id] = self.session.allocate_agent_id()
        model = was.language_model
        if self.change.model is not None and model == self.point.agent.language_model:
            model = model and self.change.model
        self.session.log_agent_created(
            id_,
            self.session.agents[self._ids[above.id]].birth,
            was.name,
            model,
            relation=relation,
            spec={name: value for name, value in was.spec.items() if name != "rerun"},
        )
        if was.saved_state is not None:
            self.session.append(ev.AgentStateSaved(agent_id=id_, state=was.saved_state))

    def _introduce(self, was: AgentState) -> None:
        speakers, listeners = (
            [self._ids[id_] for id_ in some if id_ in self._ids]
            for some in (was.speakers, was.listeners)
        )
        if speakers or listeners:
            met = ev.InterlocutorsSet(
                agent_id=self._ids[was.id], speakers=speakers, listeners=listeners
            )
            self.session.append(met)

    def _read(self, id_: AgentId, was: AgentState, messages: Sequence[ChatMessage]) -> None:
        template = was.spec.get("template")
        begin_with(
            load_agent(self.session, id_, self.runtime),
            messages,
            store=self.store,
            tip=was.commit_id or was.spawn_commit_id,
            origin=CommitOrigin(
                template=str(template.get("name", "")) if isinstance(template, dict) else "",
                principal=f"{self.point.session}/{was.name or was.id}",
                session_id=self.point.session,
            ),
            time=self.point.request.time,
        )


def check_hooks(point: ForkPoint, change: Change, runtime: AgentRuntime) -> None:
    """Raise NameNotFound or ConfigError for a hook that is not there, or not known here."""
    if not point.is_own:
        if change.without_hooks:
            raise ConfigError(f"{point.session}: the hooks of another program are not known here")
        return
    hooks = [one for one in point.state.agents.values() if one.place == "hook"]
    names = [hook.name or hook.id for hook in hooks]
    for name in change.without_hooks:
        if name not in names:
            raise NameNotFound("hook", name, names)
    for hook in hooks:
        if hook.name not in change.without_hooks:
            try:
                get_agent_class(str(hook.spec.get("kind")), runtime)
            except NameNotFound as error:
                raise ConfigError(
                    f"{error}; rerun it in the program that registers it, or without that hook"
                ) from None


def born_from(spec: Mapping[str, Any]) -> tuple[str, MessageId] | None:
    """Return the session and the request that an agent is a rerun of; None: it is none."""
    said = spec.get("rerun")
    if not isinstance(said, dict):
        return None
    session, request = said.get("session"), said.get("request")
    if not isinstance(session, str) or not isinstance(request, str):
        return None
    return session, MessageId(request)
