"""Smart hooks: their instructions and duty, requests for a verdict, the effects of a verdict.

All effects of a verdict on the hook itself are in one group with it: the result of the call of
`verdict`, the notes, the end of the watch, and the edit that drops the question.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from harken.agents import texts
from harken.agents.agent import Agent
from harken.agents.dumb_agent import DumbAgent
from harken.agents.hooks.duty import format_duty, is_duty, set_duty
from harken.agents.hooks.notes import drop_question, keeps_notes, log_notes
from harken.agents.hooks.verdict_call import (
    accept_verdict_call,
    close_verdict_call,
    pending_verdict_call,
    pending_verdict_entry,
    verdict_of_call,
)
from harken.core.event_types.spec import AgentSpec, HookPoint, Limits, Standing
from harken.core.events import TranscriptEntry
from harken.core.ids import MessageId, reference_number
from harken.core.logged_string import LoggedString
from harken.core.messages import text_of
from harken.core.verdict import (
    ALLOWED_VERDICTS,
    VERDICT_FORMS,
    HookQuestion,
    Rewrite,
    Verdict,
    format_verdict,
    parse_allowed_verdict,
    strip_code_fence,
)


def copied_instructions(hook: Agent) -> str | None:
    """Return the system prompt for a copy of a hook: its own, as in its transcript.

    Returns None for an agent that was not created as a hook, which is not copied.
    """
    spec = hook.state.spec
    if not spec.is_born_as_hook:
        return None
    copy_text = None if spec.copies is None else spec.copies.instructions
    parts = [own_instructions(hook)]
    return "\n\n".join(parts if copy_text is None else [*parts, copy_text])


def own_instructions(hook: Agent) -> str:
    """Return the system prompt of a hook, without its duty."""
    entries = takewhile(lambda entry: entry.role == "system", hook.state.transcript or ())
    return "\n\n".join(text_of(entry.content) for entry in entries if not is_duty(entry))


def update_duty(agent: Agent, *, is_hook: bool, points: Sequence[str] | None = None) -> bool:
    """Tell an agent the points at which it is asked, or remove them. Return whether they changed.

    A hook that is asked nowhere, since it only waits for its place, has no duty.
    """
    keeps = "notes" if agent.state.spec.keeps == "notes" else "all"
    has_duty = is_hook and (points is None or len(points) > 0)
    return set_duty(agent, format_duty(points, keeps) if has_duty else None)


def copied_spec(spec: AgentSpec) -> AgentSpec:
    """Return the members of a copy's birth besides its kind, taken from the hook's spec."""
    return AgentSpec(
        keeps=spec.keeps,
        parameters=spec.parameters,
        template=spec.template,
        limits=Limits(budget=spec.limits.budget),
        standing=Standing(points=spec.standing.points),
    )


def read_verdict(hook: Agent, question: HookQuestion, answer: LoggedString) -> Verdict:
    """Return the verdict in an answer of a hook. Raises UnparsableVerdict.

    The text of an answer by a call of `verdict` is only parsed if hooks rewrote it.
    """
    call = pending_verdict_call(hook)
    verdict = None if call is None else verdict_of_call(call)
    if verdict is None or format_verdict(verdict) != str(answer):
        verdict = parse_allowed_verdict(str(answer), question.point)
    if question.point == "action" and isinstance(verdict, Rewrite):
        return Rewrite(strip_code_fence(verdict.text))
    return verdict


def request_verdict(hook: Agent, question: HookQuestion, answer: LoggedString) -> bool:
    """Tell a hook that its answer was no verdict. Return False if it was told, or wrote none."""
    since = reference_number(hook.state.questions.get(question.subject, ""))
    entries_since = (
        e for e in hook.state.transcript or () if reference_number(e.message_id) > since
    )
    if any(entry.purpose == "again" for entry in entries_since):
        return False
    entries = reversed(hook.state.transcript or ())
    answer_entry = next((entry for entry in entries if entry.message_id == answer.message_id), None)
    is_call = answer_entry is not None and answer_entry is pending_verdict_entry(hook)
    if answer_entry is None or not (answer_entry.is_utterance or is_call):
        return False  # a budget ended its turn
    text, call = format_verdict_request(question.point), pending_verdict_call(hook)
    entry = TranscriptEntry(
        agent_id=hook.agent_id,
        role="user",
        content=text,
        cause=answer.message_id,
        purpose="again",
    )
    with hook.session.group():
        if call is not None:  # its hooks made another text of it
            close_verdict_call(hook, call, texts.VERDICT_REJECTED, is_error=True)
        hook.session.append(entry)
    return True


def format_verdict_request(point: HookPoint) -> str:
    """Return the message that requests a valid verdict at this point."""
    forms = "\n".join(VERDICT_FORMS[kind] for kind in ALLOWED_VERDICTS[point])
    return texts.VERDICT_REQUEST.format(point, forms)


def is_judging(hook: Agent) -> bool:
    """Whether it was asked a question and has yet to give its verdict.

    False if a trigger woke it, or if it gave its place to another agent meanwhile.
    """
    if isinstance(hook, DumbAgent):
        return hook._judged_subject is not None
    return bool(hook.state.questions)


def before_verdict(hook: Agent) -> None:
    """Log the result of the call with a verdict, and notes, before the verdict."""
    accept_verdict_call(hook)
    if keeps_notes(hook.state):
        log_notes(hook)


def after_verdict(hook: Agent, question_id: MessageId) -> None:
    """Drop the question and the answer from the context of a hook that keeps notes."""
    if keeps_notes(hook.state):
        drop_question(hook.session, hook.state, reference_number(question_id))
