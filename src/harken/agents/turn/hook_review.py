"""What hooks are asked about an agent's turn, at each of the four points.

One idea: before a model reads what an agent heard, or what its calls gave back, every hook has been
asked about it, once; so about what it wants to do and to say. What was asked already is read from
the log: so this holds wherever a crash came between.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from harken.agents.action_schemas import ACTIONS, is_action
from harken.agents.hooks.hook import CombinedVerdict, comment_entry, consult
from harken.agents.hooks.pending_answer import BLOCKED, MAX_DENIALS
from harken.agents.hooks.verdict_log import about, hooks_left_to_ask, read_verdicts
from harken.agents.initial_transcript import INTERRUPTED
from harken.agents.tool_agent import ToolAgent
from harken.agents.turn.model_call import HALF_A_CALL
from harken.core.events import TranscriptEntry
from harken.core.ids import USER, reference_number
from harken.core.logged_string import LoggedString
from harken.core.messages import ChatMessage, FunctionCall, ToolCall, text_of
from harken.core.verdict import Deny, HookPoint, HookQuestion, HookVerdict
from harken.session.state import OpenCall

TAKEN_OVER = "Error: {} was not run: another agent has taken your place"
STOPPED = "Error: {} was not run: a hook ended the turn"
_MADE_UP = (INTERRUPTED, TAKEN_OVER, STOPPED, HALF_A_CALL)


def is_asked(agent: ToolAgent, point: HookPoint) -> bool:
    """Whether any hook of an agent is asked at a point."""
    return any(point in hook.hook_points for hook in agent.hooks)


def new_inputs(agent: ToolAgent) -> list[ChatMessage]:
    """Return what was heard since the last model call, hooks' own comments aside."""
    context = agent.session.context(agent.agent_id)
    fresh = context[len(context) - len(agent.state.new_entries) :]
    return [one for one in fresh if one.role == "user" and not getattr(one, "cause", None)]


def new_results(agent: ToolAgent) -> list[TranscriptEntry]:
    """Return what calls gave back since the last model call, oldest first.

    Not what stands in the place of a result where a call was cut off: no tool said that.
    """
    if not agent.state.usage.model_calls:
        return []  # what it began with are another's results
    last = agent.state.request
    asked = -1 if last is None else reference_number(last.message_id)
    context = agent.session.context(agent.agent_id)
    since = takewhile(lambda one: one.role != "assistant", reversed(context))
    new = [one for one in since if isinstance(one, TranscriptEntry) and _is_result(agent, one)]
    return [one for one in reversed(new) if reference_number(one.message_id) > asked]


def _is_result(agent: ToolAgent, entry: TranscriptEntry) -> bool:
    if entry.role != "tool" or not entry.is_error:
        return entry.role == "tool"
    text, name = text_of(entry.content), entry.name or ""
    tool = agent.tools.get(name)
    is_ours = is_action(tool) or (tool is None and name in ACTIONS)  # a move may have taken it
    # Only of actions of ours a note follows. What a tool says begins like this where it wants to.
    if is_ours and text.startswith(INTERRUPTED.format(name)):
        return False
    return text not in {each.format(name) for each in _MADE_UP}


async def comment_on(agent: ToolAgent, point: HookPoint, messages: Sequence[ChatMessage]) -> None:
    """Let hooks comment on what was heard or came back. Raises TurnEnded, TurnStopped."""
    if not messages or not is_asked(agent, point):
        return
    for message in messages:
        if isinstance(message, TranscriptEntry):
            text, id_ = text_of(message.content), message.message_id
            question = HookQuestion(point, agent.name, id_, text)
            agent.note_comments(await _judgement(agent, question))
    agent.deliver()


async def _judgement(agent: ToolAgent, question: HookQuestion) -> CombinedVerdict:
    """Ask the hooks that have not said anything of it, also before a resume."""
    said = read_verdicts(agent, question)
    hooks = [agent.agent_by_id(id_) for id_ in [*said, *hooks_left_to_ask(agent, said)]]
    return await consult(hooks, question, said)


async def judge_call(agent: ToolAgent, call: OpenCall) -> CombinedVerdict:
    """Let hooks judge a call before it runs. Raises TurnEnded, TurnStopped."""
    made = ToolCall(call.id, FunctionCall(call.name, call.arguments))
    question = HookQuestion("action", agent.name, call.reference, call.arguments, made)
    judgement = await _judgement(agent, question)
    agent.note_comments(judgement)
    return judgement


async def judge_answer(agent: ToolAgent, entry: TranscriptEntry) -> CombinedVerdict:
    """Let hooks judge an answer before anyone hears it. Raises TurnEnded, TurnStopped."""
    judgement = await _judgement(agent, about(agent, entry))
    agent.note_comments(judgement)
    agent.deliver()
    return judgement


def send_back(agent: ToolAgent, denied: HookVerdict, denials: int) -> None:
    """Let an agent hear why its answer was blocked; denials: how often that was before."""
    reason = denied.verdict.reason if isinstance(denied.verdict, Deny) else ""
    text = BLOCKED.format(denials + 1, MAX_DENIALS, reason)
    agent.session.append(comment_entry(agent, denied, text))


def log_visible_answer(
    agent: ToolAgent, entry: TranscriptEntry, judgement: CombinedVerdict
) -> LoggedString:
    """Return what others hear; where that is not what the agent said, log what a user saw."""
    if judgement.rewritten is None:
        return LoggedString(text_of(entry.content), entry.message_id)
    said = LoggedString(judgement.rewritten, entry.message_id)
    if agent.state.place == "primary":
        event = TranscriptEntry(
            agent_id=USER, role="user", content=str(said), substance=entry.message_id
        )
        agent.session.append(event)
    return said
