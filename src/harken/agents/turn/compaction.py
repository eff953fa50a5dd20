"""Compaction: replace the older part of an agent's context with a summary.

The context changes with a single event. The summary is written by a separate agent, a child that
reads the same messages, is asked once and ends; its transcript has the request and the summary. So
a failure, a cancellation or a crash at any time leaves the context unchanged, and the summarized
messages stay in the log and in the commits.

The child has the same instructions, tools and parameters, so that most of its prompt is in the
provider's cache.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from harken.agents import texts
from harken.agents.agent import Agent, log_birth
from harken.agents.agent_classes import register_agent_class
from harken.agents.checkpoints import checkpoint_if_due
from harken.agents.compaction_text import format_summary_message
from harken.agents.compaction_text import format_summary_request as question
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
from harken.agents.turn.request import request_model
from harken.core.event_types.spec import AgentSpec
from harken.core.events import Segment, TranscriptEdited, TranscriptEntry
from harken.core.ids import MessageId
from harken.core.logged_string import LoggedString
from harken.core.messages import ChatMessage, Message, text_of
from harken.core.untrusted import escape_hook_markers
from harken.errors import ModelError
from harken.llm.base import Model
from harken.session.session import Session
from harken.session.state import OpenCall

NAME = "compaction"
"""The name of the child, in views and for scripted models."""
REASON = "compaction"
_STEP_FRACTION, _STEP_FRACTION_IF_TOO_LONG = 4, 16
"""The last step of a turn is kept if it takes at most this fraction (1/n) of the context."""
_CONTEXT_FRACTIONS = (2, 8)
"""Fractions (1/n) of the context that the child reads if the full context does not fit."""


class CompactionResult(msgspec.Struct, frozen=True):
    """The result of a compaction."""

    summary: LoggedString
    messages: int
    """The number of summarized messages."""
    tokens_before: int
    tokens_after: int
    """The size of the full context, estimated where no provider has counted it."""


@register_agent_class("compactor")
class Compactor(Agent):
    """Writes the summary of another agent's context."""

    _can_restore = False

    def __init__(self, above: ToolAgent, messages: Sequence[ChatMessage]) -> None:
        """Create a compactor, without its birth, that reads these messages."""
        super().__init__(
            above.session,
            None,
            [message_dict(message) for message in messages],
            runtime=above.runtime,
        )
        self._model_name = above._language_model
        self._parameters = above.state.spec.parameters

    @property
    def _language_model(self) -> str | None:
        """The name of its model: that of the agent above."""
        state = self.session.agents.get(self.agent_id)
        return state.language_model if state is not None else self._model_name

    def _spec(self) -> AgentSpec:
        """Return the spec that the birth records."""
        return super()._spec().merge(AgentSpec(parameters=self._parameters or None))

    async def sum_up(self, model: Model, tools: Toolset, request: str) -> LoggedString:
        """Return the summary. Raises ModelError, also for an empty summary, and BudgetExceeded."""
        self.harken(request)
        call = await request_model(self, model, tools, self.runtime.observers.on_chunk)
        self._close_open_calls()
        text = text_of(call.answer.content).strip()
        if not text:
            raise ModelError(f"{model.name} returned no summary")
        if call.is_cut_off:
            text += texts.SUMMARY_CUT_OFF
        return LoggedString(text, call.answer.message_id)

    def _close_call(self, call: OpenCall, note: str = "") -> MessageId:
        """Log that a call was not run: a compactor runs none."""
        return self.session.append(
            TranscriptEntry(
                agent_id=self.agent_id,
                role="tool",
                content=texts.SUMMARY_CALL_NOT_RUN,
                tool_call_id=call.id,
                name=call.name or UNNAMED,
                is_error=True,
                closed="not_run",
            )
        )


def tokens_used(agent: ToolAgent) -> int:
    """Return the size of an agent's next request in tokens."""
    context = agent.session.context(agent.agent_id)
    return count_context_tokens(context, agent.state.counted_tokens, agent._get_toolset().schemas)


async def compact(
    agent: ToolAgent,
    model: Model,
    *,
    pending: bool,
    instructions: str = "",
    least: float = 0.0,
    fits: bool = True,
) -> CompactionResult | None:
    """Replace the context of an agent, whose calls have results, with a summary.

    The system prompt is kept; if an answer is `pending`, also the last request and the last step.
    instructions: instructions for the summary. least: the minimum share of the context to replace;
    the summary must then be shorter than that share, too. fits: whether the model still accepts the
    context as it is. Returns None if there is too little to summarize. Hooks may refuse, or add
    instructions; without `least` they are told that the user requested it. Raises ModelError and
    BudgetExceeded with the context unchanged.
    """
    context, before = agent.session.context(agent.agent_id), tokens_used(agent)
    step_limit = before // (_STEP_FRACTION if fits else _STEP_FRACTION_IF_TOO_LONG)
    split = split_context(context, pending=pending, most=step_limit)
    removed = context[split.summary_start : split.retained_start]
    retained = [] if split.request is None else [context[split.request]]
    gain = (estimate_tokens(removed) - estimate_tokens(retained)) / max(estimate_tokens(context), 1)
    if not split.is_worth_it or gain < least:
        return None
    trigger: Trigger = "auto" if least else "manual"
    all_instructions = await _collect_instructions(
        agent, CompactionStarting(trigger=trigger, instructions=instructions)
    )
    task = _Task(question(all_instructions), split, gain * before if least else None)
    summary = await _summarize(agent, model, task, fits=fits)
    checkpoint_if_due(agent, "compaction")
    await notify_hooks(agent, HasCompacted(trigger=trigger, summary=str(summary)))
    return CompactionResult(summary, len(removed) - len(retained), before, tokens_used(agent))


async def _collect_instructions(agent: ToolAgent, happening: CompactionStarting) -> str:
    """Return all instructions for the summary. Raises ModelError if a hook refuses."""
    replies = await notify_hooks(agent, happening)
    for reply in replies:
        if reply.refusal is not None:
            raise ModelError(f"hook {reply.hook} refuses the compaction: {reply.refusal}")
    return "\n\n".join(
        filter(None, [happening.instructions, *(reply.instructions for reply in replies)])
    )


class _Task(msgspec.Struct, frozen=True):
    """A compaction to do."""

    question: str
    split: ContextSplit
    max_tokens: float | None
    """The size that the summary must stay below, in tokens, or None."""


async def _summarize(agent: ToolAgent, model: Model, task: _Task, *, fits: bool) -> LoggedString:
    """Let a child write the summary, and retry with parts of the context if it is too long."""
    context = agent.session.context(agent.agent_id)[: task.split.retained_start]
    shares = _CONTEXT_FRACTIONS if not fits else (1, *_CONTEXT_FRACTIONS)
    for share in shares:
        limit = estimate_tokens(context) // share
        messages = (
            context if share == 1 else trim_to_tokens(context, task.split.summary_start, limit)
        )
        try:
            return await _summarize_with_child(agent, model, messages, task)
        except ModelError as error:
            if error.kind != "context_too_long" or share == shares[-1]:
                raise
    raise AssertionError("the last share returns or raises")


async def _summarize_with_child(
    agent: ToolAgent, model: Model, messages: Sequence[ChatMessage], task: _Task
) -> LoggedString:
    """Let a child write the summary, and put it into the agent's context."""
    child = Compactor(agent, messages)
    birth = log_birth(child, agent.state.birth, NAME, "subagent")
    try:
        summary = await child.sum_up(model, agent._get_toolset(), task.question)
        if (
            task.max_tokens is not None
            and estimate_tokens([Message("user", summary)]) >= task.max_tokens
        ):
            raise ModelError(
                f"{model.name} returned a summary that is not shorter than the original"
            )
        _edit_context(agent, child, task.split, summary)
    finally:
        end_subtree(agent.session, child.agent_id, birth)
    return summary


def _edit_context(
    agent: ToolAgent, child: Compactor, split: ContextSplit, summary: LoggedString
) -> None:
    """Edit the agent's context: the only event of a compaction that changes it."""
    end = len(agent.session.context(agent.agent_id))
    is_pending = split.request is not None or split.retained_start < end
    text = format_summary_message(summary, is_pending=is_pending)
    entry = TranscriptEntry(
        agent_id=child.agent_id,
        role="user",
        content=escape_hook_markers(text),
        cause=summary.message_id,
        purpose="summary",
    )
    id_ = agent.session.append(entry)
    segments = [Segment(start=0, stop=split.summary_start), Segment(entries=[id_])]
    if split.request is not None:
        segments.append(Segment(start=split.request, stop=split.request + 1))
    segments.append(Segment(start=split.retained_start, stop=end))
    agent.session.append(
        TranscriptEdited(
            agent_id=agent.agent_id,
            segments=[
                segment for segment in segments if segment.entries or segment.start != segment.stop
            ],
            summary=id_,
            reason=REASON,
        )
    )


def end_compactions(session: Session) -> None:
    """End children that a crash left behind. The contexts of their parents are unchanged."""
    for state in list(session.agents.values()):
        if state.spec.kind == Compactor._kind and session.state.is_live(state.id):
            end_subtree(session, state.id, state.birth)
