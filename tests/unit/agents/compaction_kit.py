"""What tests of compaction share: agents that talk much, and a model that sums up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harken import AgentRuntime, LocalWorld, tool
from harken.agents.action_schemas import BASIC_ACTIONS
from harken.agents.checkpointer import Checkpointer
from harken.agents.load import load_session
from harken.agents.runtime import ActionPolicy, ContextLimits, ModelSettings, Observers
from harken.agents.smart_agent import SmartAgent
from harken.agents.turn.compaction import NAME
from harken.context.materialize import make_resolver, materialize
from harken.core.commits import CommitId
from harken.core.events import Usage
from harken.core.messages import text_of
from harken.core.stream import Chunk, Finish, TextDelta
from harken.llm.base import ModelRequest
from harken.llm.context_windows import ContextWindows
from harken.session.session import SessionOptions
from harken.store.base import StoredCommit
from harken.store.memory import MemoryStore
from harken.testing import ticking
from tests.agent_kit import ScriptedAnswer, ScriptModel, Stage, full_state, open_stage

WORDS = "kettle " * 100
"""175 tokens, as they are estimated."""
SUMMARY = "## Goals\nTea for everybody."


@tool
def look(n: int = 0) -> str:
    """Look around."""
    return f"{n}: {WORDS}"


def said(text: str, read: int | None = None, written: int = 10) -> list[Chunk]:
    """Return an answer that the provider has counted."""
    usage = None if read is None else Usage(input_tokens=read, output_tokens=written)
    return [TextDelta(text), Finish(stop_reason="end_turn", usage=usage)]


class Talk(ScriptModel):
    """Gives each agent its lines in the order in which it is asked; who sums up has one line.

    A compaction takes answers out of a context, so their number says nothing here.
    """

    def _answer(self, request: ModelRequest) -> Any:
        part = self.answers[request.agent]
        at = 0 if request.agent == NAME else len(self.requests_of(request.agent)) - 1
        line = part[at] if at < len(part) else f"[{request.agent} has no line {at}]"
        if isinstance(line, Exception):
            raise line
        return line(request) if callable(line) else line


def talk(*, compaction: ScriptedAnswer = SUMMARY, **parts: Sequence[ScriptedAnswer]) -> Talk:
    """Return a model with these parts, and what it says when it sums up."""
    return Talk({**parts, NAME: [compaction]})


@dataclass
class Scene:
    """A session whose agents are compacted."""

    stage: Stage
    store: MemoryStore
    told: list[str] = field(default_factory=list)

    @property
    def root(self) -> SmartAgent:
        assert isinstance(self.stage.root, SmartAgent)
        return self.stage.root

    def ask(self, text: str | None = None) -> str:
        return self.stage.ask(text)

    def context(self, name: str = "main") -> list[tuple[str, str]]:
        return plain(self.stage.session.context(self.stage.id_of(name)))

    def commits(self, name: str = "main") -> list[StoredCommit]:
        """The commits of an agent, oldest first."""
        state = self.stage.session.agent(self.stage.id_of(name))
        assert state.commit_id is not None
        return self.store.chain(CommitId(state.commit_id))[::-1]

    def kept(self, stop: str = "compaction", name: str = "main") -> list[tuple[str, str]]:
        return plain(materialize(self.store, self.commits(name)[-1].id, stop).messages)

    def resumed(self, model: ScriptModel | None = None, log: bytes | None = None) -> Scene:
        """Close the session and resume it, from another text of its log if there is one."""
        self.stage.session.close()
        if log is not None:
            self.stage.log.write_bytes(log)
        runtime = self.stage.runtime
        runtime = runtime if model is None else replace(runtime, model=model)
        root, session = load_session(self.stage.log, runtime=runtime, options=options(self.store))
        return Scene(Stage(root, session, runtime), self.store, self.told)

    def is_exact(self) -> bool:
        """Whether the state is what the log alone says. The session is closed then."""
        before, again = full_state(self.stage.session), self.resumed()
        with again.stage.session:
            return full_state(again.stage.session) == before


def begin(folder: Path, model: ScriptModel, *, window: int | None = None, **how: Any) -> Scene:
    """Begin a session whose models read so many tokens at once."""
    store, told = how.pop("store", None) or MemoryStore(), list[str]()
    windows = ContextWindows({"*": window} if window else {})
    runtime = AgentRuntime(
        model=model,
        world=LocalWorld([look]),
        checkpoints=Checkpointer(store=store, turns_per_commit=how.pop("every", 1)),
        limits=ContextLimits(windows=windows, compact_at=how.pop("compact_at", 0.8)),
        models=ModelSettings(parameters=how.pop("parameters", {})),
        policy=ActionPolicy(actions=how.pop("actions", BASIC_ACTIONS)),
        observers=Observers(on_notice=told.append, on_chunk=how.pop("on_chunk", None)),
    )
    made = open_stage(folder, model, runtime=runtime, options=options(store), **how)
    return Scene(made, store, told)


def options(store: MemoryStore) -> SessionOptions:
    return SessionOptions(durability="none", clock=ticking(), resolver=make_resolver(store))


def plain(messages: Sequence[Any]) -> list[tuple[str, str]]:
    return [(message.role, text_of(message.content)) for message in messages]


def shape(commits: Sequence[StoredCommit]) -> list[tuple[str, str, int]]:
    return [(c.commit.type, c.commit.checkpoint, c.commit.message_count) for c in commits]
