"""Verdicts of hooks, read from their transcripts in the log.

A verdict is valid only when it is final. A smart hook's answer may itself be denied or rewritten by
its own hooks, and until these have judged it there is no verdict. Everything is read from the log:
no hook is asked twice after a crash, and the same verdicts are valid as without a crash.

A question names its subject as its cause. A code hook's answer has the question as its cause; a
smart hook's answer belongs to the question before it. Comments of the hook's own hooks may stand
between; any other input ends the question.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from harken.agents import texts
from harken.agents.agent import Agent, get_agent
from harken.agents.guards import order_hooks
from harken.agents.hooks.hook import hook_points, is_to_be_asked
from harken.core.events import Reference, TranscriptEntry
from harken.core.ids import AgentId, reference_message_id, reference_number
from harken.core.messages import text_of
from harken.core.verdict import (
    ALLOWED_VERDICTS,
    HOOK_FAILED_PREFIX,
    Comment,
    Deny,
    HookQuestion,
    Ok,
    Rewrite,
    SpokenVerdict,
    Verdict,
    build_verdict,
    is_question,
    parse_model_verdict,
    parse_verdict_entry,
    strip_code_fence,
)
from harken.errors import NameNotFound
from harken.session.session import Session
from harken.session.state import AgentState


@dataclass(frozen=True, slots=True)
class HookReply:
    """A question and the last answer of its hook: a verdict or a failure."""

    subject: Reference
    """The message or call that was judged."""
    answer: TranscriptEntry


def replies(hook: AgentState, since: Reference = "") -> Iterator[HookReply]:
    """Yield the answered questions of a loaded hook since a message, newest first."""
    first_number = reference_number(since)
    later_answer: TranscriptEntry | None = None
    answers: dict[str, TranscriptEntry] = {}
    for entry in reversed(hook.transcript or ()):
        if reference_number(entry.message_id) < first_number:
            return
        if entry.role != "user":
            if isinstance(entry.cause, str):
                answers.setdefault(entry.cause, entry)
            elif entry.cause is None and parse_verdict_entry(entry) is not None:
                later_answer = later_answer or entry
        elif entry.cause is None:
            later_answer = None
        elif is_question(entry):
            answer = answers.get(entry.message_id, later_answer)
            if answer is not None and isinstance(entry.cause, str):
                yield HookReply(entry.cause, answer)
            later_answer = None


def reply_to(hook: AgentState, subject: Reference) -> TranscriptEntry | None:
    """Return a loaded hook's last answer on a subject, also a failure, or None."""
    return next(
        (reply.answer for reply in replies(hook, subject) if reply.subject == subject), None
    )


def answer_question(agent: Agent, entry: TranscriptEntry) -> HookQuestion:
    """Return the question to hooks about an answer."""
    return HookQuestion("response", agent.name, entry.message_id, text_of(entry.content))


def read_verdicts(agent: Agent, question: HookQuestion) -> dict[AgentId, SpokenVerdict]:
    """Return the verdicts on a question by hook, also of hooks that left after it, oldest first."""
    if agent.session.state.last_id == reference_message_id(question.subject):
        return {}  # there was no event since
    ids = [
        *_former_hooks_since(agent, question.subject),
        *order_hooks(agent.session.agents, agent.state),
    ]
    pairs = ((id_, _read_verdict(agent, agent.session.agent(id_), question)) for id_ in ids)
    verdicts = [(id_, opinion) for id_, opinion in pairs if opinion is not None]
    return dict(sorted(verdicts, key=lambda pair: reference_number(pair[1].message_id)))


def hooks_without_verdict(
    agent: Agent, verdicts: dict[AgentId, SpokenVerdict]
) -> Sequence[AgentId]:
    """Return the hooks after the last that has a verdict; an earlier hook was not concerned."""
    ids = order_hooks(agent.session.agents, agent.state)
    positions = [position for position, id_ in enumerate(ids) if id_ in verdicts]
    return ids[positions[-1] + 1 :] if positions else ids


def is_unjudged(
    agent: Agent, verdicts: dict[AgentId, SpokenVerdict], question: HookQuestion
) -> bool:
    """Whether a hook that was installed before the subject has yet to be asked about it."""
    return any(_is_due(agent, id_, question) for id_ in hooks_without_verdict(agent, verdicts))


def undelivered_comments(agent: Agent, hook: AgentState) -> list[SpokenVerdict]:
    """Return the undelivered comments of a loaded hook, oldest first."""
    answers = [*_undelivered_answers(hook, agent.state)]
    verdicts = ((answer, _final_verdict(agent, hook, answer)) for answer in reversed(answers))
    return [
        SpokenVerdict(hook.name or hook.id, verdict, answer.message_id)
        for answer, verdict in verdicts
        if isinstance(verdict, Comment)
    ]


def has_undelivered_comment(session: Session, state: AgentState) -> bool:
    """Whether a former hook has a comment that was not delivered."""
    if state.place != "gone" or state.parent is None or not session.state.is_live(state.parent):
        return False
    if not any(map(is_question, state.transcript or ())):
        return False
    parsed = map(parse_verdict_entry, _undelivered_answers(state, session.agent(state.parent)))
    return any(verdict is not None and verdict.word == "COMMENT" for verdict in parsed)


def _undelivered_answers(hook: AgentState, watched: AgentState) -> Iterator[TranscriptEntry]:
    """Yield a hook's answers on entries of an agent that caused no message of that agent."""
    entries = watched.transcript or ()
    delivered_ids = {
        reply.cause for reply in entries if reply.role == "user" and isinstance(reply.cause, str)
    }
    entry_ids = {entry.message_id for entry in entries}
    for reply in replies(hook):
        if (
            reference_message_id(reply.subject) in entry_ids
            and reply.answer.message_id not in delivered_ids
        ):
            yield reply.answer


def _read_verdict(agent: Agent, hook: AgentState, question: HookQuestion) -> SpokenVerdict | None:
    """Return a hook's verdict on a question, or None if there is none yet.

    None also for a hook that failed at an action: it is asked again and may succeed.
    """
    entry, point = reply_to(hook, question.subject), question.point
    if entry is None:
        return None
    text = text_of(entry.content)
    verdict = _final_verdict(agent, hook, entry)
    if text.startswith(HOOK_FAILED_PREFIX) and entry.role == "system" and point != "action":
        reason = text.removeprefix(HOOK_FAILED_PREFIX)
        verdict = Deny(texts.HOOK_FAILED.format(reason)) if point == "response" else Ok()
    if verdict is None or not isinstance(verdict, ALLOWED_VERDICTS[point]):
        return None
    if isinstance(verdict, Rewrite) and point == "action" and entry.cause is None:
        verdict = Rewrite(strip_code_fence(verdict.text))
    return SpokenVerdict(hook.name or hook.id, verdict, entry.message_id)


def _final_verdict(agent: Agent, hook: AgentState, entry: TranscriptEntry) -> Verdict | None:
    """Return the verdict in a hook's answer after the judgement of the hook's own hooks."""
    parsed = parse_verdict_entry(entry)
    if parsed is None or entry.cause is not None:  # code has no hooks
        return None if parsed is None else build_verdict(parsed)
    try:
        hook_agent = get_agent(agent, hook.id)
    except NameNotFound:
        return build_verdict(parsed)
    question = answer_question(hook_agent, entry)
    verdicts_by_hook = read_verdicts(hook_agent, question)
    verdicts = [opinion.verdict for opinion in verdicts_by_hook.values()]
    if any(isinstance(verdict, Deny) for verdict in verdicts) or is_unjudged(
        hook_agent, verdicts_by_hook, question
    ):
        return None
    rewritten = [verdict.text for verdict in verdicts if isinstance(verdict, Rewrite)]
    parsed = parse_model_verdict(rewritten[-1]) if rewritten else parsed
    return None if parsed is None else build_verdict(parsed)


def _former_hooks_since(agent: Agent, subject: Reference) -> list[AgentId]:
    """Return the former hooks of an agent that left after the subject, newest first."""
    since, agents = reference_number(subject), agent.session.agents
    return [
        *takewhile(
            lambda id_: reference_number(agents[id_].placed_by) > since,
            agent.state.former_hooks[::-1],
        )
    ]


def _is_due(agent: Agent, hook_id: AgentId, question: HookQuestion) -> bool:
    if reference_number(agent.session.agents[hook_id].placed_by) > reference_number(
        question.subject
    ):
        return False
    try:
        hook = get_agent(agent, hook_id)
    except NameNotFound:
        return True  # an unavailable guard must not be bypassed
    return question.point in hook_points(hook) and is_to_be_asked(hook, question)


def rewritten_arguments(agent: Agent, call: Reference) -> str | None:
    """Return the arguments as rewritten by hooks, or None if they were not."""
    verdicts = read_verdicts(agent, HookQuestion("action", agent.name, call, "")).values()
    rewrites = [
        verdict.verdict.text for verdict in verdicts if isinstance(verdict.verdict, Rewrite)
    ]
    return rewrites[-1] if rewrites else None
