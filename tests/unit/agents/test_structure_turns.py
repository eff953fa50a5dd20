"""Methods of agents and turns: what an agent hears while a call of its code runs."""

import asyncio
from pathlib import Path

import pytest

from harken import Agent, DumbAgent, HookQuestion, Ok, Rewrite, register_agent_class
from harken.agents.agent import get_agent
from harken.agents.open_calls import has_open_calls
from harken.errors import AgentBusy, ModelError
from tests.agent_kit import Stage, check_log, full_state, run
from tests.unit.agents.hook_kit import watch
from tests.unit.agents.test_structure_methods import Parrot, direct, scene


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


def with_unjudged_answer(folder: Path, *verdicts: Ok | Rewrite) -> Stage:
    """Return a stage whose root has an answer on which its hook has failed once."""
    pending: list[Ok | Rewrite | None] = [None, *verdicts]

    def judge(question: HookQuestion) -> Ok | Rewrite:
        verdict = pending.pop(0)
        if verdict is None:
            raise ModelError("no power")
        return verdict

    one = scene(folder, main=["First.", "-", "Second."])
    watch(one, response=judge)
    with pytest.raises(ModelError, match="no power"):
        one.ask("Go.")
    return one


@pytest.mark.parametrize(
    ("verdict", "answer"), [(Ok(), "First."), (Rewrite("Censored."), "Censored.")]
)
def test_an_unjudged_answer_is_judged_after_a_call_of_code(
    tmp_path: Path, verdict: Ok | Rewrite, answer: str
) -> None:
    one = with_unjudged_answer(tmp_path, verdict, Ok())
    run(one.root.task("Ada"))
    assert has_open_calls(one.root)
    assert one.ask() == answer
    assert not has_open_calls(one.root)
    assert one.ask("Again.") == "Second."
    check_log(one.log)


def test_an_agent_of_code_that_serves_as_a_hook_leaves_after_its_verdict(tmp_path: Path) -> None:
    @register_agent_class("test-leaving")
    class Leaving(DumbAgent):
        async def answer(self, input: str) -> str:
            assert input.startswith("[result] Agent main got the result:")
            await self.quit()
            assert self.state.place == "hook"
            return "COMMENT: Farewell."

    one = scene(tmp_path, main=["Done.", "Done.", "Done."])
    hook = run(one.root.hook("leaving", agent=Leaving))
    assert one.ask("Go.") == "Done."
    assert (one.root.hooks, hook.state.place) == ([], "gone")
    [verdict] = one.select_lines(agent_id=hook.agent_id, event_type="hook_verdict")
    assert (verdict["verdict"], verdict["text"]) == ("comment", "Farewell.")
    assert one.ask("Again.") == "Done."
    check_log(one.log)
    live = full_state(one.session)
    assert full_state(one.resume().session) == live


def test_an_agent_of_code_that_judges_nothing_leaves_at_once(tmp_path: Path) -> None:
    one = scene(tmp_path)
    hook = run(one.root.hook("polly", agent=Parrot))
    run(hook.quit())
    assert (hook.state.place, one.root.hooks) == ("gone", [])
