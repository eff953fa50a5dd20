"""Dumb agents: code decides, and everything else is as with smart ones."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from harken import DumbAgent, SmartAgent, register_agent_class
from harken.agents.agent import log_birth
from harken.core.ids import AgentId
from tests.agent_kit import (
    ScriptedAnswer,
    call_message,
    check_log,
    full_state,
    open_stage,
    run,
    script_model,
)
from tests.unit.agents.tree_kit import talk


@register_agent_class("test-echo")
class Echo(DumbAgent):
    """Says what it heard, and counts."""

    def begin(self) -> None:
        self.count = 0

    async def answer(self, heard: str) -> str:
        self.count += 1
        return f"{self.count}: {heard}"

    def dump_state(self) -> Any:
        return {"count": self.count}

    def load_saved_state(self, saved: Any) -> None:
        self.count = saved["count"]


@pytest.mark.req("S4-01", "S0-31")
def test_a_dumb_agent_fits_where_a_smart_one_does(tmp_path: Path) -> None:
    steps: list[ScriptedAnswer] = [
        call_message(talk(prompt="One.", speakers=["Echo"])),
        call_message(talk("c2", prompt="Two.")),
        "Done.",
        call_message(talk("c3", prompt="Three.")),
        "Done.",
    ]
    one = open_stage(tmp_path, script_model(main=steps))
    echo = Echo(one.session, "Unused.", runtime=one.runtime)
    log_birth(echo, one.root.state.birth, "Echo", "subagent")
    assert one.ask("Go.") == "Done."
    assert one.result("c2")["content"] == "2: Two."
    live = full_state(one.session)
    later = one.resume()
    assert full_state(later.session) == live
    assert later.session.agents[echo.agent_id].saved_state == {"count": 2}
    later.ask("Again.")
    assert later.result("c3")["content"] == "3: Three."
    check_log(later.log)


@pytest.mark.req("S4-01", "S4-20", "S1-07")
def test_a_dumb_agent_may_launch_smart_ones_by_itself(tmp_path: Path) -> None:
    @register_agent_class("test-search")
    class Search(DumbAgent):
        async def answer(self, heard: str) -> str:
            readers = [SmartAgent(self.session, "Read.", runtime=self.runtime) for _ in range(3)]
            for number, reader in enumerate(readers):
                log_birth(reader, self.state.birth, f"reader{number}", "subagent")
            found = await asyncio.gather(*(reader.response(heard) for reader in readers))
            return " ".join(found)

    parts: dict[str, Any] = {f"reader{n}": [f"page {n}"] for n in range(3)}
    one = open_stage(
        tmp_path, script_model(main=[call_message(talk(prompt="Find it.")), "Found."], **parts)
    )
    log_birth(Search(one.session, runtime=one.runtime), one.root.state.birth, "search", "subagent")
    assert one.ask("Search.") == "Found."
    assert one.result()["content"] == "page 0 page 1 page 2"
    above = [one.session.agents[AgentId(one.id_of(name))].parent for name in parts]
    assert above == [one.id_of("search")] * 3
    check_log(one.log)


@pytest.mark.req("S4-03", "S4-01")
def test_a_dumb_agent_that_raises_is_a_failed_action(tmp_path: Path) -> None:
    @register_agent_class("broken")
    class Broken(DumbAgent):
        async def answer(self, heard: str) -> str:
            raise ValueError(heard)

    one = open_stage(
        tmp_path, script_model(main=[call_message(talk(prompt="Hi?", speakers=["B"])), "Broken."])
    )
    log_birth(Broken(one.session), one.root.state.birth, "B", "subagent")
    assert one.ask("Go.") == "Broken."
    assert one.result()["content"] == "Error: discuss: ValueError: Hi?"


@pytest.mark.req("S4-01")
def test_a_dumb_agent_answers_alone_too(tmp_path: Path) -> None:
    one = open_stage(tmp_path, script_model())
    echo = Echo(one.session)
    log_birth(echo, one.root.state.birth, "Echo", "subagent")
    said = run(echo.response("hello"))
    assert said == "1: hello"
    [row] = one.select_lines(message_id=said.message_id)
    assert (row["role"], row["content"]) == ("assistant", "1: hello")
    [birth] = one.select_lines(event_type="agent_created", name="Echo")
    assert birth["spec"] == {"kind": "test-echo"}
    assert "language_model" not in birth
