"""Planning mode: while this hook is there, an agent looks and thinks, and changes nothing.

It ends by itself when the agent has shown a plan and the user agrees, without a model that judges
that: a plan is a line that begins with `PLAN:`, and to agree is to say yes and nothing else.
Copies below are read-only: nobody there can agree, and they end when planning has ended above.

Agreement: whether a text has a plan in it, and whether an answer says yes to it and no more.

Whoever says "yes, but" has not agreed; and what is not understood is no agreement.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from harken.agents.action_schemas import ACTIONS
from harken.agents.agent import Agent
from harken.agents.agent_classes import register_agent_class
from harken.agents.built_in.transcript_reader import entry_at, newest_first
from harken.agents.guards import is_made
from harken.agents.hooks.hook import Hook, comment_entry
from harken.agents.hooks.options import HookOptions, options_dict
from harken.agents.names import free_name
from harken.agents.tree.actions import parse_arguments_or_empty
from harken.core.events import AgentMoved, Cause, TranscriptEntry
from harken.core.ids import AgentId
from harken.core.messages import text_of
from harken.core.verdict import (
    Comment,
    Deny,
    HookPoint,
    HookQuestion,
    HookVerdict,
    Ok,
    Verdict,
    format_verdict,
)

_PLAN = re.compile(r"^[\s#*_>`-]*plan\b[\s*_`]*(?::|$)", re.IGNORECASE | re.MULTILINE)


_YES = (
    *("yes", "yep", "yeah", "yup", "y", "ok", "okay", "sure", "agreed", "i agree", "approved"),
    *("go ahead", "go for it", "go on", "go", "proceed", "do it", "do so", "do that", "please do"),
    *("make it so", "let s go", "lets go", "lgtm", "looks good", "sounds good", "fine", "start"),
)


_BESIDE = (
    *("please", "thanks", "thank you", "then", "now", "good", "great", "perfect", "to me", "and"),
    *("with it", "with that", "with this", "with the plan", "as planned", "that s", "by me"),
)
"""What may stand beside a yes and says nothing."""


_LONGEST = 200
"""Who only agrees says it in fewer characters."""


def has_plan(text: str) -> bool:
    r"""Whether a line of a text announces a plan.

    >>> has_plan("I looked.\n**PLAN:** 1. Rename it."), has_plan("Planning takes time.")
    (True, False)
    """
    return _PLAN.search(text) is not None


def agrees(text: str, also: Iterable[str] = ()) -> bool:
    """Whether a text agrees, and says nothing else. `also` are more words for yes.

    >>> agrees("Yes, go ahead, please!"), agrees("Yes, but rename it first."), agrees("Thanks.")
    (True, False, False)
    """
    if len(text) > _LONGEST:
        return False
    rest, found = f" {_plain(text)} ", False
    for phrase in sorted({*_YES, *map(_plain, also)} - {""}, key=len, reverse=True):
        while f" {phrase} " in rest:
            rest, found = rest.replace(f" {phrase} ", "  ", 1), True
    for phrase in sorted(_BESIDE, key=len, reverse=True):
        while f" {phrase} " in rest:
            rest = rest.replace(f" {phrase} ", "  ", 1)
    return found and not rest.strip()


def _plain(text: str) -> str:
    """Return a text without case and signs, its words with one space between them."""
    return " ".join(re.findall(r"\w+", text.casefold()))


KIND = "planning-mode"
THINKING = frozenset({"task", "clone", "discuss", "introduce", "terminate", "quit"})
"""Structural actions while planning: of whoever these bring in, all are under planning mode, too.
A new hook would not be; `dump` writes a file; a move is for when there is something to do."""
ASKING = "ask_user"

BEGINS = (
    "Planning mode: look, read and think, but change nothing; what would change something is "
    "denied. When your plan stands, end your answer with a line that begins with `PLAN:` and put "
    "the plan there, or ask with `ask_user` with such a line in the question. Planning ends when "
    "the user agrees."
)
BEGINS_BELOW = (
    "Planning mode: look, read and think, but change nothing; what would change something is "
    "denied until planning has ended above you. Answer with what you found, or what you would do."
)
ENDS = "Planning mode is over: {}. You may change things now."
DENIED = "this is planning mode: {} may change something. {}"


class PlanningModeOptions(HookOptions, frozen=True):
    """What is allowed in spite of it, and who may end it."""

    allow: tuple[str, ...] = ()
    """Tools that are allowed though they do not say that they only read."""
    agreed: tuple[str, ...] = ()
    """What else means yes, as in another language."""
    inherited: bool = False
    """A copy: it ends when planning has ended above. Where a move brought its agent to the top, it
    is as any other."""


@register_agent_class(KIND)
class PlanningMode(Hook):
    """Denies what may change the world, until user and agent agree to go ahead."""

    can_unload: ClassVar[bool] = True
    points: ClassVar[frozenset[HookPoint]] = frozenset({"input", "result", "action"})
    Options = PlanningModeOptions
    options: PlanningModeOptions

    def begin(self) -> None:
        """Nothing was said yet."""
        self._told = False

    def should_ask(self, question: HookQuestion) -> bool:
        """Whether there is something to say, or planning is over."""
        watched = self.watched
        if watched is None:
            return False
        if self._is_over_above(watched) or (question.point == "input" and not self._told):
            return True
        if question.point == "action":
            return self._why_not(question) is not None
        return self._is_agreed(watched, question)

    def judge(self, question: HookQuestion) -> Verdict:
        """Tell what holds, deny what changes something, and leave when planning is over."""
        watched = self.watched
        if watched is None:
            return Ok()
        if self._is_over_above(watched):
            self.quit()
            if question.point == "action":
                return Ok()
            return Comment(ENDS.format("it has ended above you"))
        if question.point == "action":
            reason = self._why_not(question)
            return Ok() if reason is None else Deny(reason)
        if self._is_agreed(watched, question):
            self.quit()
            return Comment(ENDS.format("your plan was agreed to"))
        if question.point == "input" and not self._told:
            self._told = True
            return Comment(BEGINS_BELOW if self._is_below(watched) else BEGINS)
        return Ok()

    def _is_below(self, watched: Agent) -> bool:
        """Whether it is a copy, and somebody above decides."""
        return self.options.inherited and watched.state.parent is not None

    def _is_over_above(self, watched: Agent) -> bool:
        """Whether it is a copy, and planning has ended where it came from."""
        agents, at = self.session.agents, watched.agent_id
        inherited = self.options.inherited
        for _ in agents:
            above = agents[at].parent
            if not inherited or above is None:
                return False
            there = [agents[one].spec for one in _planning(self, above)]
            if not there:
                return True
            inherited = all((spec.get("options") or {}).get("inherited") for spec in there)
            at = above
        return False

    def _why_not(self, question: HookQuestion) -> str | None:
        """Return why an action is denied; None where it only reads, or is nothing at all."""
        call = question.call
        if call is None or call.function.name in self.options.allow:
            return None
        name = call.function.name
        tool = self.runtime.world.tools.get(name)
        if name in THINKING or (tool is None and name not in ACTIONS):
            return None
        if tool is not None and tool.reads_only:
            return None
        how = "End your answer with `PLAN:` and what you would do"
        return DENIED.format(name, f"{how}; planning ends when the user agrees")

    def _is_agreed(self, watched: Agent, question: HookQuestion) -> bool:
        """Whether this input, or this answer to `ask_user`, agrees to a plan."""
        if self._is_below(watched) or not agrees(question.text, self.options.agreed):
            return False
        entry = entry_at(watched, question.subject)
        if entry is None:
            return False
        if question.point == "result":
            return entry.name == ASKING and not entry.is_error and _asked_with_plan(watched, entry)
        from_user = watched.state.place != "primary" or entry.substance is None
        return from_user and _answers_plan(watched, entry)

    def copy_for(self, agent: Agent) -> Hook | None:
        """Return a copy that cannot end by itself; None where planning mode is on already."""
        if agent.agent_id in self.session.agents and _ordered(agent):
            return None
        options = {**options_dict(self.options), "inherited": True}
        return type(self)(agent.session, runtime=agent.runtime, options=options)

    def dump_state(self) -> Any:
        """Return whether the agent knows, so that a resume repeats nothing."""
        return {"told": True} if self._told else None

    def load_saved_state(self, saved: Any) -> None:
        """Take back whether the agent knows."""
        self._told = isinstance(saved, dict) and saved.get("told") is True


def start_planning(agent: Agent, cause: Cause = None, name: str = KIND) -> Hook:
    """Put an agent, with everybody below it, into planning mode; return the hook.

    cause: what asked for it, beside the agent's birth. Where it is there already, nothing changes.
    """
    there = _ordered(agent)
    if there:
        return there[0]
    hook = PlanningMode(agent.session, runtime=agent.runtime)
    also = [cause] if isinstance(cause, str) else cause or []
    taken = [one.name for one in agent.hooks]
    hook.install_with_copies(agent, free_name(name, taken), [agent.state.birth, *also])
    return hook


def stop_planning(agent: Agent, cause: Cause = None) -> bool:
    """End an agent's planning mode, and so that of everybody below; return whether it was there.

    For a user: an agent has no way to it.
    """
    hooks = planning(agent)
    for hook in hooks:
        verdict = Comment(ENDS.format("the user ended it"))
        said = hook.say(format_verdict(verdict), cause)
        agent.session.append(AgentMoved(agent_id=hook.agent_id, place="gone", cause=cause))
        if said.message_id is not None and not agent.state.open_calls:
            opinion = HookVerdict(hook.name, verdict, said.message_id)
            agent.session.append(comment_entry(agent, opinion, verdict.text))
    return bool(hooks)


def planning(agent: Agent) -> list[Hook]:
    """Return the hooks that keep an agent in planning mode."""
    hooks = [agent.agent_by_id(one) for one in _planning(agent, agent.agent_id)]
    return [hook for hook in hooks if isinstance(hook, Hook)]


def _ordered(agent: Agent) -> list[Hook]:
    """Return those among them that the agent did not make itself."""
    return [hook for hook in planning(agent) if not is_made(hook.state.spec)]


def _planning(any_: Agent, agent_id: AgentId) -> Sequence[AgentId]:
    agents = any_.session.agents
    return [one for one in agents[agent_id].hooks if agents[one].spec.get("kind") == KIND]


def _answers_plan(agent: Agent, heard: TranscriptEntry) -> bool:
    """Whether what was heard directly follows an answer with a plan in it."""
    before = (entry for entry in newest_first(agent) if entry.message_id != heard.message_id)
    for entry in before:
        if entry.role == "user" and entry.cause is not None:
            continue  # what hooks said
        return entry.is_utterance and has_plan(text_of(entry.content))
    return False


def _asked_with_plan(agent: Agent, result: TranscriptEntry) -> bool:
    """Whether the question that this answers has a plan in it."""
    for entry in newest_first(agent):
        for call in entry.tool_calls or ():
            if call.id == result.tool_call_id:
                question = parse_arguments_or_empty(call.function.arguments).get("question")
                return isinstance(question, str) and has_plan(question)
    return False
