"""What is on disk when: the log before the effect, the effect before the result."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

from harken import (
    AgentRuntime,
    Comment,
    Hook,
    HookQuestion,
    Rewrite,
    load_session,
    register_agent_class,
    tool,
)
from harken.errors import LogWriteError
from harken.llm.base import ModelRequest
from harken.testing import FailingDisk, RecordingDisk
from tests.agent_kit import (
    ScriptModel,
    Stage,
    call,
    call_message,
    check_log,
    fast_options,
    open_stage,
    run,
    script_model,
)
from tests.session_kit import read_lines


class WatchedDisk(RecordingDisk):
    """A disk that is told what happens beside it."""

    def effect(self, what: str) -> str:
        """Note an effect on the world, and whether everything before it is safe."""
        self.operations.append(what if self.safe else f"{what} UNSAFE")
        return what

    @property
    def order(self) -> list[str]:
        """Effects and syncs in their order."""
        return [what for what in self.operations if what not in {"write", "sync_folder"}]


@register_agent_class("test-remarks")
class Remarks(Hook):
    """Has something to say about everything."""

    def judge(self, question: HookQuestion) -> Comment:
        return Comment(f"about {question.point}")

    def dump_state(self) -> Any:
        return len(self.transcript)


def watched(folder: Path, disk: WatchedDisk, durability: Any = "turn") -> Stage:
    @tool
    async def work(what: str) -> str:
        """Work."""
        return disk.effect(what)

    @tool
    def work_in_thread(what: str) -> str:
        """Work in a thread."""
        return disk.effect(what)

    model = script_model(
        main=[
            call_message(call("work", "a", what="one")),
            call_message(call("work", "b", what="two"), call("work_in_thread", "c", what="three")),
            call_message(
                call("task", "d", name="Ann", prompt="Work."), call("work", "e", what="four")
            ),
            "Done.",
        ],
        Ann=[call_message(call("work", "f", what="Ann's")), "Ann is done."],
    )
    return open_stage(
        folder, model, tools=[work, work_in_thread], options=fast_options(durability, disk)
    )


@pytest.mark.req("S0-34")
@pytest.mark.parametrize("hooked", [False, True], ids=["plain", "with a hook"])
@pytest.mark.parametrize("durability", ["turn", "always"])
def test_all_of_the_log_is_on_disk_before_a_tool_acts_and_before_an_answer(
    tmp_path: Path, durability: Any, hooked: bool
) -> None:
    disk = WatchedDisk()
    one = watched(tmp_path, disk, durability)
    if hooked:
        Remarks(one.session, runtime=one.runtime).install(one.root)
    assert one.ask("Work.") == "Done."
    disk.effect("answer")
    effects = [what for what in disk.order if what != "sync"]
    assert sorted(effects) == sorted(["one", "two", "three", "four", "Ann's", "answer"])
    check_log(one.log)


@pytest.mark.req("S0-34")
def test_turn_syncs_no_more_often_than_it_must(tmp_path: Path) -> None:
    disk = WatchedDisk()
    one = watched(tmp_path, disk)
    disk.operations.clear()
    run(_one_turn(one))
    assert disk.order == ["sync", "one", "sync"]


async def _one_turn(one: Stage) -> None:
    assert isinstance(one.runtime.model, ScriptModel)
    one.runtime.model.answers = {"main": [call_message(call("work", what="one")), "Done."]}
    await one.root.response("Work.")


@pytest.mark.req("S0-34")
def test_none_syncs_nothing(tmp_path: Path) -> None:
    disk = WatchedDisk()
    watched(tmp_path, disk, "none").ask("Work.")
    assert "sync" not in disk.order


@pytest.mark.req("S0-34")
def test_a_rewritten_action_is_on_disk_before_it_runs(tmp_path: Path) -> None:
    disk = WatchedDisk()

    @register_agent_class("test-changing")
    class Changing(Hook):
        def judge(self, question: HookQuestion) -> Any:
            return Rewrite('{"what": "other"}') if question.point == "action" else Comment("")

    one = watched(tmp_path, disk)
    Changing(one.session).install(one.root)
    run(_one_turn(one))
    assert "other" in disk.order


@pytest.mark.req("S0-34", "S0-31")
def test_the_call_stands_in_the_log_before_its_effect_and_the_result_after(tmp_path: Path) -> None:
    seen: list[list[str]] = []
    log = tmp_path / "s.jsonl"

    @tool
    def work() -> str:
        """Look at the log."""
        seen.append([row.get("role", row["event_type"]) for row in read_lines(log)])
        return "worked"

    one = open_stage(
        tmp_path, script_model(main=[call_message(call("work")), "Done."]), tools=[work]
    )
    one.ask("Work.")
    [then] = seen
    assert then[-3:] == ["assistant", "llm_response", "action_started"]
    assert "tool" not in then
    after = [row.get("role", row["event_type"]) for row in one.select_lines()]
    assert after[: len(then)] == then
    assert after[len(then)] == "tool"


def test_the_request_stands_in_the_log_before_the_model_is_asked(tmp_path: Path) -> None:
    seen: list[str] = []

    def answer(request: ModelRequest) -> str:
        seen.append(read_lines(tmp_path / "s.jsonl")[-1]["event_type"])
        return "Hi."

    open_stage(tmp_path, script_model(main=[answer])).ask("hello")
    assert seen == ["llm_request"]


@pytest.mark.req("S0-34", "S4-04")
def test_where_the_log_cannot_be_written_no_tool_acts_and_nothing_is_shown(tmp_path: Path) -> None:
    """Fail every operation of a turn in turn: no effect without its call in the log."""

    def attempt(at: int) -> tuple[FailingDisk, list[str], bool, Path]:
        folder = tmp_path / str(at)
        folder.mkdir()
        disk, effects = FailingDisk(fail_at=at, fault="EIO"), []

        @tool
        async def work(n: int) -> str:
            """Work."""
            effects.append(f"c{n}")
            return "worked"

        both = call_message(call("work", "c1", n=1), call("work", "c2", n=2))
        model = script_model(main=[both, call_message(call("work", "c3", n=3)), "Done."])
        shown = False
        with contextlib.suppress(LogWriteError):
            one = open_stage(folder, model, tools=[work], options=fast_options("turn", disk))
            with one.session:
                shown = one.ask("Work.") == "Done."
        return disk, effects, shown, folder / "s.jsonl"

    whole, effects, shown, _ = attempt(10_000)
    assert (effects, shown) == (["c1", "c2", "c3"], True)
    for at in range(len(whole.operations)):
        _, effects, shown, log = attempt(at)
        assert not shown
        made = [made["id"] for row in read_lines(log) for made in row.get("tool_calls", ())]
        assert set(effects) <= set(made)
        if made:
            root, session = load_session(
                log, runtime=AgentRuntime(model=script_model()), options=fast_options()
            )
            assert not {*root.state.open_calls} & {*effects}  # only calls that did not act go on
            session.close()
            check_log(log, finished=False)


def test_a_cancelled_turn_leaves_a_session_that_can_be_closed_and_resumed(tmp_path: Path) -> None:
    async def forever(request: ModelRequest) -> str:
        await asyncio.Event().wait()
        return "never"

    one = open_stage(tmp_path, script_model(main=[forever]), options=fast_options("turn"))

    async def cancelled() -> None:
        task = asyncio.create_task(one.root.response("hello"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(cancelled())
    assert one.resume(script_model(main=["Hi."])).ask() == "Hi."
