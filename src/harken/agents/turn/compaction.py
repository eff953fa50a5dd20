"""Compaction: a summary takes the place of the older part of an agent's context.

One idea: the agent that is compacted changes with one event. Who sums up is an agent of its own, a
child that reads the same messages, is asked once and ends; summary and question stand in its
transcript. So a failure, a cancellation or a crash at any moment leaves the context as it was, and
what was summed up stays what it was in the log and in the commits.

The child is given the same instructions, tools and parameters, so that a provider has most of the
prompt in its cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harken.agents.agent import Agent
from harken.agents.agent_classes import register_agent_class
from harken.agents.compaction_text import CUT_OFF, NOT_RUN, question, stand_in
from harken.agents.hooks.notifications import CompactionFinished as HasCompacted
from harken.agents.hooks.notifications import CompactionStarting, Trigger, notify_hooks
from harken.agents.initial_transcript import UNNAMED, message_dict
from harken.agents.tool_agent import ToolAgent, Toolset
from harken.agents.tree.actions import end_subtree
from harken.agents.turn.context_split import (
    ContextSplit,
    count_context_tokens,
    estimate_tokens,
    split_context,
    trim_to_tokens,
)
from harken.agents.turn.request import ask
from harken.core.events import Segment, TranscriptEdited, TranscriptEntry
from harken.core.ids import MessageId
from harken.core.logged_string import LoggedString
from harken.core.messages import ChatMessage, Message, text_of
from harken.core.untrusted import from_outside
from harken.errors import ModelError
from harken.llm.base import Model
from harken.session.session import Session
from harken.session.state import OpenCall

NAME = "compaction"
"""How the child is called, in views and for scripted models."""
REASON = "compaction"
_KEPT, _KEPT_OF_TOO_MUCH = 4, 16
"""The last step of a turn stays where it takes no more than such a part of the context."""
_SHARES = (2, 8)
"""Which part of the context the child reads where all of it does not fit."""


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """What a compaction did."""

    summary: LoggedString
    messages: int
    """How many were summed up."""
    tokens_before: int
    tokens_after: int
    """Of the whole context, estimated as far as nobody has counted."""


@register_agent_class("compactor")
class Compactor(Agent):
    """Sums up what another agent has in its context."""

    can_restore = False

    def __init__(self, above: ToolAgent, messages: Sequence[ChatMessage]) -> None:
        """Make one, without its birth, that reads these messages."""
        super().__init__(
            above.session, None, [message_dict(one) for one in messages], runtime=above.runtime
        )
        self._model_name = above.language_model
        self._parameters = above.state.spec.get("parameters")

    @property
    def language_model(self) -> str | None:
        """The name of the model that it asks: that of the agent above."""
        state = self.session.agents.get(self.agent_id)
        return state.language_model if state is not None else self._model_name

    def spec(self) -> dict[str, Any]:
        """Return what the birth records."""
        given = {"parameters": self._parameters} if self._parameters else {}
        return {**super().spec(), **given}

    async def sum_up(self, model: Model, tools: Toolset, asked: str) -> LoggedString:
        """Return the summary. Raises ModelError, also where there is none, and BudgetExceeded."""
        self.harken(asked)
        call = await ask(self, model, tools, self.runtime.on_chunk)
        self.close_open_calls()
        text = text_of(call.answer.content).strip()
        if not text:
            raise ModelError(f"{model.name} gave no summary")
        if call.is_cut_off:
            text += CUT_OFF
        return LoggedString(text, call.answer.message_id)

    def close_call(self, call: OpenCall) -> MessageId:
        """Say that a call was not run: nothing is, here."""
        return self.session.append(
            TranscriptEntry(
                agent_id=self.agent_id,
                role="tool",
                content=NOT_RUN,
                tool_call_id=call.id,
                name=call.name or UNNAMED,
                is_error=True,
            )
        )


def tokens_used(agent: ToolAgent) -> int:
    """Return how many tokens the next request of an agent takes."""
    context = agent.session.context(agent.agent_id)
    return count_context_tokens(context, agent.state.counted_tokens, agent.toolbox().schemas)


async def compact(
    agent: ToolAgent,
    model: Model,
    *,
    pending: bool,
    instructions: str = "",
    least: float = 0.0,
    fits: bool = True,
) -> CompactionResult | None:
    """Put a summary in the place of what an agent, whose calls have results, has in its context.

    Its system prompt stays; where an answer is `pending`, so does what it was asked, and its last
    step. instructions: what the summary shall keep. least: the part of the context that has to
    give way for it to be worth it; then the summary has to be shorter than that, too. fits: whether
    the model still takes the context as it is. None: there is too little to sum up. Its hooks may
    refuse, or say what else shall be kept; without `least` they hear that the user wants it. Raises
    ModelError and BudgetExceeded; nothing has changed for the agent then.
    """
    context, before = agent.session.context(agent.agent_id), tokens_used(agent)
    most = before // (_KEPT if fits else _KEPT_OF_TOO_MUCH)
    cut = split_context(context, pending=pending, most=most)
    gone = context[cut.begins : cut.stays]
    kept = [] if cut.request is None else [context[cut.request]]
    gain = (estimate_tokens(gone) - estimate_tokens(kept)) / max(estimate_tokens(context), 1)
    if not cut.is_worth_it or gain < least:
        return None
    trigger: Trigger = "auto" if least else "manual"
    wanted = await _instructions(
        agent, CompactionStarting(trigger=trigger, instructions=instructions)
    )
    task = _Task(question(wanted), cut, gain * before if least else None)
    summary = await _summed_up(agent, model, task, fits=fits)
    agent.checkpoint_if_due("compaction")
    await notify_hooks(agent, HasCompacted(trigger=trigger, summary=str(summary)))
    return CompactionResult(summary, len(gone) - len(kept), before, tokens_used(agent))


async def _instructions(agent: ToolAgent, happening: CompactionStarting) -> str:
    """Return what the summary shall keep, also by what hooks say. Raises ModelError for a no."""
    words = await notify_hooks(agent, happening)
    for word in words:
        if word.refusal is not None:
            raise ModelError(f"hook {word.hook} does not let the context go: {word.refusal}")
    return "\n\n".join(filter(None, [happening.instructions, *(word.more for word in words)]))


@dataclass(frozen=True, slots=True)
class _Task:
    """What there is to sum up."""

    question: str
    cut: ContextSplit
    most: float | None
    """How many tokens the summary has to stay below; None: it may be as long as it likes."""


async def _summed_up(agent: ToolAgent, model: Model, task: _Task, *, fits: bool) -> LoggedString:
    """Let a child sum up; where it was given too much, let another try with a part of it."""
    context = agent.session.context(agent.agent_id)[: task.cut.stays]
    shares = _SHARES if not fits else (1, *_SHARES)
    for share in shares:
        most = estimate_tokens(context) // share
        messages = context if share == 1 else trim_to_tokens(context, task.cut.begins, most)
        try:
            return await _asked(agent, model, messages, task)
        except ModelError as error:
            if error.why != "context_too_long" or share == shares[-1]:
                raise
    raise AssertionError("the last share returns or raises")


async def _asked(
    agent: ToolAgent, model: Model, messages: Sequence[ChatMessage], task: _Task
) -> LoggedString:
    """Let a child sum up, and let the agent go on with its summary."""
    child = Compactor(agent, messages)
    birth = child.log_birth(agent.state.birth, NAME, "subagent")
    try:
        summary = await child.sum_up(model, agent.toolbox(), task.question)
        if task.most is not None and estimate_tokens([Message("user", summary)]) >= task.most:
            raise ModelError(f"{model.name} gave a summary that is no shorter than what it sums up")
        _go_on(agent, child, task.cut, summary)
    finally:
        end_subtree(agent.session, child.agent_id, birth)
    return summary


def _go_on(agent: ToolAgent, child: Compactor, cut: ContextSplit, summary: LoggedString) -> None:
    """Change the agent's context: the only event of all that it is about."""
    end = len(agent.session.context(agent.agent_id))
    is_pending = cut.request is not None or cut.stays < end
    text = stand_in(summary, is_pending=is_pending)
    entry = TranscriptEntry(
        agent_id=child.agent_id, role="user", content=from_outside(text), cause=summary.message_id
    )
    id_ = agent.session.append(entry)
    segments = [Segment(start=0, stop=cut.begins), Segment(entries=[id_])]
    if cut.request is not None:
        segments.append(Segment(start=cut.request, stop=cut.request + 1))
    segments.append(Segment(start=cut.stays, stop=end))
    agent.session.append(
        TranscriptEdited(
            agent_id=agent.agent_id,
            segments=[one for one in segments if one.entries or one.start != one.stop],
            summary=id_,
            reason=REASON,
        )
    )


def end_compactions(session: Session) -> None:
    """End the children that a crash left behind; the contexts of those above are as they were."""
    for state in list(session.agents.values()):
        if state.spec.get("kind") == Compactor.kind and session.state.is_live(state.id):
            end_subtree(session, state.id, state.birth)
