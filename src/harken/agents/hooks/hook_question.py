"""The question to a smart hook: the judged text, and the background that a model needs.

A model that judges an answer reads what is answered; for an action, the text beside the call, and
for one that creates agents the names of the subagents; for a result, the call. Code has the log.
"""

from __future__ import annotations

from collections.abc import Sequence

from harken.agents import texts
from harken.agents.agent import Agent, get_agent, subagent_ids
from harken.agents.unanswered_input import needs_no_answer
from harken.core.events import TranscriptEntry
from harken.core.ids import reference_message_id
from harken.core.messages import ChatMessage, ToolCall, text_of
from harken.core.verdict import HookQuestion, is_question

MAX_BACKGROUND_CHARS = 2_000
"""Maximum characters of the text that is shown besides the judged one."""
_CREATING_ACTIONS = frozenset({"task", "clone", "restore"})


def format_question(hook: Agent, question: HookQuestion) -> str:
    """Format a question for the model of a hook."""
    if hook.state.parent is None or question.point == "input":
        return question.prompt
    watched = get_agent(hook, hook.state.parent)
    context = watched.session.context(watched.agent_id)
    if question.point == "response":
        return question.format_with(_truncate(_find_answered(context)))
    if question.point == "action":
        call = question.call
        is_creating = call is not None and call.function.name in _CREATING_ACTIONS
        return question.format_with(
            _truncate(_find_text(context, reference_message_id(question.subject))),
            [*subagent_ids(watched)] if is_creating else None,
        )
    call = _find_call(context, question)
    if call is None:
        return question.prompt
    return question.format_with(_truncate(call.function.arguments), call_name=call.function.name)


def _find_answered(context: Sequence[ChatMessage]) -> str:
    """Return the input that an answer answers; empty if there is none."""
    for message in reversed(context):
        if message.role == "user" and (not needs_no_answer(message) or _asks(message)):
            return text_of(message.content)
    return ""


def _asks(message: ChatMessage) -> bool:
    return isinstance(message, TranscriptEntry) and is_question(message)


def _find_text(context: Sequence[ChatMessage], message_id: str) -> str:
    entry = _find_entry(context, message_id)
    return "" if entry is None else text_of(entry.content)


def _find_entry(context: Sequence[ChatMessage], message_id: str) -> TranscriptEntry | None:
    entries = (message for message in reversed(context) if isinstance(message, TranscriptEntry))
    return next((entry for entry in entries if entry.message_id == message_id), None)


def _find_call(context: Sequence[ChatMessage], question: HookQuestion) -> ToolCall | None:
    """Return the call of the judged result, or None if it is not in the context."""
    result = _find_entry(context, question.subject)
    calls = (call for message in reversed(context) for call in message.tool_calls or ())
    id_ = None if result is None else result.tool_call_id
    return next((call for call in calls if call.id == id_), None)


def _truncate(text: str) -> str:
    rest_chars = len(text) - MAX_BACKGROUND_CHARS
    if rest_chars <= 0:
        return text
    return texts.LOG_TRUNCATED.format(text[:MAX_BACKGROUND_CHARS], rest_chars)
