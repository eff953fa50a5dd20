"""Hook questions about an agent's turn, at each of the four points.

Before a model reads an input or a tool result, every hook has been asked about it exactly once; the
same holds for actions before they run and for answers before they are delivered.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from harken.agents import texts
from harken.agents.agent import Agent
from harken.agents.hooks.hook import hook_points
from harken.agents.hooks.pending_answer import MAX_DENIALS
from harken.agents.hooks.review import (
    answer_question,
    deliver_comments,
    find_review,
    hook_message,
    hook_name,
    review,
)
from harken.agents.hooks.verdict_call import (
    answer_text,
    close_verdict_call,
    is_verdict_result,
    pending_verdict_call,
)
from harken.core.event_types.spec import HookPoint
from harken.core.events import AnswerGiven, HookVerdict, TranscriptEntry
from harken.core.ids import USER, reference_number
from harken.core.logged_string import LoggedString
from harken.core.messages import ChatMessage, FunctionCall, ToolCall, text_of
from harken.core.verdict import HookQuestion
from harken.session.state import OpenCall, Review


def has_hook_at(agent: Agent, point: HookPoint) -> bool:
    """Whether any hook of an agent is asked at a point."""
    return any(point in hook_points(hook) for hook in agent.hooks)


def new_inputs(agent: Agent) -> list[ChatMessage]:
    """Return the inputs since the last model call, without hooks' comments."""
    context = agent.session.context(agent.agent_id)
    entries = context[len(context) - len(agent.state.new_entries) :]
    return [
        entry for entry in entries if entry.role == "user" and not getattr(entry, "cause", None)
    ]


def new_results(agent: Agent) -> list[TranscriptEntry]:
    """Return the tool results since the last model call, oldest first.

    Results that only mark an interrupted call are left out: no tool returned them.
    """
    if not agent.state.usage.model_calls:
        return []  # the results in its initial transcript are another's
    last = agent.state.request
    request_number = -1 if last is None else reference_number(last.message_id)
    context = agent.session.context(agent.agent_id)
    trailing = takewhile(lambda entry: entry.role != "assistant", reversed(context))
    results = [
        entry
        for entry in trailing
        if isinstance(entry, TranscriptEntry)
        and entry.role == "tool"
        and _has_result(entry)
        and not is_verdict_result(agent, entry)
    ]
    return [
        entry for entry in reversed(results) if reference_number(entry.message_id) > request_number
    ]


def _has_result(entry: TranscriptEntry) -> bool:
    """Whether hooks are asked about a result: those of calls that were closed are no results."""
    return entry.closed in (None, "denied", "refused")


async def comment_on_result(agent: Agent, result: TranscriptEntry) -> None:
    """Let hooks comment on a result. Raises TurnEnded, StoppedByHook."""
    await _judge_all(agent, "result", [result])
    deliver_comments(agent)


async def judge_unread(agent: Agent) -> None:
    """Let hooks judge what the model reads next, then deliver their comments.

    Results come before inputs. Raises TurnEnded, StoppedByHook.
    """
    await _judge_all(agent, "result", new_results(agent))
    await _judge_all(agent, "input", new_inputs(agent))
    deliver_comments(agent)


async def _judge_all(agent: Agent, point: HookPoint, messages: Sequence[ChatMessage]) -> None:
    if not messages or not has_hook_at(agent, point):
        return
    for message in messages:
        if isinstance(message, TranscriptEntry):
            text, id_ = text_of(message.content), message.message_id
            await review(agent, HookQuestion(point, agent.name, id_, text))


async def judge_call(agent: Agent, call: OpenCall) -> Review:
    """Let hooks judge a call before it runs. Raises TurnEnded, StoppedByHook."""
    tool_call = ToolCall(call.id, FunctionCall(call.name, call.arguments))
    question = HookQuestion("action", agent.name, call.reference, call.arguments, tool_call)
    return await review(agent, question)


async def judge_answer(agent: Agent, entry: TranscriptEntry) -> Review:
    """Let hooks judge an answer before it is delivered. Raises TurnEnded, StoppedByHook.

    An answer that was given already is not judged again.
    """
    if entry.message_id == agent.state.given_answer:
        return find_review(agent, answer_question(agent, entry))
    verdicts = await review(agent, answer_question(agent, entry))
    deliver_comments(agent)
    return verdicts


def send_back(agent: Agent, denial: HookVerdict, denials: int) -> None:
    """Tell an agent why its answer was blocked; denials: the number of earlier denials."""
    text = texts.RESPONSE_BLOCKED.format(denials + 1, MAX_DENIALS, denial.text or "")
    name, cause = hook_name(agent, denial), denial.message_id
    call = pending_verdict_call(agent)
    with agent.session.group():
        if call is not None:
            reason = texts.VERDICT_DENIED.format(name, denial.text or "")
            close_verdict_call(agent, call, reason, is_error=True, closed="denied")
        agent.session.append(hook_message(agent, name, text, cause, "returned"))


def give_answer(agent: Agent, entry: TranscriptEntry, verdicts: Review) -> LoggedString:
    """Return the answer to deliver. Log that hooks let it through, and how a user reads it."""
    text = answer_text(agent, entry)
    if verdicts.replacement is not None:
        text = verdicts.replacement.text or ""
    if entry.message_id != agent.state.given_answer and verdicts.given:
        with agent.session.group():
            if verdicts.replacement is not None and agent.state.place == "primary":
                event = TranscriptEntry(
                    agent_id=USER, role="user", content=text, substance=entry.message_id
                )
                agent.session.append(event)
            agent.session.append(AnswerGiven(agent_id=agent.agent_id, answer=entry.message_id))
    return LoggedString(text, entry.message_id)
