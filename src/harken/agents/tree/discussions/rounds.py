"""Rounds: participants are asked one after the other, and each hears the answers of the others.

`discuss` and `task` open a round. Each step is one event: a speaker answers, the moderator chooses
a speaker, the judge gives a verdict. `find_due_step` of `session.folds.discussions` says which step
is due, so a round that a crash or a failed model call interrupted goes on with that step. The
question to a judge or a moderator is sent in the group of events that makes its answer due.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

import msgspec

from harken.agents import texts
from harken.agents.agent import Agent, get_agent
from harken.agents.discussion import Discussion, DiscussionReply, DiscussionVerdict
from harken.agents.dumb_agent import DumbAgent
from harken.agents.hooks.logged_user import LoggedUser
from harken.agents.open_calls import answer_or_stop, has_open_calls
from harken.agents.stopped_turn import last_stop
from harken.agents.structure import AgentReply
from harken.agents.tree.discussions.order import DiscussionOrder, has_phrase
from harken.agents.tree.discussions.replies import parse_choice, parse_judgement
from harken.core.events import (
    DiscussionChosen,
    DiscussionJudged,
    DiscussionOpened,
    DiscussionSpoken,
    Reference,
    TranscriptEntry,
)
from harken.core.ids import USER, AgentId, MessageId, reference_number
from harken.core.logged_string import LoggedString, preview
from harken.core.messages import text_of
from harken.session.folds.discussions import find_due_step, find_end, least_heard_speaker
from harken.session.state import DiscussionStep, Round, StoppedTurn
from harken.world.result import ToolError
from harken.world.user import UserQuestion, UserUnavailable

MAX_REQUESTS = 2
"""The number of times that a judge or a moderator is asked for a readable answer."""


def find_round(agent: Agent, call: Reference) -> Round | None:
    """Return the round that a call has opened, or None."""
    return agent.session.state.rounds.get(call)


def open_round(
    agent: Agent,
    call: Reference,
    speakers: Sequence[AgentId],
    listeners: Sequence[AgentId],
    prompt: MessageId | None,
    *,
    order: DiscussionOrder | None = None,
) -> Round:
    """Open a round. That of a user's command is not logged: it cannot go on after a crash."""
    order = order or DiscussionOrder()
    event = DiscussionOpened(
        agent_id=agent.agent_id,
        speakers=[*speakers],
        listeners=[*listeners],
        prompt=prompt,
        rounds=order.rounds,
        until=order.until,
        judge=order.judge,
        moderator=order.moderator,
        seed=order.seed,
        cause=call,
    )
    if call not in agent.session.state.open_references:
        return Round(event)
    agent.session.append(event)
    return agent.session.state.rounds[call]


class RoundRunner(msgspec.Struct, frozen=True):
    """Runs the steps of a round that are due."""

    agent: Agent
    """The agent that leads the discussion."""
    call: Reference
    opened_round: Round
    prompt: str | None = None

    @property
    def current(self) -> Round:
        """The round as it is now."""
        return self.agent.session.state.rounds.get(self.call, self.opened_round)

    async def run(self) -> Discussion[Agent]:
        """Run the steps that are due. Return all answers, in order.

        Raises ModelError; the round goes on with the participant whose model failed. Raises
        ToolError if the user is to speak and does not answer.
        """
        replies = [_read_reply(self.agent, event) for event in self.current.spoken]
        while (step := find_due_step(self.current)) is not None:
            if step.kind == "choose":
                await self._request_choice(step.agent_id)
            elif step.kind == "judge":
                await self._request_judgement(step.agent_id)
            elif step.agent_id == USER:
                replies.append(await self._request_user_answer(replies))
            else:
                replies.append(await self._request_reply(step.agent_id))
        return Discussion(tuple(replies), find_end(self.current) or "rounds", self._verdict())

    def inform_next(self) -> None:
        """Send the next participant the request for its step, if it needs one."""
        current, step = self.current, find_due_step(self.current)
        if step is None or step.agent_id == USER:
            return
        is_again = bool(current.open_steps) and _is_unreadable(current.open_steps[-1])
        if step.kind == "judge":
            text = texts.JUDGE_AGAIN if is_again else texts.JUDGE_REQUEST
        elif step.kind == "choose":
            text = texts.MODERATOR_AGAIN if is_again else texts.MODERATOR_REQUEST
            text = text.format(", ".join(self._speaker_names()))
        elif current.spoken and current.spoken[-1].speaker == step.agent_id:
            text = texts.NEXT_TURN
        else:
            return
        agent = self.agent
        piece = agent.session.log_piece_of_text(agent.agent_id, text, self.call)
        recipient = current_agent_at(agent, get_agent(agent, step.agent_id))
        agent.inform(recipient, LoggedString(text, piece))

    async def _request_reply(self, speaker: AgentId) -> DiscussionReply[Agent]:
        """Ask a speaker, and pass its answer on."""
        agent, answer = await self._request_answer(speaker)
        is_entry = _find_text(agent, answer.message_id) == str(answer)
        event = DiscussionSpoken(
            agent_id=self.agent.agent_id,
            discussion=self.current.opened,
            speaker=speaker,
            by=agent.agent_id,
            said=answer.message_id or self.current.opened,
            heard=None if is_entry else str(answer),
            stopped=answer.stop_reason,
            ends=self._ends(answer),
        )
        reply = DiscussionReply(agent, answer, agent.name)
        self._log_answer(event, reply)
        return reply

    async def _request_user_answer(
        self, replies: Sequence[DiscussionReply[Agent]]
    ) -> DiscussionReply[Agent]:
        """Ask the user, with all that was said since the user spoke last. Pass the answer on.

        An answer that is in the log and no step yet, as in a branch, is not asked for again.
        """
        entry = self.current.user_answer
        is_new = entry is None
        if entry is None:
            question_id, text = await self._ask_user(replies)
            entry = TranscriptEntry(
                agent_id=USER, role="assistant", content=text, cause=question_id
            )
        text = text_of(entry.content)
        with self.agent.session.group():
            if is_new:
                self.agent.session.append(entry)
            answer = LoggedString(text, entry.message_id)
            event = DiscussionSpoken(
                agent_id=self.agent.agent_id,
                discussion=self.current.opened,
                speaker=USER,
                by=USER,
                said=entry.message_id,
                heard=text,
                ends=self._ends(answer),
            )
            reply: DiscussionReply[Agent] = DiscussionReply(None, answer, USER)
            self._log_answer(event, reply)
        return reply

    async def _ask_user(self, replies: Sequence[DiscussionReply[Agent]]) -> tuple[MessageId, str]:
        """Return the id of the question to the user and the answer. Raises ToolError."""
        names = [reply.name for reply in replies]
        since = len(names) - names[::-1].index(USER) if USER in names else 0
        news = [str(reply.answer.as_said_by(reply.name)) for reply in replies[since:]]
        if self.prompt is not None and USER not in names:
            news.insert(0, self.prompt)
        question = texts.USER_TURN.format("".join(f"\n\n{text}" for text in news))
        user = LoggedUser(self.agent.runtime.world.user, self.agent, self.call, tool="discuss")
        request = UserQuestion(agent=self.agent.name, question=question)
        try:
            return await user.request_answer(request)
        except UserUnavailable as error:
            progress = format_progress(self.agent, self.current)
            raise ToolError(f"the user did not answer: {error}.{progress}") from None

    def _log_answer(self, event: DiscussionSpoken, reply: DiscussionReply[Agent]) -> None:
        """Log an answer, and send it to the other participants."""
        with self.agent.session.group():
            self._log(event)
            text = reply.answer.as_said_by(reply.name)
            for participant in participants(self.current.opening):
                if participant != event.speaker:
                    send(self.agent, participant, text, reply.agent)
            self.inform_next()

    async def _request_choice(self, moderator: AgentId) -> None:
        """Ask the moderator for the next speaker. By default the least heard speaks."""
        agent, answer = await self._request_answer(moderator)
        names = dict(zip(self._speaker_names(), self.current.opening.speakers, strict=True))
        name = parse_choice(str(answer), [*names]) if answer.is_answer else None
        failed = None if name else f"the answer {preview(str(answer))!r} names no speaker"
        speaker = None if name is None else names[name]
        if speaker is None and self._is_last_request():
            speaker = least_heard_speaker(self.current)
        with self.agent.session.group():
            self._log(
                DiscussionChosen(
                    agent_id=self.agent.agent_id,
                    discussion=self.current.opened,
                    by=agent.agent_id,
                    said=answer.message_id or self.current.opened,
                    speaker=speaker,
                    failed=failed,
                )
            )
            self.inform_next()

    async def _request_judgement(self, judge: AgentId) -> None:
        """Ask the judge whether it is done. By default it is not."""
        agent, answer = await self._request_answer(judge)
        parsed = parse_judgement(str(answer)) if answer.is_answer else None
        failed = None if parsed else f"the answer {preview(str(answer))!r} is no verdict"
        verdict = None if parsed is None else parsed.verdict
        if verdict is None and self._is_last_request():
            verdict = "continue"
        with self.agent.session.group():
            self._log(
                DiscussionJudged(
                    agent_id=self.agent.agent_id,
                    discussion=self.current.opened,
                    by=agent.agent_id,
                    said=answer.message_id or self.current.opened,
                    verdict=verdict,
                    text=None if parsed is None else parsed.text or None,
                    failed=failed,
                )
            )
            self.inform_next()

    def _is_last_request(self) -> bool:
        """Whether the judge or moderator is not asked again if this answer is unreadable, too."""
        earlier = takewhile(_is_unreadable, reversed(self.current.open_steps))
        return len([*earlier]) + 1 >= MAX_REQUESTS

    def _ends(self, answer: LoggedString) -> bool:
        """Whether an answer has the phrase that ends the discussion."""
        until = self.current.opening.until
        return until is not None and answer.is_answer and has_phrase(str(answer), until)

    def _log(self, event: DiscussionStep) -> None:
        """Log a step; that of a user's command is only noted."""
        if self.current.opened:
            self.agent.session.append(event)
        else:
            self.current.steps.append(event)

    def _speaker_names(self) -> list[str]:
        """Return the names of the agents that answer now, in the order of the speakers."""
        agent, speakers = self.agent, self.current.opening.speakers
        return [
            USER if id_ == USER else current_agent_at(agent, get_agent(agent, id_)).name
            for id_ in speakers
        ]

    def _verdict(self) -> DiscussionVerdict | None:
        """Return the last verdict of the judge, or None if it gave none."""
        for step in reversed(self.current.steps):
            if isinstance(step, DiscussionJudged) and step.verdict is not None:
                name = participant_name(self.agent, step.by)
                return DiscussionVerdict(step.verdict, step.text or "", name)
        return None

    async def _request_answer(self, participant: AgentId) -> AgentReply[Agent]:
        """Return an agent's answer, or that of the agent that takes its place and owes it."""
        agent, current = self.agent, self.current
        subagent = current_agent_at(agent, get_agent(agent, participant))
        if current.opened:
            since = current.steps[-1].message_id if current.steps else current.opened
            earlier = _earlier_reply(subagent, since)
            if earlier is not None:
                return earlier
        answer = await answer_or_stop(subagent)
        while (taker := current_agent_at(agent, subagent)) is not subagent and has_open_calls(
            taker
        ):
            subagent, answer = taker, await answer_or_stop(taker)
        return AgentReply(subagent, answer)


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


def participants(opening: DiscussionOpened) -> list[AgentId]:
    """Return all participants of a discussion: speakers, listeners, judge and moderator."""
    leaders = [id_ for id_ in (opening.judge, opening.moderator) if id_ is not None]
    return [*dict.fromkeys([*opening.speakers, *opening.listeners, *leaders])]


def participant_name(agent: Agent, participant: AgentId) -> str:
    """Return the name by which a participant is known to the others."""
    return USER if participant == USER else get_agent(agent, participant).name


def send(agent: Agent, participant: AgentId, text: LoggedString, sender: Agent | None) -> None:
    """Send a text to a participant of a discussion that `agent` leads."""
    if participant == USER:
        entry = TranscriptEntry(
            agent_id=USER, role="user", content=str(text), substance=text.message_id
        )
        agent.session.append(entry)
    else:
        recipient = current_agent_at(agent, get_agent(agent, participant))
        (sender or agent).inform(recipient, text)


def format_progress(agent: Agent, current: Round) -> str:
    """Return a sentence about the turns of the current round that were held and were not."""
    speakers, turns = current.opening.speakers, len(current.spoken)
    turns_held = current.spoken[turns - turns % len(speakers) :] if speakers else []
    finished = [*dict.fromkeys(event.speaker for event in turns_held)]
    waiting = [id_ for id_ in speakers if id_ not in finished]
    names = [
        ", ".join(participant_name(agent, id_) for id_ in ids) or texts.NO_NAMES
        for ids in (finished, waiting)
    ]
    progress = texts.DISCUSS_PROGRESS.format(*names)
    if current.opening.rounds == 1:
        return progress
    return texts.DISCUSS_ROUND.format(turns // len(speakers) + 1, current.opening.rounds) + progress


def _is_unreadable(step: DiscussionStep) -> bool:
    """Whether a judge or moderator gave no verdict or choice, so that it is asked again."""
    if isinstance(step, DiscussionJudged):
        return step.verdict is None
    return isinstance(step, DiscussionChosen) and step.speaker is None


def _earlier_reply(subagent: Agent, since: MessageId) -> AgentReply[Agent] | None:
    """Return the reply that was given in this step just before a crash, or None.

    A smart agent returns its own answer when it is asked. An agent that got its place in this step
    is asked only if it owes an answer; otherwise the turn of the agent before it was the step.
    """
    if _is_after(subagent.state.stop, since) and (stop := last_stop(subagent)) is not None:
        return AgentReply(subagent, stop)
    start = max(since, subagent.state.placed_by, key=reference_number)
    if isinstance(subagent, DumbAgent) and (answer := _last_answer(subagent, start)) is not None:
        return AgentReply(subagent, answer)
    if has_open_calls(subagent) or _has_answered(subagent, start):
        return None
    replies = [
        AgentReply(before, stop)
        for before in _replaced_agents(subagent)
        if _is_after(before.state.stop, since) and (stop := last_stop(before)) is not None
    ]
    return max(
        replies, key=lambda reply: reference_number(reply.answer.message_id or ""), default=None
    )


def _is_after(stop: StoppedTurn | None, since: MessageId) -> bool:
    """Whether a turn was stopped after an event."""
    return stop is not None and reference_number(stop.event.message_id) > reference_number(since)


def _replaced_agents(taker: Agent) -> Iterator[Agent]:
    """Yield the agents whose place an agent has now, each of which gave it to the one before."""
    pending = [taker.agent_id]
    for taker_id in pending:  # the loop extends it
        for state in list(taker.session.agents.values()):
            if state.replaced_by == taker_id:
                pending.append(state.id)
                yield get_agent(taker, state.id)


def _has_answered(subagent: Agent, start: MessageId) -> bool:
    """Whether an agent has given an answer after an event; comments of hooks may follow it."""
    entries = reversed(subagent.state.transcript or ())
    number = reference_number(start)
    recent = takewhile(lambda entry: reference_number(entry.message_id) > number, entries)
    return any(entry.is_utterance for entry in recent)


def _last_answer(subagent: Agent, start: MessageId) -> LoggedString | None:
    """Return the answer of an agent after an event, if it is its last entry."""
    entries = subagent.state.transcript or ()
    if not entries or not entries[-1].is_utterance:
        return None
    entry = entries[-1]
    if reference_number(entry.message_id) < reference_number(start):
        return None
    return LoggedString(text_of(entry.content), entry.message_id)


def _read_reply(agent: Agent, event: DiscussionSpoken) -> DiscussionReply[Agent]:
    """Return an answer as it was before a crash."""
    if event.by == USER:
        return DiscussionReply(None, LoggedString(event.heard or "", event.said), USER)
    answerer = get_agent(agent, event.by)
    text = event.heard if event.heard is not None else _find_text(answerer, event.said)
    answer = LoggedString(text or "", event.said, event.stopped)
    return DiscussionReply(answerer, answer, answerer.name)


def _find_text(agent: Agent, message: MessageId | None) -> str | None:
    """Return the text of an agent's own entry, or None if it has no such entry."""
    entries = reversed(agent.state.transcript or ())
    return next((text_of(entry.content) for entry in entries if entry.message_id == message), None)
