"""Agents that do again what code did in a recorded session, without that code.

A dumb agent or a hook is a class of somebody's program, which need not be here, nor what it looked
at. What it said and which state it saved stands in the record: a stand-in says it again, in its
order, where it is asked the same. A smart agent is the real one; only when its context is compacted
is taken from the record, since what a model reads at once is not in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from harken.agents.agent import Agent
from harken.agents.guards import is_made
from harken.agents.hooks.hook import Hook
from harken.agents.hooks.options import HookOptions
from harken.agents.smart_agent import SmartAgent
from harken.agents.templates.template import Template, Templates
from harken.core import events as ev
from harken.core.ids import AgentId, MessageId
from harken.core.messages import text_of
from harken.core.verdict import FAILED, HookQuestion, Verdict, exactly, verdict_of
from harken.errors import HarkenError, NameNotFound
from harken.experiments.replay.agent_events import COMPACTOR, kind_of
from harken.experiments.replay.progress import ReplayProgress
from harken.session.state import AgentState


class NotRecorded(HarkenError):
    """An agent was asked what it was not asked in the record."""


class RecordedAgent(Hook):
    """A stand-in for a dumb agent or a hook."""

    script: ClassVar[ReplayProgress]
    given: Mapping[str, Any] | None = None
    """What its birth recorded, of one that is about to be born."""

    def begin(self) -> None:
        """Nothing is to be saved yet."""
        self._saves: ev.AgentStateSaved | None = None

    def load_spec(self, state: AgentState) -> None:
        """Nothing depends on the options of its birth: what it said stands in the record."""
        self.options = HookOptions()

    def restore(self, state: AgentState) -> None:
        """All that it would take back stands in the record."""

    def spec(self) -> dict[str, Any]:
        """Return what the birth recorded."""
        return dict(self.given or super().spec())

    def dump_state(self) -> Any:
        """Return the state that was saved then, else the one that is saved now."""
        return self.state.saved_state if self._saves is None else self._saves.state

    def with_state(self, entry: ev.TranscriptEntry) -> list[ev.Event]:
        """Return what it says and the state in the order of the record: the older one differs."""
        is_first = self._saves is not None and self._saves.cause is not None
        saved = self._changed_state(entry.cause if is_first else None)
        return [*saved, entry] if is_first else [entry, *saved]

    def should_ask(self, question: HookQuestion) -> bool:
        """Whether it is still to be asked just this; what is asked at once waits its turn."""
        subject = self.script.again.named(question.subject)
        asked = self.script.questions_coming(self.script.lane(self), subject)
        return any(one.content == question.words for one in asked)

    async def judge(self, question: HookQuestion) -> Verdict:
        """Return the verdict that it gave, or fail as it did; leave after it, where it left."""
        await self._turn()
        if any(isinstance(one, ev.AgentMoved) and one.place == "gone" for one in self._coming(4)):
            self.quit()
        words = self._next_words()
        if words.startswith(FAILED):
            kind, _, text = words.removeprefix(FAILED).partition(": ")
            raise type(kind, (Exception,), {})(text)
        said = exactly(words)
        if said is None:
            raise ValueError(words)
        return verdict_of(said)

    async def answer(self, heard: str) -> str:
        """Return what it said."""
        await self._turn()
        return self._next_words()

    def note_leaving(self, asked: MessageId) -> None:
        """Log it where the record has it: older ones do not."""
        if isinstance(next(iter(self._coming(1)), None), ev.AgentConfigured):
            super().note_leaving(asked)

    def copy_for(self, agent: Agent) -> Hook | None:
        """Return a stand-in for the copy that it made for an agent; None where it made none."""
        there = self.script.again.of_agent
        if agent.agent_id in there:
            birth = self.script.next_hook(there[agent.agent_id], self.name)
        else:
            lane = there.get(self.state.parent or AgentId(""), "")
            is_hook = is_made(agent.born_with)
            birth = self.script.hook_of_next(lane, self.name, is_hook=is_hook)
        if birth is None:
            return None
        kind = self.script.kinds[kind_of(birth)]
        copy = kind(agent.session, runtime=agent.runtime)
        assert isinstance(copy, Hook)
        if isinstance(copy, RecordedAgent):
            copy.given = birth.spec
        return copy

    async def _turn(self) -> None:
        """Wait until it said in the record what it says next: others act meanwhile."""
        said = next(iter(self._coming(1)), None)
        if said is not None:
            await self.script.until(said)

    def _coming(self, most: int) -> list[ev.Event]:
        """Return its next events, at most so many: what it says, its state, its leaving."""
        return self.script.coming(self.script.lane(self))[:most]

    def _next_words(self) -> str:
        """Return what it says next; the state that it saves with it is saved, too."""
        coming = [one for one in self._coming(3) if not isinstance(one, ev.AgentConfigured)][:2]
        saved = next((one for one in coming if isinstance(one, ev.AgentStateSaved)), None)
        is_first = saved is not None and saved is coming[0]
        self._saves = saved if is_first or (saved is not None and saved.cause is None) else None
        said = next(iter(coming[is_first:]), None)
        if isinstance(said, ev.TranscriptEntry) and said.role == "user":
            if is_first and saved is not None and isinstance(saved.cause, str):
                self.session.append_all(self._changed_state(self.script.here(saved.cause)))
            self.script.crash()  # it was asked again after that: the process ended meanwhile
        if not isinstance(said, ev.TranscriptEntry):
            raise NotRecorded(f"{self.name} was not asked this in the record")
        return text_of(said.content)


class RecordedSmartAgent(SmartAgent):
    """A smart agent whose context is compacted when it was."""

    script: ClassVar[ReplayProgress]

    def is_full(self) -> bool:
        """Whether its context was compacted here."""
        return self.script.is_compacted_next(self.script.lane(self))


def kinds_for(script: ReplayProgress, own: Mapping[str, type[Agent]]) -> dict[str, type[Agent]]:
    """Return a class for each kind of agent in the record, those of `own` as they are."""
    kinds: dict[str, type[Agent]] = {}
    for lane in script.recorded.agents:
        kind = kind_of(script.recorded.events[lane][0])
        if kind == COMPACTOR or kind in kinds:
            continue
        asks = script.recorded.count(lane, ev.LlmRequest) > 0
        base = RecordedSmartAgent if asks or kind == SmartAgent.kind else RecordedAgent
        stand_in = type(base.__name__, (base,), {"kind": kind, "script": script})
        kinds[kind] = own.get(kind, stand_in)
    script.kinds = kinds
    return kinds


class RecordedTemplates(Templates):
    """The templates that agents were made from, as they were then."""

    def __init__(self, uses: Iterable[tuple[str, Template | str]]) -> None:
        """Give back, by name and in their order, what was found, or why it could not be used."""
        super().__init__()
        self.shown = ""
        """What models are told of them."""
        self._uses: dict[str, list[Template | str]] = {}
        for name, found in uses:
            self._uses.setdefault(name, []).append(found)

    def find(self, name: str) -> Template:
        """Return the template as it was when it was used the next time. Raises as it did then."""
        uses = self._uses.get(name)
        if not uses:
            raise NameNotFound("template", name, sorted(self._uses))
        found = uses.pop(0)
        if isinstance(found, str):
            raise HarkenError(found)
        return found

    def listing(self) -> str:
        """Return what models are told of templates."""
        return self.shown


def template_of(birth: ev.AgentCreated, instructions: str) -> Template | None:
    """Return the template that an agent was made from, as far as its birth tells."""
    spec = birth.spec or {}
    origin, tools = spec.get("template"), spec.get("tools")
    if not isinstance(origin, Mapping):
        return None
    return Template(
        name=str(origin.get("name", "")),
        instructions=instructions,
        tools=None if tools is None else tuple(tools),
        model=birth.language_model,
        path=Path("recorded"),
        hash=str(origin.get("hash", "")),
    )
