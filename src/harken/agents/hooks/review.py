"""Reviews: the hooks of an agent judge a message or call one after the other, each once.

The verdicts are events, and the state of the session has those that may still have an effect. So a
resumed agent goes on with the first hook that has not judged yet, and delivers the comments that
are owed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from harken.agents import texts
from harken.agents.agent import Agent, get_agent
from harken.agents.guards import order_hooks
from harken.agents.hooks.hook import ask_hook, hook_points, is_to_be_asked
from harken.agents.hooks.verdict_call import answer_text
from harken.agents.turn_end import StoppedByHook
from harken.core import structs
from harken.core.events import HookVerdict, Purpose, Reference, TranscriptEntry
from harken.core.ids import AgentId, MessageId, reference_number
from harken.core.messages import FunctionCall
from harken.core.untrusted import escape_hook_markers
from harken.core.verdict import HookQuestion
from harken.session.state import Review


async def review(agent: Agent, question: HookQuestion) -> Review:
    """Ask the hooks that have yet to judge, in order, until one denies. Return all verdicts.

    Rewrites are chained: a hook is asked about the text of the hook before it. Raises TurnEnded if
    a hook took the place of the agent, and StoppedByHook.
    """
    while True:
        verdicts = find_review(agent, question)
        if verdicts.stop is not None:
            reason = f"hook {hook_name(agent, verdicts.stop)}: {verdicts.stop.text}"
            raise StoppedByHook(reason, verdicts.stop.message_id)
        hook = None if verdicts.denial else _next_hook(agent, verdicts, question)
        if hook is None:
            return verdicts
        await ask_hook(hook, agent.agent_id, _with_replacement(question, verdicts))


def find_review(agent: Agent, question: HookQuestion) -> Review:
    """Return the verdicts on the subject of a question so far."""
    verdicts = agent.session.state.reviews.get(question.subject)
    return Review(agent.agent_id, question.point) if verdicts is None else verdicts


def review_progress(agent: Agent, call: Reference) -> tuple[int, int]:
    """Return a key by which interrupted reviews of calls are sorted, to go on in their order.

    A hook judges one call after the other. First is the call that a hook judges now; then come
    those that wait for the next hook, in the order of their last verdicts; last those that no hook
    has judged.
    """
    session = agent.session
    hooks = [session.agents[id_] for id_ in agent.state.hooks]
    questions = [hook.questions[call] for hook in hooks if call in hook.questions]
    if questions:
        return 0, reference_number(questions[-1])
    verdicts = session.state.reviews.get(call)
    if verdicts is None or not verdicts.given:
        return 2, 0
    return 1, reference_number(verdicts.given[-1].message_id)


def is_unjudged(agent: Agent, question: HookQuestion) -> bool:
    """Whether a hook that was installed before the subject has yet to be asked."""
    verdicts = find_review(agent, question)
    return _next_hook(agent, verdicts, question, reference_number(question.subject)) is not None


def answer_question(agent: Agent, entry: TranscriptEntry) -> HookQuestion:
    """Return the question to hooks about an answer."""
    return HookQuestion("response", agent.name, entry.message_id, answer_text(agent, entry))


def rewritten_arguments(agent: Agent, call: Reference) -> str | None:
    """Return the arguments of a call as rewritten by hooks, or None if they were not."""
    verdicts = agent.session.state.reviews.get(call)
    replacement = None if verdicts is None else verdicts.replacement
    return None if replacement is None else replacement.text


def deliver_comments(agent: Agent) -> None:
    """Append the owed comments to the transcript, as soon as every call has its result.

    Comments on calls come first, in the order of the calls: calls that run at once are judged in
    any order.
    """
    if agent.state.open_calls:
        return
    for verdict in _sort_comments(agent, agent.state.owed_comments):
        text = verdict.text or ""
        agent.session.append(
            hook_message(agent, hook_name(agent, verdict), text, verdict.message_id)
        )


def _sort_comments(agent: Agent, comments: Sequence[HookVerdict]) -> list[HookVerdict]:
    """Return comments in the order of the calls; those on one subject stay in their order."""
    if len(comments) < 2:
        return [*comments]
    entries = reversed(agent.state.transcript or ())
    last = next((entry for entry in entries if entry.tool_calls), None)
    references: list[Reference] = []
    if last is not None:
        references = [f"{last.message_id}.{call.id}" for call in last.tool_calls or ()]

    def rank(verdict: HookVerdict) -> int:
        subject = verdict.subject
        return references.index(subject) if subject in references else len(references)

    return sorted(comments, key=rank)


def hook_message(
    watched: Agent, hook: str, text: str, cause: MessageId, purpose: Purpose = "comment"
) -> TranscriptEntry:
    """Create the message by which an agent receives a hook's comment or denial."""
    return TranscriptEntry(
        agent_id=watched.agent_id,
        role="user",
        content=texts.HOOK_MESSAGE.format(hook, escape_hook_markers(text)),
        cause=cause,
        purpose=purpose,
    )


def hook_name(agent: Agent, verdict: HookVerdict) -> str:
    """Return the name of the hook that gave a verdict."""
    hook = agent.session.agents[verdict.agent_id or AgentId("")]
    return hook.name or hook.id


def _next_hook(
    agent: Agent, verdicts: Review, question: HookQuestion, before: float = math.inf
) -> Agent | None:
    """Return the next hook to ask, after the last that judged.

    before: leave out hooks that got their place after the event with this number.
    """
    ids = order_hooks(agent.session.agents, agent.state)
    judged = {verdict.agent_id for verdict in verdicts.given}
    start = max((position + 1 for position, id_ in enumerate(ids) if id_ in judged), default=0)
    for id_ in ids[start:]:
        if reference_number(agent.session.agents[id_].placed_by) > before:
            continue
        hook = get_agent(agent, id_)
        if question.point in hook_points(hook) and is_to_be_asked(
            hook, _with_replacement(question, verdicts)
        ):
            return hook
    return None


def _with_replacement(question: HookQuestion, verdicts: Review) -> HookQuestion:
    """Return the question with the text that earlier hooks have put in place of the original."""
    if verdicts.replacement is None:
        return question
    text, call = verdicts.replacement.text or "", question.call
    if call is not None:
        function = FunctionCall(call.function.name, text)
        call = structs.replace(call, function=function)
    return replace(question, text=text, call=call)
