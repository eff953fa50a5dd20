"""Methods of agents and turns: what an agent hears while a call of its code runs."""

import asyncio
from pathlib import Path

import pytest

from harken import Agent, DumbAgent, register_agent_class
from harken.agents.agent import get_agent
from harken.errors import AgentBusy
from tests.agent_kit import check_log, run
from tests.unit.agents.test_structure_methods import direct, scene


def test_no_message_comes_between_a_call_of_a_dumb_agent_and_its_result(tmp_path: Path) -> None:
    @register_agent_class("test-nosy")
    class Nosy(DumbAgent):
        async def answer(self, input: str) -> str:
            assert self.state.parent is not None
            get_agent(self, self.state.parent).harken("Psst.")
            return "I told it."

    one = scene(tmp_path)

    async def code(self: Agent) -> None:
        with pytest.raises(AgentBusy):
            await self.task("Nosy", agent=Nosy, prompt="Go.")

    director = direct(one, code)
    run(director.response("Go."))
    assert one.user_messages("director") == ["Go."]
    check_log(one.log)


def test_a_hook_is_not_asked_during_a_call_of_its_own(tmp_path: Path) -> None:
    one = scene(tmp_path, main=["Done.", "Done."], critic=["-", "OK"])

    async def both() -> str:
        critic = await one.root.hook("critic", "Watch.", points=["response"], tools=["task"])
        made, answer = await asyncio.gather(
            critic.task("Ada", prompt="Hi?"), one.root.response("Go.")
        )
        assert made.answer == "Ada 1."
        return answer

    assert run(both()) == "Done."
    check_log(one.log)


def test_ids_of_calls_stay_unique_in_an_agent_from_a_dump(tmp_path: Path) -> None:
    one = scene(tmp_path / "one")
    run(one.root.task("Ada"))
    for _ in range(30):
        one.root.harken("Hm.")
    run(one.root.subagents["Ada"].task("Kid"))
    dump = run(one.root.dump("ada.json", "Ada"))
    other = scene(tmp_path / "other")
    (tmp_path / "other" / "files" / "ada.json").write_bytes(dump.read_bytes())
    ada = run(other.root.restore("ada.json"))
    [old] = [
        message["tool_calls"][0]["id"] for message in ada.transcript if "tool_calls" in message
    ]
    while other.session.state.next_message < int(old.removeprefix("code_")):
        other.root.harken("Hm.")
    assert other.session.state.next_message == int(old.removeprefix("code_"))
    for name in ("A", "B", "C"):
        run(ada.task(name))
    ids = [m["tool_calls"][0]["id"] for m in ada.transcript if "tool_calls" in m]
    assert len({*ids}) == 4
