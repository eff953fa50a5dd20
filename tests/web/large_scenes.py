"""Large sessions: many messages of 300 agents, and many turns with their model calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from harken.core.events import AgentCreated, Relation, TranscriptEntry
from harken.core.ids import AgentId, MessageId
from harken.core.messages import FunctionCall, ToolCall
from harken.session.session import Session
from tests.session_kit import log_answer, log_request, log_response, log_user_message
from tests.session_kit import session_options as options

LARGE, LONG = "large", "long"
AGENTS, LEADS = 300, 10
NEEDLE = "lighthouse"
NEEDLE_EVERY = 50
"""The number of rounds of which two have a question with the needle, one of the first agent."""
_ROUND = 4
"""The number of messages of a round."""
_PROSE = (
    "The harbor master keeps a **ledger** of every ship. It lists the name, the port and the\n"
    "cargo, and `nobody` has read it twice.\n\n"
    "- the first ship carries tea\n- the second carries *salt*\n- the third was never seen\n"
)
_CODE = (
    "Here is the function:\n\n```python\ndef count(ships: list[str]) -> int:\n"
    '    """Count the ships."""\n    return sum(1 for ship in ships if ship)\n```\n\n'
    "| ship | port |\n|:--|--:|\n| Ann | 3 |\n| Jack | 14 |\n"
)


class _Born(NamedTuple):
    """An agent, and the event that created it."""

    agent: AgentId
    birth: MessageId


def write_large_log(log: Path, *, messages: int) -> None:
    """Write a session of 300 agents: ten leads below the first one, and workers below them.

    Half of the messages are of the first agent, the others of all in turn. A round is a question,
    which the parent asked, a call with its result, and an answer in Markdown.
    """
    with Session(log, options=options()) as session:
        main = _create(session, "main", None)
        leads = [_create(session, f"lead {n}", main) for n in range(1, LEADS + 1)]
        others = [
            _create(session, f"worker {n}", leads[n % LEADS]) for n in range(1, AGENTS - LEADS)
        ]
        agents = [main, *leads, *others]
        for number in range(messages // _ROUND):
            born = main if number % 2 else agents[number // 2 % AGENTS]
            _log_round(session, born.agent, number, main.agent)
        session.end("done")


def count_main_items(messages: int) -> int:
    """Return the number of items of the first agent in a log with this number of messages."""
    rounds = messages // _ROUND
    return 3 * (rounds // 2 + len(range(0, rounds, 2 * AGENTS)))


def write_long_log(log: Path, *, turns: int) -> None:
    """Write a session of one agent with this number of turns, each with a model call."""
    with Session(log, options=options()) as session:
        agent = _create(session, "main", None).agent
        for number in range(1, turns + 1):
            log_user_message(
                session, agent, f"Turn {number}: what does the ledger say?\n\n{_PROSE}"
            )
            request = log_request(session, agent)
            text = f"Answer {number}.\n\n{_CODE if number % 3 == 0 else _PROSE}"
            answer = log_answer(session, agent, text)
            log_response(session, agent, request, entry=answer)
        session.end("done")


def _create(session: Session, name: str, parent: _Born | None) -> _Born:
    agent = session.allocate_agent_id()
    cause = None if parent is None else parent.birth
    relation: Relation = "primary" if parent is None else "subagent"
    birth = session.append(AgentCreated(agent_id=agent, name=name, relation=relation, cause=cause))
    return _Born(agent, birth)


def _log_round(session: Session, agent: AgentId, number: int, main: AgentId) -> None:
    """Log a question, a call with its result, and an answer."""
    has_needle = number % NEEDLE_EVERY < 2
    question = f"Question {number}: who saw {'the ' + NEEDLE if has_needle else 'the ship'}?"
    session.append(TranscriptEntry(agent_id=agent, role="user", content=f"{question} " + "w " * 60))
    id_ = f"c{number}"
    call = ToolCall(id_, FunctionCall(*_make_call(number)))
    session.append(TranscriptEntry(agent_id=agent, role="assistant", tool_calls=[call]))
    result = "".join(f"line {n} of the result of {id_}\n" for n in range(number % 7 * 6))
    session.append(
        TranscriptEntry(
            agent_id=agent, role="tool", tool_call_id=id_, name="tool", content=result or "ok"
        )
    )
    text = f"Answer {number}.\n\n{_CODE if number % 5 == 0 else _PROSE * (1 + number % 3)}"
    session.append(TranscriptEntry(agent_id=agent, role="assistant", content=text))


def _make_call(number: int) -> tuple[str, str]:
    """Return the tool and the arguments of a call: every fourth one edits a file."""
    if number % 4:
        return "bash", json.dumps({"command": f"grep -rn 'ship {number}' ledger | head -20"})
    old = "\n".join(f"line {n}" for n in range(12))
    new = old.replace("line 5", f"line five of {number}")
    arguments = {"file_path": f"ledger/{number}.py", "old_string": old, "new_string": new}
    return "edit_file", json.dumps(arguments)
