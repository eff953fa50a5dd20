"""Planning mode: while this hook is installed, an agent reads and plans, and changes nothing.

It ends by itself when the agent has shown a plan and the user agrees. No model judges that: a plan
is a line that begins with `PLAN:`, and an agreement is a yes without anything else. Copies below
are read-only: they end when planning has ended above.

Agreement is detected by text: "yes, but" is no agreement, and unknown text is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from harken.agents import texts
from harken.agents.action_schemas import ACTIONS
from harken.agents.agent import Agent, get_agent
from harken.agents.agent_classes import register_agent_class
from harken.agents.built_in.transcript_reader import entry_at, newest_first
from harken.agents.hooks.hook import Hook
from harken.agents.hooks.options import HookOptions, options_dict
from harken.agents.hooks.review import hook_message
from harken.agents.names import free_name
from harken.agents.tree.actions import parse_arguments_or_empty
from harken.core.event_types.spec import HookPoint
from harken.core.events import AgentMoved, Cause, TranscriptEntry
from harken.core.ids import AgentId
from harken.core.messages import text_of
from harken.core.verdict import (
    Comment,
    Deny,
    HookQuestion,
    Ok,
    Verdict,
    format_verdict,
)

_PLAN_PATTERN = re.compile(r"^[\s#*_>`-]*plan\b[\s*_`]*(?::|$)", re.IGNORECASE | re.MULTILINE)
_YES = (
    *("yes", "yep", "yeah", "yup", "y", "ok", "okay", "sure", "agreed", "i agree", "approved"),
    *("go ahead", "go for it", "go on", "go", "proceed", "do it", "do so", "do that", "please do"),
    *("make it so", "let s go", "lets go", "lgtm", "looks good", "sounds good", "fine", "start"),
)
_FILLERS = (
    *("please", "thanks", "thank you", "then", "now", "good", "great", "perfect", "to me", "and"),
    *("with it", "with that", "with this", "with the plan", "as planned", "that s", "by me"),
)
"""Words without a meaning of their own beside a yes."""
_MAX_AGREEMENT_CHARS = 200
"""The maximum length of an agreement, in characters."""


def has_plan(text: str) -> bool:
    r"""Whether a line of a text announces a plan.

    >>> has_plan("I looked.\n**PLAN:** 1. Rename it."), has_plan("Planning takes time.")
    (True, False)
    """
    return _PLAN_PATTERN.search(text) is not None


def agrees(text: str, also: Iterable[str] = ()) -> bool:
    """Whether a text is an agreement and nothing else. `also` adds words for yes.

    >>> agrees("Yes, go ahead, please!"), agrees("Yes, but rename it first."), agrees("Thanks.")
    (True, False, False)
    """
    if len(text) > _MAX_AGREEMENT_CHARS:
        return False
    remaining, has_yes = f" {_normalize(text)} ", False
    for phrase in sorted({*_YES, *map(_normalize, also)} - {""}, key=len, reverse=True):
        while f" {phrase} " in remaining:
            remaining, has_yes = remaining.replace(f" {phrase} ", "  ", 1), True
    for phrase in sorted(_FILLERS, key=len, reverse=True):
        while f" {phrase} " in remaining:
            remaining = remaining.replace(f" {phrase} ", "  ", 1)
    return has_yes and not remaining.strip()


def _normalize(text: str) -> str:
    """Normalize a text: case-folded words, separated by single spaces."""
    return " ".join(re.findall(r"\w+", text.casefold()))


KIND = "planning-mode"
ALLOWED_ACTIONS = frozenset(
    {"task", "clone", "discuss", "introduce", "terminate", "quit", "compact"}
)
"""Structural actions that are allowed while planning: agents that these create are under planning
mode, too. A new hook would not be; `dump` writes a file; a move is for when there is work to do."""
ASKING = "ask_user"


class PlanningModeOptions(HookOptions, frozen=True):
    """Exceptions to planning mode, and additional words of agreement."""

    allow: tuple[str, ...] = ()
    """Tools that are allowed although they do not declare that they only read."""
    agreed: tuple[str, ...] = ()
    """Additional words for yes, as in another language."""
    inherited: bool = False
    """Whether it is a copy, which ends when planning has ended above. If a move brought its agent
    to the top, it behaves as an original."""


@register_agent_class(KIND)
class PlanningMode(Hook):
    """Denies what may change the world, until user and agent agree to go ahead."""

    _can_unload: ClassVar[bool] = True
    points: ClassVar[frozenset[HookPoint]] = frozenset({"input", "result", "action"})
    Options = PlanningModeOptions
    options: PlanningModeOptions

    def begin(self) -> None:
        """Start before the agent was told of planning mode."""
        self._is_told = False

    def should_ask(self, question: HookQuestion) -> bool:
        """Whether there is a comment or a denial, or planning has ended."""
        watched = self.watched
        if watched is None:
            return False
        if self._is_over_above(watched) or (question.point == "input" and not self._is_told):
            return True
        if question.point == "action":
            return self._refusal_reason(question) is not None
        return self._is_agreed(watched, question)

    async def judge(self, question: HookQuestion) -> Verdict:
        """Tell the agent the rules, deny changes, and leave when planning has ended."""
        watched = self.watched
        if watched is None:
            return Ok()
        if self._is_over_above(watched):
            await self.quit()
            if question.point == "action":
                return Ok()
            return Comment(texts.PLANNING_ENDS.format(texts.PLANNING_ENDED_ABOVE))
        if question.point == "action":
            reason = self._refusal_reason(question)
            return Ok() if reason is None else Deny(reason)
        if self._is_agreed(watched, question):
            await self.quit()
            return Comment(texts.PLANNING_ENDS.format(texts.PLAN_AGREED))
        if question.point == "input" and not self._is_told:
            self._is_told = True
            is_below = self._is_below(watched)
            return Comment(texts.PLANNING_BEGINS_BELOW if is_below else texts.PLANNING_BEGINS)
        return Ok()

    def _is_below(self, watched: Agent) -> bool:
        """Whether it is a copy with an agent above that decides."""
        return self.options.inherited and watched.state.parent is not None

    def _is_over_above(self, watched: Agent) -> bool:
        """Whether it is a copy, and planning has ended at its original."""
        agents, agent_id = self.session.agents, watched.agent_id
        inherited = self.options.inherited
        for _ in agents:
            above = agents[agent_id].parent
            if not inherited or above is None:
                return False
            specs = [agents[hook_id].spec for hook_id in _planning_ids(self, above)]
            if not specs:
                return True
            inherited = all((spec.options or {}).get("inherited") for spec in specs)
            agent_id = above
        return False

    def _refusal_reason(self, question: HookQuestion) -> str | None:
        """Return the reason to deny an action, or None for a read-only or unknown action."""
        call = question.call
        if call is None or call.function.name in self.options.allow:
            return None
        name = call.function.name
        tool = self.runtime.world.tools.get(name)
        if name in ALLOWED_ACTIONS or (tool is None and name not in ACTIONS):
            return None
        if tool is not None and tool.reads_only:
            return None
        return texts.PLANNING_DENIAL.format(name)

    def _is_agreed(self, watched: Agent, question: HookQuestion) -> bool:
        """Whether an input, or an answer to `ask_user`, agrees to a plan."""
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
        """Return a copy that cannot end by itself, or None if planning mode is on already."""
        if agent.agent_id in self.session.agents and _guard_hooks(agent):
            return None
        options = {**options_dict(self.options), "inherited": True}
        return type(self)(agent.session, runtime=agent.runtime, options=options)

    def dump_state(self) -> Any:
        """Return whether the agent was told, so that a resume repeats nothing."""
        return {"told": True} if self._is_told else None

    def load_saved_state(self, saved: Any) -> None:
        """Restore whether the agent was told."""
        self._is_told = isinstance(saved, dict) and saved.get("told") is True


def start_planning(agent: Agent, cause: Cause = None, name: str = KIND) -> Hook:
    """Put an agent, with all agents below it, into planning mode. Return the hook.

    cause: the cause of the birth besides the agent's birth. Does nothing if it is on already.
    """
    existing = _guard_hooks(agent)
    if existing:
        return existing[0]
    hook = PlanningMode(agent.session, runtime=agent.runtime)
    further_causes = [cause] if isinstance(cause, str) else cause or []
    names = [existing_hook.name for existing_hook in agent.hooks]
    causes = [agent.state.birth, *further_causes]
    return hook.install(agent, free_name(name, names), cause=causes)


def stop_planning(agent: Agent, cause: Cause = None) -> bool:
    """End the planning mode of an agent and all agents below it. Return whether it was on.

    Only for users: an agent cannot do that.
    """
    hooks = planning_hooks(agent)
    for hook in hooks:
        verdict = Comment(texts.PLANNING_ENDS.format(texts.PLANNING_STOPPED))
        message = hook.say(format_verdict(verdict), cause)
        agent.session.append(AgentMoved(agent_id=hook.agent_id, place="gone", cause=cause))
        if message.message_id is not None and not agent.state.open_calls:
            comment = hook_message(agent, hook.name, verdict.text, message.message_id)
            agent.session.append(comment)
    return bool(hooks)


def planning_hooks(agent: Agent) -> list[Hook]:
    """Return the hooks that keep an agent in planning mode."""
    hooks = [get_agent(agent, id_) for id_ in _planning_ids(agent, agent.agent_id)]
    return [hook for hook in hooks if isinstance(hook, Hook)]


def _guard_hooks(agent: Agent) -> list[Hook]:
    """Return the planning hooks that the agent did not create itself."""
    return [hook for hook in planning_hooks(agent) if not hook.state.spec.standing.is_made]


def _planning_ids(member: Agent, agent_id: AgentId) -> Sequence[AgentId]:
    agents = member.session.agents
    return [id_ for id_ in agents[agent_id].hooks if agents[id_].spec.kind == KIND]


def _answers_plan(agent: Agent, input_entry: TranscriptEntry) -> bool:
    """Whether an input directly follows an answer with a plan."""
    earlier = (entry for entry in newest_first(agent) if entry.message_id != input_entry.message_id)
    for entry in earlier:
        if entry.role == "user" and entry.cause is not None:
            continue  # comments of hooks
        return entry.is_utterance and has_plan(text_of(entry.content))
    return False


def _asked_with_plan(agent: Agent, result: TranscriptEntry) -> bool:
    """Whether the question of a result contains a plan."""
    for entry in newest_first(agent):
        for call in entry.tool_calls or ():
            if call.id == result.tool_call_id:
                question = parse_arguments_or_empty(call.function.arguments).get("question")
                return isinstance(question, str) and has_plan(question)
    return False
