"""The structural actions `discuss` and `introduce`: participants and order of discussions.

`rounds` runs the discussion. The event that opens it has the complete order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from harken.agents import texts
from harken.agents.agent import Agent, check_free, get_agent
from harken.agents.call_result import answer_call
from harken.agents.discussion import Discussion
from harken.agents.open_calls import finish_open_calls
from harken.agents.rights import may_use_tool
from harken.agents.tree.action_result import ActionResult
from harken.agents.tree.actions import (
    get_subagents,
    log_text_piece,
    select_prompt,
    set_interlocutors,
)
from harken.agents.tree.discussions.order import DiscussionOrder, order_of, parse_order
from harken.agents.tree.discussions.rounds import (
    RoundRunner,
    current_agent_at,
    find_round,
    open_round,
    participant_name,
    send,
)
from harken.core.events import DiscussionOpened, Reference
from harken.core.ids import USER, AgentId
from harken.session.state import Round
from harken.world.result import InvalidArguments, ToolResult

ASK_USER = "ask_user"
"""The tool without which a limited agent must not reach the user."""


class Participants(msgspec.Struct, frozen=True):
    """The participants of a discussion; `user` is among them if the user takes part."""

    speakers: list[AgentId]
    listeners: list[AgentId]
    leaders: Sequence[AgentId] = ()
    """The judge and the moderator."""

    @property
    def everyone(self) -> list[AgentId]:
        """All participants, each once."""
        return [*dict.fromkeys([*self.speakers, *self.listeners, *self.leaders])]

    def find_agents(self, agent: Agent) -> list[Agent]:
        """Return the agents among the participants."""
        return [get_agent(agent, id_) for id_ in self.everyone if id_ != USER]


async def run_discuss(
    agent: Agent, call: Reference, arguments: Mapping[str, Any]
) -> ActionResult[Discussion[Agent]]:
    """Send the prompt to the participants and let the speakers answer in the given order.

    Raises InvalidArguments for unknown names and orders; ToolError if the user does not answer.
    """
    current = find_round(agent, call) or await _open_discussion(agent, call, arguments)
    runner = RoundRunner(agent, call, current, select_prompt(arguments["prompt"]))
    discussion = await runner.run()
    opening = current.opening
    is_alone = len(discussion) == 1 and not opening.listeners
    if is_alone and order_of(opening).is_plain:
        answer = discussion[0].answer
        return ActionResult(str(answer), substance=answer.message_id, value=discussion)
    parts = [str(reply.answer.as_said_by(reply.name)) for reply in discussion]
    if not order_of(opening).is_plain:
        parts += _format_end(opening, discussion)
    answer_ids = [reply.answer.message_id for reply in discussion]
    cause: list[str] = [id_ for id_ in answer_ids if id_ is not None]
    return ActionResult("\n\n".join(parts), cause=cause, value=discussion)


def _format_end(opening: DiscussionOpened, discussion: Discussion[Agent]) -> list[str]:
    """Return the lines of a result about the verdict of the judge and the end."""
    verdict, lines = discussion.verdict, []
    if verdict is not None:
        default = texts.JUDGED_DONE if verdict.verdict == "done" else texts.JUDGED_CONTINUE
        lines.append(texts.JUDGED.format(verdict.judge, verdict.text or default))
    reason = {
        "rounds": texts.END_ROUNDS,
        "until": texts.END_UNTIL.format(opening.until),
        "judge": texts.END_JUDGE.format(verdict.judge if verdict is not None else ""),
        "stopped": texts.END_STOPPED,
    }[discussion.end]
    count = -(-len(discussion) // len(opening.speakers))
    return [*lines, texts.DISCUSSION_ENDED.format(count, opening.rounds, reason)]


async def _open_discussion(agent: Agent, call: Reference, arguments: Mapping[str, Any]) -> Round:
    """Open a round, and send the prompt to all participants. Raises InvalidArguments."""
    requested = _resolve_participants(agent, arguments["speakers"], arguments["listeners"])
    if not requested.speakers:
        raise InvalidArguments("no agent can speak: create a subagent first, or name speakers")
    _check_user(agent, requested)
    order = parse_order(agent, call, arguments, requested.speakers)
    listeners = [id_ for id_ in requested.listeners if id_ not in order.leaders]
    invited = Participants(requested.speakers, listeners, order.leaders)
    prompt = select_prompt(arguments["prompt"])
    has_note = not order.is_plain or USER in invited.everyone
    await _prepare(agent, invited, is_told=has_note or prompt is not None)
    with agent.session.group():
        if arguments["speakers"] is not None or arguments["listeners"] is not None:
            rows = ([id_ for id_ in row if id_ != USER] for row in (invited.speakers, listeners))
            set_interlocutors(agent, call, *rows)
        message = None if prompt is None else log_text_piece(agent, call, prompt)
        prompt_id = None if message is None else message.message_id
        current = open_round(agent, call, invited.speakers, listeners, prompt_id, order=order)
        messages = [] if message is None else [message]
        if has_note:
            messages.insert(0, log_text_piece(agent, call, _format_note(agent, invited, order)))
        for text in messages:
            for participant in invited.everyone:
                send(agent, participant, text, None)
        RoundRunner(agent, call, current).inform_next()
    return current


async def _prepare(agent: Agent, invited: Participants, *, is_told: bool) -> None:
    """Check that all participants are free; if they will get a text, finish their open calls."""
    agents = invited.find_agents(agent)
    for participant in agents:
        check_free(participant)
    for participant in agents if is_told else ():
        await finish_open_calls(participant)
    for participant in agents:  # checked again, so that all get the text or none does
        check_free(current_agent_at(agent, participant))


def _check_user(agent: Agent, requested: Participants) -> None:
    """Raise InvalidArguments if the user is to speak and cannot, or not with this agent."""
    if USER not in requested.speakers:
        return
    if agent.runtime.world.user is None:
        raise InvalidArguments("no user is available to speak: leave `user` out of the speakers")
    tool = agent.runtime.world.tools.get(ASK_USER)
    if tool is not None and not may_use_tool(agent, tool):
        raise InvalidArguments(f"you may not ask the user: you do not have the tool {ASK_USER}")


def _format_note(agent: Agent, invited: Participants, order: DiscussionOrder) -> str:
    """Return the message that names the participants and describes the order."""
    rows = [
        _format_names([participant_name(agent, id_) for id_ in row])
        for row in (invited.speakers, invited.listeners)
    ]
    note = texts.DISCUSSION_NOTE.format(agent.name, *rows)
    if order.rounds > 1:
        note += texts.DISCUSSION_ROUNDS.format(order.rounds)
    if order.moderator is not None:
        note += texts.DISCUSSION_MODERATOR.format(participant_name(agent, order.moderator))
    if order.judge is not None:
        note += texts.DISCUSSION_JUDGE.format(participant_name(agent, order.judge))
    return note + (texts.DISCUSSION_UNTIL.format(order.until) if order.until is not None else "")


async def run_introduce(agent: Agent, call: Reference, arguments: Mapping[str, Any]) -> ToolResult:
    """Tell subagents which of them speak and which listen in later discussions.

    Raises InvalidArguments.
    """
    requested = _resolve_participants(agent, arguments["speakers"], arguments["listeners"])
    if not requested.everyone:
        raise InvalidArguments("no agent to introduce: create a subagent first")
    if USER in requested.everyone:
        raise InvalidArguments("`user` is requested in each `discuss` and cannot be introduced")
    await _prepare(agent, requested, is_told=True)
    speakers, listeners = (
        [current_agent_at(agent, get_agent(agent, id_)) for id_ in row]
        for row in (requested.speakers, requested.listeners)
    )
    with agent.session.group():
        set_interlocutors(
            agent,
            call,
            *([participant.agent_id for participant in group] for group in (speakers, listeners)),
        )
        for participant in [*speakers, *listeners]:
            others = [peer.name for peer in speakers if peer is not participant]
            silent = [peer.name for peer in listeners if peer is not participant]
            text = texts.INTRODUCED.format(
                participant.name, agent.name, _format_names(others), _format_names(silent)
            )
            agent.inform(participant, log_text_piece(agent, call, text))
        names = [
            _format_names([participant.name for participant in row])
            for row in (speakers, listeners)
        ]
        return answer_call(agent, call, ToolResult(texts.INTRODUCE_RESULT.format(*names)))


def _format_names(names: Sequence[str]) -> str:
    return ", ".join(names) or texts.NO_NAMES


def _resolve_participants(
    agent: Agent, speakers: Sequence[str] | None, listeners: Sequence[str] | None
) -> Participants:
    """Resolve the names of speakers and listeners. Raises InvalidArguments for unknown names.

    An omitted list keeps the last one, but speakers alone clear the listeners. If no speaker is
    requested or left, the newest subagent speaks.
    """
    state = agent.state
    if speakers is not None:
        speaking, listening = _find_ids(agent, speakers), _find_ids(agent, listeners or ())
        return Participants(speaking, [id_ for id_ in listening if id_ not in speaking])
    speaking = list(state.speakers or state.subagents[-1:])
    if listeners is not None:
        listening = _find_ids(agent, listeners)
        return Participants([id_ for id_ in speaking if id_ not in listening], listening)
    return Participants(speaking, [id_ for id_ in state.listeners if id_ not in speaking])


def _find_ids(agent: Agent, names: Sequence[str]) -> list[AgentId]:
    """Return the ids of participants by name, each once."""
    agents = {item.name: item for item in get_subagents(agent, [n for n in names if n != USER])}
    return [*dict.fromkeys(USER if name == USER else agents[name].agent_id for name in names)]
