"""What hooks have said of something, as others hear it.

One idea: a verdict counts when it is through. What a model says as a hook is an answer like any
other: hooks of its own may deny or rewrite it, and until they have said their word, it is none.
All of it stands in the log: so nobody is asked twice, wherever a crash came, and nothing counts
that would not have counted without one.

What hooks have answered: their verdicts, read from their transcripts.

A question names what it is about as its cause. Code answers with the question as the cause of its
words; what a model says belongs to the question before it. What hooks of the hook's own say stands
in between, and is no end of it; whatever else it hears is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from harken.agents.agent import Agent
from harken.agents.hooks.hook import is_concerned
from harken.core.events import Reference, TranscriptEntry
from harken.core.ids import AgentId, reference_message_id, reference_number
from harken.core.messages import text_of
from harken.core.verdict import (
    ALLOWED,
    FAILED,
    Comment,
    Deny,
    HookQuestion,
    HookVerdict,
    Ok,
    Rewrite,
    Verdict,
    freely,
    is_question,
    parse_verdict_entry,
    unfenced,
    verdict_of,
)
from harken.errors import NameNotFound
from harken.session.session import Session
from harken.session.state import AgentState


@dataclass(frozen=True, slots=True)
class HookReply:
    """A question, and the last that its hook said to it: a verdict, or that the hook failed."""

    subject: Reference
    """What was judged."""
    answer: TranscriptEntry


def replies(hook: AgentState, since: Reference = "") -> Iterator[HookReply]:
    """Yield what a hook, in memory, was asked since a message and has answered, newest first."""
    begin = reference_number(since)
    said: TranscriptEntry | None = None
    answers: dict[str, TranscriptEntry] = {}
    for entry in reversed(hook.transcript or ()):
        if reference_number(entry.message_id) < begin:
            return
        if entry.role != "user":
            if isinstance(entry.cause, str):
                answers.setdefault(entry.cause, entry)
            elif entry.cause is None and parse_verdict_entry(entry) is not None:
                said = said or entry
        elif entry.cause is None:
            said = None
        elif is_question(entry):
            answer = answers.get(entry.message_id, said)
            if answer is not None and isinstance(entry.cause, str):
                yield HookReply(entry.cause, answer)
            said = None


def reply_to(hook: AgentState, subject: Reference) -> TranscriptEntry | None:
    """Return what a hook, in memory, has said of this last, or that it failed; None: neither."""
    return next((one.answer for one in replies(hook, subject) if one.subject == subject), None)


def about(agent: Agent, entry: TranscriptEntry) -> HookQuestion:
    """Return what hooks are asked about an answer."""
    return HookQuestion("response", agent.name, entry.message_id, text_of(entry.content))


def read_verdicts(agent: Agent, question: HookQuestion) -> dict[AgentId, HookVerdict]:
    """Return what hooks have said of something, also those that left with it, oldest first."""
    if agent.session.state.last_id == reference_message_id(question.subject):
        return {}  # nothing was said since
    ids = [*_left(agent, question.subject), *agent.hook_ids]
    found = ((id_, _opinion(agent, agent.session.agent(id_), question)) for id_ in ids)
    given = [(id_, opinion) for id_, opinion in found if opinion is not None]
    return dict(sorted(given, key=lambda one: reference_number(one[1].message_id)))


def hooks_left_to_ask(agent: Agent, given: dict[AgentId, HookVerdict]) -> Sequence[AgentId]:
    """Return the hooks after the last that has spoken: one before it had nothing to say."""
    ids = agent.hook_ids
    spoken = [at for at, id_ in enumerate(ids) if id_ in given]
    return ids[spoken[-1] + 1 :] if spoken else ids


def is_due(agent: Agent, given: dict[AgentId, HookVerdict], question: HookQuestion) -> bool:
    """Whether a hook that was there when something was said or done is to be asked about it."""
    return any(_is_due(agent, id_, question) for id_ in hooks_left_to_ask(agent, given))


def undelivered_comments(agent: Agent, hook: AgentState) -> list[HookVerdict]:
    """Return the comments of a hook, in memory, that the agent has not heard, oldest first."""
    answers = [*_unheard_answers(hook, agent.state)]
    verdicts = ((one, _verdict(agent, hook, one)) for one in reversed(answers))
    return [
        HookVerdict(hook.name or hook.id, verdict, one.message_id)
        for one, verdict in verdicts
        if isinstance(verdict, Comment)
    ]


def left_unheard(session: Session, state: AgentState) -> bool:
    """Whether an agent left as a hook, with a comment that nobody has heard yet."""
    if state.place != "gone" or state.parent is None or not session.state.is_live(state.parent):
        return False
    if not any(map(is_question, state.transcript or ())):
        return False
    said = map(parse_verdict_entry, _unheard_answers(state, session.agent(state.parent)))
    return any(one is not None and one.word == "COMMENT" for one in said)


def _unheard_answers(hook: AgentState, watched: AgentState) -> Iterator[TranscriptEntry]:
    """Yield what a hook said of an agent's that no message of the agent comes from."""
    entries = watched.transcript or ()
    heard = {one.cause for one in entries if one.role == "user" and isinstance(one.cause, str)}
    own = {entry.message_id for entry in entries}
    for one in replies(hook):
        if reference_message_id(one.subject) in own and one.answer.message_id not in heard:
            yield one.answer


def _opinion(agent: Agent, hook: AgentState, question: HookQuestion) -> HookVerdict | None:
    """Return what a hook has said of something; None: it gave no verdict, or not yet.

    So is one that failed where that blocks an action: it may not fail again.
    """
    entry, point = reply_to(hook, question.subject), question.point
    if entry is None:
        return None
    text = text_of(entry.content)
    verdict = _verdict(agent, hook, entry)
    if text.startswith(FAILED) and entry.role == "system" and point != "action":
        why = text.removeprefix(FAILED)
        verdict = Deny(f"the hook failed ({why})") if point == "response" else Ok()
    if verdict is None or not isinstance(verdict, ALLOWED[point]):
        return None
    if isinstance(verdict, Rewrite) and point == "action" and entry.cause is None:
        verdict = Rewrite(unfenced(verdict.text))
    return HookVerdict(hook.name or hook.id, verdict, entry.message_id)


def _verdict(agent: Agent, hook: AgentState, entry: TranscriptEntry) -> Verdict | None:
    """Return the verdict that a hook's words are, as its own hooks let them through."""
    said = parse_verdict_entry(entry)
    if said is None or entry.cause is not None:  # code has no hooks
        return None if said is None else verdict_of(said)
    try:
        own = agent.agent_by_id(hook.id)
    except NameNotFound:
        return verdict_of(said)
    question = about(own, entry)
    given = read_verdicts(own, question)
    verdicts = [opinion.verdict for opinion in given.values()]
    if any(isinstance(one, Deny) for one in verdicts) or is_due(own, given, question):
        return None
    rewritten = [one.text for one in verdicts if isinstance(one, Rewrite)]
    said = freely(rewritten[-1]) if rewritten else said
    return None if said is None else verdict_of(said)


def _left(agent: Agent, subject: Reference) -> list[AgentId]:
    """Return who was a hook of an agent when something was said or done, and has left since."""
    since, agents = reference_number(subject), agent.session.agents
    return [
        *takewhile(
            lambda id_: reference_number(agents[id_].placed) > since, agent.state.former_hooks[::-1]
        )
    ]


def _is_due(agent: Agent, hook_id: AgentId, question: HookQuestion) -> bool:
    if reference_number(agent.session.agents[hook_id].placed) > reference_number(question.subject):
        return False
    try:
        hook = agent.agent_by_id(hook_id)
    except NameNotFound:
        return True  # nobody passes a guard that is not here
    return question.point in hook.hook_points and is_concerned(hook, question)


def rewritten_arguments(agent: Agent, call: Reference) -> str | None:
    """Return the arguments that hooks gave a call; None: it runs as the agent wrote it."""
    said = read_verdicts(agent, HookQuestion("action", agent.name, call, "")).values()
    texts = [one.verdict.text for one in said if isinstance(one.verdict, Rewrite)]
    return texts[-1] if texts else None
