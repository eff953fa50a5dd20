"""Hook questions about an agent's turn, at each of the four points.

Before a model reads an input or a tool result, every hook has been asked about it exactly once; the
same holds for actions before they run and for answers before they are delivered. Earlier questions
are read from the log, so this also holds after a crash.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from harken.agents import texts
from harken.agents.agent import Agent, get_agent
from harken.agents.hooks.comment_queue import deliver_comments, note_comments
from harken.agents.hooks.hook import CombinedVerdict, comment_entry, consult, hook_points
from harken.agents.hooks.pending_answer import MAX_DENIALS
from harken.agents.hooks.verdict_log import answer_question, hooks_without_verdict, read_verdicts
from harken.core.events import HookPoint, TranscriptEntry
from harken.core.ids import USER, reference_number
from harken.core.logged_string import LoggedString
from harken.core.messages import ChatMessage, FunctionCall, ToolCall, text_of
from harken.core.verdict import Deny, HookQuestion, SpokenVerdict
from harken.session.state import OpenCall


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
        if isinstance(entry, TranscriptEntry) and entry.role == "tool" and _has_result(entry)
    ]
    return [
        entry for entry in reversed(results) if reference_number(entry.message_id) > request_number
    ]


def _has_result(entry: TranscriptEntry) -> bool:
    """Whether hooks are asked about a result: those of calls that were closed are no results."""
    return entry.closed in (None, "denied", "refused")


async def comment_on(agent: Agent, point: HookPoint, messages: Sequence[ChatMessage]) -> None:
    """Let hooks comment on inputs or results. Raises TurnEnded, TurnStopped."""
    if not messages or not has_hook_at(agent, point):
        return
    for message in messages:
        if isinstance(message, TranscriptEntry):
            text, id_ = text_of(message.content), message.message_id
            question = HookQuestion(point, agent.name, id_, text)
            note_comments(agent, await _ask_hooks(agent, question))
    deliver_comments(agent)


async def _ask_hooks(agent: Agent, question: HookQuestion) -> CombinedVerdict:
    """Ask the hooks that have no verdict on a question yet, also after a resume."""
    verdicts = read_verdicts(agent, question)
    hooks = [get_agent(agent, id_) for id_ in [*verdicts, *hooks_without_verdict(agent, verdicts)]]
    return await consult(hooks, question, verdicts)


async def judge_call(agent: Agent, call: OpenCall) -> CombinedVerdict:
    """Let hooks judge a call before it runs. Raises TurnEnded, TurnStopped."""
    tool_call = ToolCall(call.id, FunctionCall(call.name, call.arguments))
    question = HookQuestion("action", agent.name, call.reference, call.arguments, tool_call)
    judgement = await _ask_hooks(agent, question)
    note_comments(agent, judgement)
    return judgement


async def judge_answer(agent: Agent, entry: TranscriptEntry) -> CombinedVerdict:
    """Let hooks judge an answer before it is delivered. Raises TurnEnded, TurnStopped."""
    judgement = await _ask_hooks(agent, answer_question(agent, entry))
    note_comments(agent, judgement)
    deliver_comments(agent)
    return judgement


def send_back(agent: Agent, denied: SpokenVerdict, denials: int) -> None:
    """Tell an agent why its answer was blocked; denials: the number of earlier denials."""
    reason = denied.verdict.reason if isinstance(denied.verdict, Deny) else ""
    text = texts.RESPONSE_BLOCKED.format(denials + 1, MAX_DENIALS, reason)
    agent.session.append(comment_entry(agent, denied, text, "returned"))


def log_visible_answer(
    agent: Agent, entry: TranscriptEntry, judgement: CombinedVerdict
) -> LoggedString:
    """Return the answer to deliver. Log the text that a user saw if hooks rewrote it."""
    if judgement.replacement is None:
        return LoggedString(text_of(entry.content), entry.message_id)
    answer = LoggedString(judgement.replacement, entry.message_id)
    if agent.state.place == "primary":
        event = TranscriptEntry(
            agent_id=USER, role="user", content=str(answer), substance=entry.message_id
        )
        agent.session.append(event)
    return answer
