"""The documented API of [S0], used as its author documents it: live, and after a reload.

`Agent(session, system_prompt=...)`, `log_agent_created`, `log_piece_of_text`, `harken`, `inform`
and `response`, in the scene of example 1, in which the code of the program is the tool code.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harken import Agent, LoggedString, Session, SessionViewer, load_session
from harken.agents.agent import get_agent
from harken.session.verify import verify
from tests.agent_kit import run
from tests.session_kit import read_lines

CAFE = "You meet in a cafe. Introduce yourselves."
SCRIPT = """\
rules:
  - pattern: "Jack.: Hi"
    answer: "*smiles* Hello Jack, I am Jill."
  - pattern: You meet
    answer: Hi, I am Jack.
  - answer: Where do you work?
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    (tmp_path / "script.yaml").write_text(SCRIPT)
    return f"scripted:{tmp_path / 'script.yaml'}"


def log_call(session: Session, agent: Agent, call_id: str, tool: str, **arguments: Any) -> str:
    function = {"name": tool, "arguments": json.dumps(arguments)}
    message = {
        "role": "assistant",
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }
    return session.log_transcript_entry(agent.agent_id, message)


def log_result(session: Session, agent: Agent, call_id: str, tool: str, text: str) -> None:
    message = {"role": "tool", "tool_call_id": call_id, "name": tool, "content": text}
    session.log_transcript_entry(agent.agent_id, message)


def create_subagent(session: Session, root: Agent, name: str, prompt: str, model: str) -> Agent:
    """Do what the code of a tool `task` does."""
    call = log_call(session, root, f"task_{name}", "task", name=name, system_prompt=prompt)
    agent = Agent(session, system_prompt=prompt)
    session.log_agent_created(agent.agent_id, cause=call, name=name, language_model=model)
    log_result(session, root, f"task_{name}", "task", f"Created subagent: {name}")
    return agent


def meet(session: Session, root: Agent, jack: Agent, jill: Agent) -> None:
    """Do what the code of a tool `discuss` does."""
    call = log_call(session, root, "c3", "discuss", prompt=CAFE, speakers=["Jack", "Jill"])
    piece = session.log_piece_of_text(root.agent_id, CAFE, call)
    for agent in (jack, jill):
        agent.harken(LoggedString(CAFE, piece))
    hi = run(jack.response())
    jack.inform(jill, LoggedString(f"[Jack]: {hi}", hi.message_id))
    hello = run(jill.response())
    jill.inform(jack, LoggedString(f"[Jill]: {hello}", hello.message_id))
    log_result(session, root, "c3", "discuss", f"[Jack]: {hi}\n\n[Jill]: {hello}")


def play(log: Path, model: str) -> tuple[Session, list[Agent]]:
    """Play example 1. Return the session and the live agents: root, Jack, Jill."""
    session = Session(log)
    root = Agent(session, system_prompt="You are the host.")
    session.log_agent_created(root.agent_id, language_model=model)
    root.harken("Create Jack and Jill for a cafe discussion")
    jack = create_subagent(session, root, "Jack", "You work in HR.", model)
    jill = create_subagent(session, root, "Jill", "You are an aspiring author.", model)
    meet(session, root, jack, jill)
    return session, [root, jack, jill]


def strip_line(line: dict[str, Any]) -> dict[str, Any]:
    return {name: line[name] for name in line if name not in ("time", "sum", "latency_s")}


@pytest.mark.req("S0-25", "S0-26", "S0-27", "S0-37", "S0-38", "S0-39", "S0-40", "S0-51")
def test_documented_api_plays_example_1(tmp_path: Path, model: str) -> None:
    session, agents = play(tmp_path / "cafe.jsonl", model)
    session.close()
    assert all(type(agent) is type(agents[0]) for agent in agents)
    viewer = SessionViewer(tmp_path / "cafe.jsonl")
    assert [item["content"] for item in viewer.extract_dialog(["Jack", "Jill"])] == [
        CAFE,
        "Hi, I am Jack.",
        "*smiles* Hello Jack, I am Jill.",
    ]
    assert viewer.list_agents() == {
        "agent_001": "agent_001",
        "agent_002": "Jack",
        "agent_003": "Jill",
    }
    assert verify(tmp_path / "cafe.jsonl") == []


def ask(agents: list[Agent]) -> LoggedString:
    """Let Jack ask Jill, and the user ask the root."""
    root, jack, jill = agents
    jack.inform(jill, "Tell me.")
    answer = run(jill.response())
    assert run(root.response("And now?")) == "Where do you work?"
    return answer


def describe(agents: list[Agent]) -> list[object]:
    return [
        {
            "id": agent.agent_id,
            "name": agent.name,
            "model": agent.state.language_model,
            "place": (agent.state.parent, agent.state.place),
            "subagents": list(agent.subagents),
            "transcript": agent.transcript,
        }
        for agent in agents
    ]


@pytest.mark.req("S0-28", "S0-31")
def test_live_agents_equal_those_of_a_reload(tmp_path: Path, model: str) -> None:
    """After example 1, live and reloaded agents have the same state, and go on in the same way."""
    states, logs = [], []
    for name in ("live", "reloaded"):
        log = tmp_path / name / "cafe.jsonl"
        log.parent.mkdir()
        session, agents = play(log, model)
        if name == "reloaded":
            session.close()
            root, session = load_session(log)
            agents = [root, *(get_agent(root, id_) for id_ in list(session.agents)[1:])]
        before = describe(agents)
        assert ask(agents) == "Where do you work?"
        states.append((before, describe(agents)))
        session.close()
        logs.append([strip_line(line) for line in read_lines(log)])
    assert states[0] == states[1]
    assert logs[0] == logs[1]
