"""The public members of agents: what a user of an agent sees. A new member is a decision."""

from pathlib import Path

import pytest

from harken import DumbAgent, Hook, SmartAgent, load_session
from harken.agents.agent import Agent, log_birth
from tests.agent_kit import script_model

ACTIONS = {
    *("clone", "discuss", "dump", "endo", "hook", "meta", "quit", "restore", "talk_with", "task"),
    "terminate",
}
AGENT = ACTIONS | {
    "harken",
    "hooks",
    "inform",
    "install",
    "name",
    "response",
    "state",
    "subagents",
    "transcript",
}
SMART_AGENT = {"compact", "model", "set_tools", "tools", "window"}
DUMB_AGENT = {"answer", "begin", "dump_state", "load_saved_state", "save_state", "say"}
HOOK = {"Options", "copy_for", "judge", "points", "should_ask", "watched"}
ATTRIBUTES = {"agent_id", "runtime", "session"}
"""What the constructor sets."""


def public(names: list[str]) -> set[str]:
    return {name for name in names if not name.startswith("_")}


def test_an_agent_has_at_most_twenty_public_members() -> None:
    assert public(dir(Agent)) == AGENT
    assert len(AGENT) <= 20


@pytest.mark.parametrize(
    ("kind", "members"),
    [
        (SmartAgent, AGENT | SMART_AGENT),
        (DumbAgent, AGENT | DUMB_AGENT),
        (Hook, AGENT | DUMB_AGENT | HOOK),
    ],
)
def test_a_class_of_agents_adds_what_its_users_need(kind: type, members: set[str]) -> None:
    assert public(dir(kind)) == members


def test_an_agent_has_no_public_attributes_besides_those_of_its_constructor(
    tmp_path: Path,
) -> None:
    root, session = load_session(tmp_path / "log.jsonl", model=script_model(main=["Hi."]))
    with session:
        assert public([*vars(root)]) == ATTRIBUTES
        assert public([*vars(Hook(session))]) == ATTRIBUTES | {"options"}


def test_subagents_are_loaded_when_they_are_looked_up(tmp_path: Path) -> None:
    root, session = load_session(tmp_path / "log.jsonl", model=script_model(main=["Hi."]))
    with session:
        for name in ("Ann", "Ben"):
            log_birth(SmartAgent(session, runtime=root.runtime), root.state.birth, name, "subagent")
        session.live.clear()
        subagents = root.subagents
        assert (len(subagents), [*subagents], "Ann" in subagents) == (2, ["Ann", "Ben"], True)
        assert "Eve" not in subagents
        assert subagents.get("Eve") is None
        assert session.live == {}
        assert subagents["Ben"].name == "Ben"
        assert [*session.live] == [subagents["Ben"].agent_id]
