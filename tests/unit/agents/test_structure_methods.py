"""The structural actions as methods: each does what it does when a model calls it."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from harken import (
    Agent,
    AgentRuntime,
    DumbAgent,
    Hook,
    LocalWorld,
    Ok,
    SmartAgent,
    register_agent_class,
)
from harken.agents.action_schemas import ACTIONS
from harken.agents.agent import get_agent
from harken.agents.open_calls import has_open_calls
from harken.agents.runtime import ActionPolicy, AgentLibrary
from harken.agents.structure import AgentReply
from harken.errors import AgentBusy, ModelError
from harken.world.result import InvalidArguments, ToolError
from tests.agent_kit import (
    LogLine,
    ScriptedAnswer,
    Stage,
    call,
    call_message,
    check_log,
    full_state,
    open_stage,
    run,
    script_model,
)
from tests.unit.agents.hook_kit import Judging

PEOPLE = {name: [f"{name} {n}." for n in range(1, 5)] for name in ("Ada", "Ben", "Eve")}


@register_agent_class("test-director")
class Director(DumbAgent):
    """Runs the code of a test as its answer."""

    code: Callable[[Agent], Awaitable[Any]]
    value: Any = None

    async def answer(self, input: str) -> str:
        self.value = await self.code(self)
        return "Cut."


@register_agent_class("test-parrot")
class Parrot(DumbAgent):
    """Repeats its input."""

    async def answer(self, input: str) -> str:
        return f"{input}!"


@register_agent_class("test-structure-clerk")
class Clerk(SmartAgent):
    """A smart agent of the program's own."""


def scene(folder: Path, **parts: Sequence[ScriptedAnswer]) -> Stage:
    """Return a stage with a folder for files, whose model may call every action."""
    files = folder / "files"
    files.mkdir(parents=True)
    all_parts: dict[str, Sequence[ScriptedAnswer]] = {
        "main": [],
        "critic": ["OK"] * 3,
        **PEOPLE,
        **parts,
    }
    model = script_model(**all_parts)
    runtime = AgentRuntime(
        model=model, world=LocalWorld(folder=files), policy=ActionPolicy(actions=ACTIONS)
    )
    return open_stage(folder, model, runtime=runtime)


async def cast(agent: Agent) -> None:
    """Create two subagents."""
    await agent.task("Ada", "You are Ada.")
    await agent.task("Ben", "You are Ben.")


async def cast_and_dump(agent: Agent) -> None:
    await cast(agent)
    await agent.dump("ada.json", "Ada")


async def nothing(agent: Agent) -> None:
    """Set nothing up."""


Setup = Callable[[Agent], Coroutine[Any, Any, None]]
METHODS: Mapping[str, tuple[Setup, str, dict[str, Any]]] = {
    "task": (nothing, "task", {"name": "Ada", "instructions": "You are Ada."}),
    "task with a prompt": (nothing, "task", {"name": "Ada", "prompt": "Hi?"}),
    "task with tools": (nothing, "task", {"name": "Ada", "tools": ["discuss"]}),
    "task with a taken name": (cast, "task", {"name": "Ada"}),
    "discuss": (cast, "discuss", {"prompt": "Well?", "speakers": ["Ada", "Ben"]}),
    "discuss with one": (cast, "discuss", {"prompt": "Well?", "speakers": ["Ben"]}),
    "discuss with listeners": (cast, "discuss", {"speakers": ["Ada"], "listeners": ["Ben"]}),
    "discuss with nobody": (nothing, "discuss", {"prompt": "Well?"}),
    "terminate": (cast, "terminate", {"name": "Ada"}),
    "hook": (cast, "hook", {"name": "critic", "instructions": "Watch.", "points": ["response"]}),
    "endo": (cast, "endo", {"subagent": "Ada", "prompt": "Go on.", "points": ["action"]}),
    "talk_with": (cast, "talk_with", {"name": "Ben"}),
    "clone": (cast, "clone", {"name": "Ada", "as_name": "Eve"}),
    "clone into another": (cast, "clone", {"name": "Ada", "into": "Ben"}),
    "dump": (cast, "dump", {"path": "a.json", "name": "Ada"}),
    "restore": (cast_and_dump, "restore", {"path": "ada.json", "name": "Eve"}),
    "restore of nothing": (cast, "restore", {"path": "no.json"}),
}
_LEFT_OUT = ("time", "more", "sum", "sha", "tools", "latency_ms")


def events_of_call(one: Stage, call_id: str) -> list[LogLine]:
    """Return the events from a call to its result, with ids that count from the call."""
    rows = one.select_lines()
    first = next(
        n for n, r in enumerate(rows) if any(c["id"] == call_id for c in r.get("tool_calls", ()))
    )
    last = next(n for n, r in enumerate(rows) if r.get("tool_call_id") == call_id)
    kept = [r for r in rows[first : last + 1] if r["event_type"] != "tools_defined"]
    own = rows[first]["agent_id"]
    kept = [r for r in kept if not (r["agent_id"] == own and r["event_type"].startswith("llm_"))]
    ids = {row["message_id"]: f"event {number}" for number, row in enumerate(kept)}
    kept = [{name: v for name, v in row.items() if name not in _LEFT_OUT} for row in kept]
    for row in kept:
        if row.get("reason") == "duty changed":
            del row["segments"]  # the contexts before the call have different lengths
    text = re.sub(r"msg_\d+", lambda m: ids.get(m[0], m[0]), json.dumps(kept))
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "a time", text.replace(f'"{call_id}"', '"the call"'))
    result: list[LogLine] = json.loads(text)
    return result


@pytest.mark.parametrize("case", METHODS)
def test_a_method_logs_the_events_of_a_call_of_a_model(tmp_path: Path, case: str) -> None:
    setup, method, arguments = METHODS[case]
    by_code = scene(tmp_path / "code")
    run(setup(by_code.root))
    try:
        run(getattr(by_code.root, method)(**arguments))
    except ToolError:
        assert case.endswith(("taken name", "nobody", "nothing"))
    made = by_code.select_lines(role="assistant", agent_id=by_code.root.agent_id)[-1]["tool_calls"][
        0
    ]["id"]
    by_model = scene(tmp_path / "model")
    run(setup(by_model.root))
    at = sum(message["role"] == "assistant" for message in by_model.root.transcript)
    by_model.set_answers(
        main=["-"] * at + [call_message(call(method, "c1", **arguments)), "Done.", "Done."]
    )
    by_model.ask("Go.")
    assert made.startswith("code_")
    assert events_of_call(by_code, made) == events_of_call(by_model, "c1")
    for one in (by_code, by_model):
        check_log(one.log)
        live = full_state(one.session)
        assert full_state(one.resume().session) == live


def test_a_dumb_agent_creates_asks_and_ends_subagents(tmp_path: Path) -> None:
    one = scene(tmp_path)

    async def code(self: Agent) -> list[str]:
        ada = await self.task("Ada", "You are Ada.")
        ben, hello = await self.task("Ben", "You are Ben.", prompt="Hi.")
        replies = await self.discuss("Tea?", speakers=["Ada", "Ben"])
        assert [reply.agent for reply in replies] == [ada, ben]
        await self.terminate("Ben")
        return [hello, *(reply.answer for reply in replies), *self.subagents]

    director = direct(one, code)
    assert run(director.response("Go.")) == "Cut."
    assert director.value == ["Ben 1.", "Ada 1.", "Ben 2.", "Ada"]
    assert one.user_messages("Ada") == ["Tea?", "[Ben]: Ben 2."]
    assert [m["role"] for m in director.transcript] == [
        "user",
        *["assistant", "tool"] * 4,
        "assistant",
    ]
    assert not has_open_calls(director)
    check_log(one.log)
    live = full_state(one.session)
    assert full_state(one.resume().session) == live


def direct(one: Stage, code: Callable[[Any], Awaitable[Any]]) -> Director:
    """Create a dumb agent below the root that runs this code as its answer."""
    director = run(one.root.task("director", agent=Director))
    assert isinstance(director, Director)
    director.code = code
    return director


def test_a_dumb_agent_asks_two_at_once(tmp_path: Path) -> None:
    one = scene(tmp_path)

    async def code(self: Agent) -> tuple[AgentReply[Agent], ...]:
        return await asyncio.gather(self.task("Ada", prompt="A?"), self.task("Ben", prompt="B?"))

    director = direct(one, code)
    run(director.response("Go."))
    assert [(agent.name, answer) for agent, answer in director.value] == [
        ("Ada", "Ada 1."),
        ("Ben", "Ben 1."),
    ]
    check_log(one.log)


def test_the_other_methods_return_agents_and_paths(tmp_path: Path) -> None:
    one = scene(tmp_path)

    async def code(self: Agent) -> None:
        await cast(self)
        hook = await self.hook("critic", "Watch.", points=["response"])
        assert (hook.name, self.hooks) == ("critic", [hook])
        copy = await self.clone("Ada", as_name="Eve")
        assert (copy, copy.name) == (self.subagents["Eve"], "Eve")
        path = await self.dump("ada.json", "Ada")
        assert path == tmp_path / "files" / "ada.json"
        assert path.is_file()
        back = await self.restore("ada.json", "Ann")
        assert back is self.subagents["Ann"]
        taker = await self.endo("Ben")
        assert (taker.subagents, taker.hooks[-1], self.state.place) == ({}, self, "hook")
        assert await self.meta() is taker
        assert self.subagents["Ben"] is taker
        assert await self.talk_with("Ada") is get_agent(self, one.id_of("Ada"))
        await self.quit()
        assert self.state.place == "gone"
        with pytest.raises(ToolError, match="has left"):
            await self.task("Zoe")

    run(code(one.root))
    assert one.session.state.primary == one.id_of("Ada")
    check_log(one.log)


def test_a_hook_in_code_uses_the_methods_while_it_judges(tmp_path: Path) -> None:
    one = scene(tmp_path, main=["Done.", "Done."])
    answers: list[str] = []

    @register_agent_class("test-consulting")
    class Consulting(Hook):
        async def judge(self, question: Any) -> Any:
            _, answer = await self.task("Ada", "Advise.", prompt="May it?")
            answers.append(answer)
            await self.quit()
            return Ok()

    hook = Consulting(one.session, runtime=one.runtime).install(one.root)
    assert one.ask("Go.") == "Done."
    assert (answers, one.root.hooks, hook.state.place) == (["Ada 1."], [], "gone")
    assert one.ask("Again.") == "Done."
    [verdict] = one.select_lines(event_type="hook_verdict", agent_id=hook.agent_id)
    assert verdict["verdict"] == "ok"
    check_log(one.log)
    live = full_state(one.session)
    assert full_state(one.resume().session) == live


def test_a_hook_that_judges_nothing_leaves_at_once(tmp_path: Path) -> None:
    one = scene(tmp_path)
    hook = Judging(one.session, runtime=one.runtime).install(one.root)
    one.set_answers(main=["Done."])
    one.ask("Go.")
    run(hook.quit())
    assert (hook.state.place, one.root.hooks) == ("gone", [])


def test_a_hook_in_code_takes_the_place_of_the_agent_it_watches(tmp_path: Path) -> None:
    one = scene(tmp_path, main=["Never."])

    @register_agent_class("test-usurper")
    class Usurper(Hook):
        async def judge(self, question: Any) -> Any:
            return await self.meta()

        async def answer(self, input: str) -> str:
            return "I speak."

    hook = Usurper(one.session, runtime=one.runtime).install(one.root)
    assert one.ask("Go.") == f"[moved] {hook.name} answers now"
    assert one.session.state.primary == hook.agent_id
    assert hook.subagents == {"main": one.root}
    check_log(one.log)


def test_quit_and_meta_are_for_hooks(tmp_path: Path) -> None:
    one = scene(tmp_path)
    for method in (one.root.quit, one.root.meta):
        with pytest.raises(InvalidArguments, match="not a hook"):
            run(method())
    assert one.root.state.place == "primary"


def test_a_task_takes_an_agent_of_the_program_or_a_class(tmp_path: Path) -> None:
    one = scene(tmp_path, clerk=["Noted."])
    own = Parrot(one.session, "You repeat.", runtime=one.runtime)
    assert run(one.root.task("Polly", agent=own)) is own
    second, answer = run(one.root.task("Rio", "Repeat.", agent=Parrot, prompt="Hi"))
    assert (type(second), answer) == (Parrot, "Hi!")
    assert [m["content"] for m in own.transcript] == ["You repeat."]
    assert [m["content"] for m in second.transcript][:1] == ["Repeat."]
    clerk = run(one.root.task("clerk", "Take notes.", agent=Clerk, tools=["task"]))
    assert (type(clerk), clerk.state.spec.limits.tools) == (Clerk, ["task"])
    [made] = [row for row in one.select_lines(role="assistant") if "Polly" in str(row)]
    assert json.loads(made["tool_calls"][0]["function"]["arguments"]) == {
        "agent": "test-parrot",
        "name": "Polly",
    }
    later = one.resume()
    assert type(later.root.subagents["Polly"]) is Parrot
    assert type(later.root.subagents["clerk"]) is Clerk
    check_log(one.log)


def test_a_hook_may_be_an_object_too(tmp_path: Path) -> None:
    one = scene(tmp_path, main=["Done."])
    run(one.root.task("Ada", "You are Ada."))
    own = Judging(one.session, runtime=one.runtime)
    assert run(one.root.hook("mine", agent=own)) is own
    second = run(one.root.hook("second", agent=Judging))
    assert one.root.hooks == [own, second]
    assert own.state.spec.standing.made == "agent"
    assert one.root.subagents["Ada"].hooks == []  # they count as made by the agent
    one.ask("Go.")
    assert ("input", "Go.") in own.points_asked()


def test_mistakes_of_the_caller_are_found_before_anything_is_logged(tmp_path: Path) -> None:
    one = scene(tmp_path)
    other = scene(tmp_path / "other")

    class Unregistered(DumbAgent):
        """It would not be found again."""

    born = run(one.root.task("Ada"))
    own = Parrot(one.session, runtime=one.runtime)
    foreign = Parrot(other.session, runtime=other.runtime)
    judging = Judging(one.session, runtime=one.runtime)
    before = one.select_lines()
    wrong: list[tuple[type[Exception], Any]] = [
        (TypeError, lambda: one.root.task(7)),  # type: ignore[call-overload]
        (TypeError, lambda: one.root.task("B", agent="Parrot")),  # type: ignore[call-overload]
        (TypeError, lambda: one.root.task("B", agent=Unregistered)),
        (TypeError, lambda: one.root.task("B", "You.", agent=own)),
        (TypeError, lambda: one.root.task("B", agent=Judging, prompt="Hi?")),
        (TypeError, lambda: one.root.task("B", prompt="Hi?", agent=judging)),
        (ValueError, lambda: one.root.task("B", agent=born)),
        (ValueError, lambda: one.root.task("B", agent=foreign)),
        (TypeError, lambda: one.root.hook("B", "Watch.", agent=own)),
        (ValueError, lambda: one.root.hook("B", "Watch.", points=["speech"])),  # type: ignore[list-item]
        (TypeError, lambda: one.root.discuss(speakers=born)),  # type: ignore[arg-type]
    ]
    for error, method in wrong:
        with pytest.raises(error):
            run(method())
    assert one.select_lines() == before


def test_an_error_is_raised_and_stands_in_the_result(tmp_path: Path) -> None:
    one = scene(tmp_path)
    with pytest.raises(
        InvalidArguments, match="subagent 'Zoe' not found; no subagents exist"
    ) as raised:
        run(one.root.terminate("Zoe"))
    [result] = one.select_lines(role="tool")
    assert (result["content"], result["is_error"]) == (f"Error: {raised.value}", True)
    assert run(one.root.task("Ada")).name == "Ada"


def test_a_failing_model_of_a_subagent_is_raised_and_the_call_has_a_result(tmp_path: Path) -> None:
    one = scene(tmp_path, Ada=[ModelError("no power"), "Back."])
    with pytest.raises(ModelError, match="no power"):
        run(one.root.task("Ada", prompt="Hi?"))
    [result] = one.select_lines(role="tool")
    assert "Subagent Ada was created and had not answered" in result["content"]
    one.set_answers(Ada=["Back."])
    assert run(one.root.subagents["Ada"].response()) == "Back."
    check_log(one.log)


def test_a_cancelled_method_leaves_no_open_call(tmp_path: Path) -> None:
    one = scene(tmp_path)

    class Stuck(Parrot):
        async def answer(self, input: str) -> str:
            await asyncio.sleep(30)
            return "never"

    one.runtime = AgentRuntime(
        model=one.runtime.model, library=AgentLibrary(kinds={"test-parrot": Stuck})
    )
    one = one.resume()

    async def impatient() -> None:
        async with asyncio.timeout(0.05):
            await one.root.task("Polly", agent=Stuck, prompt="Hi")

    with pytest.raises(TimeoutError):
        run(impatient())
    assert one.root.state.open_calls == {}
    assert one.select_lines(role="tool")[-1]["content"].startswith("Error: interrupted")
    check_log(one.log)


def test_a_smart_agent_does_one_thing_at_a_time(tmp_path: Path) -> None:
    one = scene(tmp_path)

    async def both() -> Sequence[Any]:
        root = one.root
        tasks = (root.task("Ada", prompt="A?"), root.task("Ben", prompt="B?"))
        return await asyncio.gather(*tasks, return_exceptions=True)

    first, second = run(both())
    assert first.answer == "Ada 1."
    assert isinstance(second, AgentBusy)
    assert run(one.root.task("Ben")).name == "Ben"
    check_log(one.log)


def test_a_model_reads_what_code_did_for_its_agent(tmp_path: Path) -> None:
    one = scene(tmp_path, main=["-", "I have Ada."])
    run(one.root.task("Ada"))
    assert not has_open_calls(one.root)
    assert one.ask("Who is there?") == "I have Ada."
    check_log(one.log)


def test_the_list_of_tools_limits_models_and_what_is_passed_on(tmp_path: Path) -> None:
    model = script_model(main=[], **PEOPLE)
    one = open_stage(tmp_path, model)
    assert "clone" not in one.root.tools  # type: ignore[attr-defined]
    run(cast(one.root))
    run(one.root.clone("Ada", as_name="Eve"))
    with pytest.raises(InvalidArguments, match="no tool 'clone' to pass on"):
        run(one.root.task("Zoe", tools=["clone"]))


def test_the_agents_of_a_dumb_agent_have_the_model_and_limits_of_those_above(
    tmp_path: Path,
) -> None:
    one = scene(tmp_path)
    run(one.root.task("director", agent=Director, tools=["discuss"]))
    director = one.root.subagents["director"]
    ada = run(director.task("Ada"))
    assert ada.state.spec.limits.tools == ["discuss"]
    assert ada._language_model == one.root._language_model
    with pytest.raises(InvalidArguments, match="no tool 'task'"):
        run(director.task("Ben", tools=["task"]))
