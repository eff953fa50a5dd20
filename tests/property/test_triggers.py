"""Random happenings, answers and moves: a resumed state is the live one, and nothing is lost."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from harken.core import events as ev
from harken.core.ids import AgentId, MessageId
from harken.session.session import Session
from tests.session_kit import (
    create_agent,
    fold_log,
    log_answer,
    log_tool_calls,
    log_tool_result,
    log_user_message,
    new_session,
)

NAMES = ("a", "b")
STEP = st.tuples(
    st.sampled_from(["happen", "hear", "say", "tell", "arm", "disarm", "end"]),
    st.integers(0, 2),
    st.sampled_from(NAMES),
)


def family(session: Session) -> list[AgentId]:
    """Return an agent, its child, and the child of that."""
    ids = [create_agent(session)]
    for _ in range(2):
        calling = log_tool_calls(session, ids[-1], "c1")
        ids.append(create_agent(session, cause=calling, relation="subagent"))
        log_tool_result(session, ids[-2], "c1")
    return ids


class Model:
    """What each agent has to hear, kept apart from the fold."""

    def __init__(self, session: Session) -> None:
        self.session, self.ids = session, family(session)
        self.unheard: dict[AgentId, list[MessageId]] = {id_: [] for id_ in self.ids}
        self.armed: dict[AgentId, dict[str, MessageId]] = {id_: {} for id_ in self.ids}
        self.said: dict[AgentId, MessageId | None] = {}
        """Agents that owe their parent a word, and the last that they said of it."""

    def step(self, step_name: str, number: int, name: str) -> None:
        agent = self.ids[number]
        session, unheard = self.session, self.unheard[agent]
        if step_name == "happen":
            piece = ev.PieceOfText(
                agent_id=agent,
                content=f"[event {name}] x",
                cause=session.agents[agent].birth,
                trigger=name,
                seen=len(unheard),
            )
            unheard.append(session.append(piece))
        elif step_name == "hear" and unheard:
            log_user_message(session, agent, "[event] x", substance=unheard.pop(0))
            if number:
                self.said[agent] = None
        elif step_name == "say":
            message_id = log_answer(session, agent)
            if agent in self.said:
                self.said[agent] = message_id
        elif step_name == "tell" and number and self.said.get(agent):
            log_user_message(
                session, self.ids[number - 1], "[x]: hi", substance=self.said.pop(agent)
            )
            if number > 1:
                self.said[self.ids[number - 1]] = None
        elif step_name == "arm" and name not in self.armed[agent]:
            cause = session.agents[agent].birth
            trigger = {"kind": "time"}
            armed = ev.TriggerArmed(agent_id=agent, name=name, trigger=trigger, cause=cause)
            self.armed[agent][name] = session.append(armed)
        elif step_name == "disarm" and name in self.armed[agent]:
            cause = self.armed[agent].pop(name)
            session.append(ev.TriggerDisarmed(agent_id=agent, name=name, cause=cause))
        elif step_name == "end" and number == 2:
            session.append(ev.AgentMoved(agent_id=agent, place="gone"))
            self.said.pop(agent, None)


@given(st.lists(STEP, max_size=30))
def test_undelivered_events_are_in_the_log(steps: list[tuple[str, int, str]]) -> None:
    with TemporaryDirectory() as folder, new_session(Path(folder)) as session:
        model = Model(session)
        for step in steps:
            model.step(*step)
        state = session.state
        assert {id_: [*agent.undelivered] for id_, agent in state.agents.items()} == model.unheard
        armed = {
            id_: {name: event.message_id for name, event in agent.triggers.items()}
            for id_, agent in state.agents.items()
        }
        assert armed == model.armed
        assert state.pending_reports == model.said
        assert fold_log(session.path).describe() == state.describe()
