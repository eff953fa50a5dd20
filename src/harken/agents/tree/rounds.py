"""Rounds: subagents are asked one after the other, and each hears the answers of the others.

`discuss` and `task` open a round. The log has which speakers have answered, so a round that a crash
or a failed model call interrupted goes on with the next speaker.
"""

from __future__ import annotations

from collections.abc import Sequence

from harken.agents.agent import Agent, get_agent
from harken.agents.dumb_agent import DumbAgent
from harken.agents.open_calls import answer_or_stop, has_open_calls
from harken.agents.structure import AgentReply
from harken.core.events import DiscussionOpened, DiscussionSpoken, Reference
from harken.core.ids import AgentId, MessageId, reference_number
from harken.core.logged_string import LoggedString
from harken.core.messages import text_of
from harken.session.state import Round


def find_round(agent: Agent, call: Reference) -> Round | None:
    """Return the round that a call has opened, or None."""
    return agent.session.state.rounds.get(call)


def open_round(
    agent: Agent,
    call: Reference,
    speakers: Sequence[AgentId],
    listeners: Sequence[AgentId],
    prompt: MessageId | None,
) -> Round:
    """Open a round. That of a user's command is not logged: it cannot go on after a crash."""
    if call in agent.session.state.open_references:
        event = DiscussionOpened(
            agent_id=agent.agent_id,
            speakers=[*speakers],
            listeners=[*listeners],
            prompt=prompt,
            cause=call,
        )
        agent.session.append(event)
        return agent.session.state.rounds[call]
    return Round(MessageId(""), [*speakers], [*listeners])


async def run_round(agent: Agent, current: Round) -> list[AgentReply[Agent]]:
    """Ask the speakers that have not answered yet. Return all answers, in order.

    Raises ModelError; the round goes on with the speaker whose model failed.
    """
    replies = [_read_reply(agent, event) for event in current.spoken]
    for speaker in current.speakers[len(replies) :]:
        reply = await _request_answer(agent, current, speaker)
        everyone = dict.fromkeys([*current.speakers, *current.listeners])
        hearers = [
            current_agent_at(agent, get_agent(agent, id_)) for id_ in everyone if id_ != speaker
        ]
        with agent.session.group():
            if current.opened:
                agent.session.append(_build_spoken_event(agent, current, speaker, reply))
            for hearer in hearers:
                reply.agent.inform(hearer, reply.answer.as_said_by(reply.agent.name))
        replies.append(reply)
    return replies


def current_agent_at(agent: Agent, original: Agent) -> Agent:
    """Return the agent that now stands directly below `agent` where `original` stood.

    A move may have put another agent in its place.
    """
    agents, state = agent.session.agents, original.state
    for _ in agents:
        if state.parent == agent.agent_id:
            return get_agent(agent, state.id)
        if state.parent is None:
            break
        state = agents[state.parent]
    return original


async def _request_answer(agent: Agent, current: Round, speaker: AgentId) -> AgentReply[Agent]:
    """Return a speaker's answer, or that of the agent that takes its place and owes the answer."""
    subagent = current_agent_at(agent, get_agent(agent, speaker))
    if current.opened and (earlier := _earlier_answer(subagent, current.opened)) is not None:
        return AgentReply(subagent, earlier)
    answer = await answer_or_stop(subagent)
    while (taker := current_agent_at(agent, subagent)) is not subagent and has_open_calls(taker):
        subagent, answer = taker, await answer_or_stop(taker)
    return AgentReply(subagent, answer)


def _earlier_answer(subagent: Agent, since: MessageId) -> LoggedString | None:
    """Return the answer that an agent of code gave in this round just before a crash, or None.

    A smart agent returns such an answer itself.
    """
    entries = subagent.state.transcript or ()
    if not isinstance(subagent, DumbAgent) or not entries or not entries[-1].is_utterance:
        return None
    entry = entries[-1]
    if reference_number(entry.message_id) < reference_number(since):
        return None
    return LoggedString(text_of(entry.content), entry.message_id)


def _build_spoken_event(
    agent: Agent, current: Round, speaker: AgentId, reply: AgentReply[Agent]
) -> DiscussionSpoken:
    answer_id = reply.answer.message_id or current.opened
    is_entry = _find_text(reply.agent, answer_id) == str(reply.answer)
    return DiscussionSpoken(
        agent_id=agent.agent_id,
        discussion=current.opened,
        speaker=speaker,
        by=reply.agent.agent_id,
        said=answer_id,
        heard=None if is_entry else str(reply.answer),
    )


def _read_reply(agent: Agent, event: DiscussionSpoken) -> AgentReply[Agent]:
    """Return an answer as it was before a crash."""
    answerer = get_agent(agent, event.by)
    text = event.heard if event.heard is not None else _find_text(answerer, event.said)
    return AgentReply(answerer, LoggedString(text or "", event.said))


def _find_text(agent: Agent, message: MessageId) -> str | None:
    """Return the text of an agent's own entry, or None if it has no such entry."""
    entries = reversed(agent.state.transcript or ())
    return next((text_of(entry.content) for entry in entries if entry.message_id == message), None)
