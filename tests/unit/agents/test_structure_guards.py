"""Methods of agents and the limits on them: hooks, budgets, crashes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harken import (
    Agent,
    AgentRuntime,
    Budget,
    Comment,
    Deny,
    DumbAgent,
    Hook,
    HookQuestion,
    LocalWorld,
    Ok,
    Rewrite,
    SmartAgent,
    ToolContext,
    load_session,
    register_agent_class,
    tool,
)
from harken.agents.action_schemas import ACTIONS
from harken.agents.open_calls import has_open_calls
from harken.agents.runtime import ActionPolicy, AgentLibrary
from harken.agents.turn_end import StoppedByHook
from harken.errors import AgentBusy, BudgetExceeded
from harken.world.permissions.permissions import Permissions
from harken.world.permissions.rules import PermissionRules
from harken.world.result import ActionBlocked, InvalidArguments, ToolError
from tests.agent_kit import (
    Stage,
    call,
    call_message,
    check_log,
    fast_options,
    full_state,
    open_stage,
    run,
    script_model,
)
from tests.session_kit import read_lines
from tests.unit.agents.crash_kit import cut_after
from tests.unit.agents.hook_kit import Judging, send, unguarded, watch

NAMES = ("Ada", "Ben", "Eve")


@register_agent_class("test-troupe")
class Troupe(DumbAgent):
    """Creates its cast once, lets it talk, and is told to stop."""

    async def answer(self, input: str) -> str:
        for name in NAMES[:2]:
            if name not in self.subagents:
                await self.task(name, f"You are {name}.")
        replies = await self.discuss(input, speakers=NAMES[:2])
        return " ".join(reply.answer for reply in replies)


def troupe(folder: Path, **more: Any) -> tuple[Stage, Agent]:
    """Return a stage and a dumb agent below its root."""
    parts = {name: [f"{name} {n}." for n in range(1, 9)] for name in NAMES}
    model = script_model(**{"main": ["Done."], **parts})
    runtime = AgentRuntime(
        model=model, world=LocalWorld([send], folder=folder), policy=ActionPolicy(actions=ACTIONS)
    )
    one = open_stage(folder, model, runtime=runtime, **more)
    return one, run(one.root.task("troupe", agent=Troupe))


def no_task(question: HookQuestion) -> Deny | Ok:
    is_task = question.call is not None and question.call.function.name == "task"
    return Deny("no more") if is_task else Ok()


@pytest.mark.req("S4-29")
def test_subagents_of_a_dumb_agent_get_copies_of_its_hooks(tmp_path: Path) -> None:
    one, agent = troupe(tmp_path)
    guard = watch(one)
    assert run(agent.response("Well?")) == "Ada 1. Ben 1."
    assert [hook._original_id for hook in agent.hooks] == [guard.agent_id]
    for name in NAMES[:2]:
        [copy] = agent.subagents[name].hooks
        assert copy._original_id == guard.agent_id
        assert isinstance(copy, Judging)
        assert ("input", "Well?") in copy.points_asked()
    assert unguarded(one.session, guard.agent_id) == []
    check_log(one.log)


@pytest.mark.req("S4-29")
@pytest.mark.parametrize("method", ["task", "clone", "restore", "hook"])
def test_whatever_a_method_makes_is_watched(tmp_path: Path, method: str) -> None:
    one, agent = troupe(tmp_path)
    guard = watch(one)

    async def make() -> Agent:
        await agent.task("Ada")
        if method == "clone":
            return await agent.clone("Ada", as_name="Eve")
        if method == "restore":
            return await agent.restore(await agent.dump("ada.json", "Ada"), "Eve")
        if method == "hook":
            return await agent.hook("Eve", "Watch.", tools=["send"])
        return await agent.task("Eve")

    made = run(make())
    assert [hook._original_id for hook in made.hooks] == [guard.agent_id]
    assert unguarded(one.session, guard.agent_id) == []
    check_log(one.log)
    live = full_state(one.session)
    assert full_state(one.resume().session) == live


def test_a_hook_denies_a_method_as_it_denies_a_model(tmp_path: Path) -> None:
    one, agent = troupe(tmp_path)
    watch(one, action=no_task)
    with pytest.raises(ActionBlocked, match="Action blocked by hook 'guard': no more"):
        run(agent.task("Ada"))
    [result] = one.select_lines(role="tool", agent_id=agent.agent_id)
    assert result["content"] == "Error: Action blocked by hook 'guard': no more"
    one.set_answers(main=["-", call_message(call("task", "m", name="Ada")), "Done."])
    one.ask("Go.")
    assert one.result("m")["content"] == result["content"]
    assert agent.subagents == {}
    check_log(one.log)


def test_a_hook_rewrites_the_arguments_of_a_method(tmp_path: Path) -> None:
    one, agent = troupe(tmp_path)
    guard = watch(one, action=lambda _: Rewrite('{"name":"Eve","instructions":"You are Eve."}'))
    made = run(agent.task("Ada", "You are Ada."))
    assert (made.name, made.transcript[0]["content"]) == ("Eve", "You are Eve.")
    [event] = one.select_lines(event_type="action_rewritten")
    assert event["agent_id"] == agent.agent_id
    with pytest.raises(InvalidArguments, match="a hook rewrote 'agent'"):
        run(agent.task("Bob", agent=Troupe))
    guard.judges.clear()
    check_log(one.log)


def test_a_comment_on_a_method_is_a_message_of_the_agent_and_no_input(tmp_path: Path) -> None:
    one, agent = troupe(tmp_path)
    judges: Mapping[str, Any] = {"action": Comment("Mind the cost."), "result": Comment("Good.")}
    watch(one, **{point: lambda _, v=verdict: v for point, verdict in judges.items()})
    run(agent.task("Eve"))
    heard = ["[hook guard]: Mind the cost.", "[hook guard]: Good."]
    assert one.user_messages("troupe") == heard
    assert not has_open_calls(agent)
    assert run(agent.response("Well?")) == "Ada 1. Ben 1."
    assert run(agent.response()) == "Ada 2. Ben 2."
    assert one.user_messages("Ben")[-2:] == ["Well?", "[Ada]: Ada 2."]
    check_log(one.log)


def test_a_hook_that_stops_the_turn_stops_the_method(tmp_path: Path) -> None:
    def stop(question: HookQuestion) -> Ok:
        raise StoppedByHook("enough")

    one, agent = troupe(tmp_path)
    guard = watch(one, action=stop)
    with pytest.raises(ActionBlocked, match="task was not run: a hook ended the turn"):
        run(agent.task("Ada"))
    guard.judges.clear()
    for hook in agent.hooks:
        assert isinstance(hook, Judging)
        hook.judges = {"result": stop}
    with pytest.raises(ActionBlocked, match="was run, and a hook ended the turn: enough"):
        run(agent.task("Ada"))
    assert list(agent.subagents) == ["Ada"]
    assert agent.state.open_calls == {}
    check_log(one.log)


@pytest.mark.parametrize(
    "budget", [Budget(live_subagents=2), Budget(depth=1)], ids=["live_subagents", "depth"]
)
def test_budgets_count_the_subagents_of_methods(tmp_path: Path, budget: Budget) -> None:
    one, agent = troupe(tmp_path, budget=budget)
    limit = pytest.raises(BudgetExceeded, match="may have")
    if budget.depth is None:
        run(agent.task("Ada"))
    with limit:
        run(agent.task("Ben"))
    with limit:
        run(agent.hook("own", "Watch.") if budget.depth is None else agent.task("Eve"))
    assert one.select_lines(role="tool")[-1]["content"].startswith("Error: agent main may have")
    assert len(agent.subagents) == (budget.depth is None)


def test_permissions_hold_for_files_of_methods(tmp_path: Path) -> None:
    permissions = Permissions("all", PermissionRules.parse(deny=["dump(**/no.json)"]))
    runtime = AgentRuntime(
        model=script_model(main=[]), world=LocalWorld(folder=tmp_path, permissions=permissions)
    )
    one = open_stage(tmp_path, script_model(main=[]), runtime=runtime)
    with pytest.raises(ToolError):
        run(one.root.dump("no.json"))
    assert run(one.root.dump(Path("yes.json"))).exists()
    assert not (tmp_path / "no.json").exists()


def test_a_program_that_was_cut_anywhere_goes_on_to_the_same_end(tmp_path: Path) -> None:
    """The cut may be in a method, between two, or in a turn of a subagent."""
    (tmp_path / "whole").mkdir()
    one, agent = troupe(tmp_path / "whole")
    guard = watch(one)
    begins = len(read_lines(one.log))
    run(agent.response("Well?"))
    ends = len(read_lines(one.log))
    one.session.close()
    for count in range(begins, ends):
        cut = cut_after(one.log, count)
        root, session = load_session(cut, runtime=one.runtime, options=fast_options())
        again = root.subagents["troupe"]
        assert unguarded(session, guard.agent_id) == []
        assert not any(state.open_calls for state in session.agents.values())
        text = None if any(m["role"] == "user" for m in again.transcript) else "Well?"
        if has_open_calls(again) or text is not None:
            run(again.response(text))
        assert list(again.subagents) == ["Ada", "Ben"], count
        last = again.transcript[-1]
        assert last["role"] == "assistant"
        assert last["content"].split()[::2] == ["Ada", "Ben"]
        check_log(cut)
        live = full_state(session)
        session.close()
        _, session = load_session(cut, runtime=one.runtime, options=fast_options())
        assert full_state(session) == live
        session.close()


@pytest.mark.parametrize("kind", ["dumb", "smart"])
def test_a_method_that_was_cut_off_says_how_far_it_came(tmp_path: Path, kind: str) -> None:
    (tmp_path / "whole").mkdir()
    one, agent = troupe(tmp_path / "whole")
    acting = agent if kind == "dumb" else one.root
    watch(one)
    begins = len(read_lines(one.log))
    run(acting.task("Ada", "You are Ada.", prompt="Hi?"))
    one.session.close()
    is_result = [row.get("role") == "tool" and row["name"] == "task" for row in read_lines(one.log)]
    result = len(is_result) - 1 - is_result[::-1].index(True)
    notes: list[str] = []
    for count in range(begins + 1, result + 1):
        cut = cut_after(one.log, count)
        root, session = load_session(cut, runtime=one.runtime, options=fast_options())
        above = root.subagents["troupe"] if kind == "dumb" else root
        [note] = [m["content"] for m in above.transcript if m["role"] == "tool"][-1:]
        assert note.startswith("Error: interrupted before task gave a result.")
        notes.append(note.partition("again.")[2].strip())
        assert ("Ada" in above.subagents) == ("Subagent Ada" in notes[-1]), (count, note)
        session.close()
    stages = [note for n, note in enumerate(notes) if note != (notes[n - 1] if n else None)]
    assert stages[0] == ""  # nothing to tell
    assert "Subagent Ada was created and had not answered." in stages
    assert "Subagent Ada was created and had answered." in stages


def test_a_session_that_ends_with_a_method_is_not_interrupted(tmp_path: Path) -> None:
    one, _ = troupe(tmp_path)
    run(one.root.discuss("Well?", ["troupe"]))
    later = one.resume()
    assert not has_open_calls(later.root)
    assert not has_open_calls(later.root.subagents["troupe"])


@register_agent_class("test-busybody")
class Busybody(Hook):
    """Lets the agent that it watches act while it judges."""

    async def judge(self, question: HookQuestion) -> Ok:
        assert self.watched is not None
        await self.watched.task("Ada", "You are Ada.")
        return Ok()


def test_hook_of_a_limited_agent_gets_no_more_tools(tmp_path: Path) -> None:
    verdicts = dict.fromkeys("abc", ["OK"] * 9)
    model = script_model(main=["Done."], **verdicts)
    runtime = AgentRuntime(
        model=model, world=LocalWorld([send]), policy=ActionPolicy(actions=ACTIONS)
    )
    stage = open_stage(tmp_path, model, runtime=runtime)
    limited = run(stage.root.task("p", "You are p.", tools=["hook", "task"]))
    by_class = run(limited.hook("a", agent=SmartAgent))
    own = SmartAgent(stage.session, "Watch.", runtime=runtime, tools=["send", "task"])
    by_object = run(limited.hook("b", agent=own))
    plain = run(limited.hook("c", agent=SmartAgent(stage.session, "Watch.", runtime=runtime)))
    assert by_class.state.spec.limits.tools == []
    assert by_object.state.spec.limits.tools == ["task"]
    assert set(plain.state.spec.limits.tools or ()) <= {"hook", "task"}


def test_hook_that_makes_its_dumb_agent_act_gets_an_error(tmp_path: Path) -> None:
    stage, agent = troupe(tmp_path)
    Busybody(stage.session, runtime=stage.runtime).install(agent)
    with pytest.raises(ActionBlocked, match="AgentBusy"):
        run(agent.task("Eve", "You are Eve."))
    assert not agent.subagents


def test_tool_that_makes_a_judging_hook_act_gets_an_error(tmp_path: Path) -> None:
    @tool
    async def recruit(context: ToolContext) -> str:
        """Let the agent create a subagent."""
        with pytest.raises(AgentBusy):
            await context.agent.task("Eve", "You are Eve.")
        return "busy"

    model = script_model(main=["Hm.", "Done."], guard=[call_message(call("recruit")), "OK"])
    runtime = AgentRuntime(
        model=model, world=LocalWorld([recruit]), policy=ActionPolicy(actions=ACTIONS)
    )
    stage = open_stage(tmp_path, model, runtime=runtime)
    run(stage.root.hook("guard", "Watch.", points=["response"], tools=["recruit", "task"]))
    assert stage.ask("Go!") == "Done."
    assert stage.result("c1", "guard")["content"] == "busy"


def test_agents_below_a_terminated_agent_act_no_more(tmp_path: Path) -> None:
    stage, agent = troupe(tmp_path)
    below = run(agent.task("Ada", "You are Ada."))
    run(stage.root.terminate("troupe"))
    with pytest.raises(ToolError, match="task was not run: Ada has left"):
        run(below.task("Eve", "You are Eve."))


def test_class_that_only_the_library_knows_is_a_subagent(tmp_path: Path) -> None:
    class Clerk(DumbAgent):
        async def answer(self, input: str) -> str:
            return "filed"

    library = AgentLibrary(kinds={"test-clerk-of-the-library": Clerk})
    runtime = AgentRuntime(model=script_model(main=["Done."]), library=library)
    stage = open_stage(tmp_path, script_model(main=[]), runtime=runtime)
    reply = run(stage.root.task("clerk", prompt="File it.", agent=Clerk))
    assert reply.answer == "filed"
    assert reply.agent.state.spec.kind == "test-clerk-of-the-library"


def test_points_beside_a_hook_of_the_program_are_an_error(tmp_path: Path) -> None:
    _, agent = troupe(tmp_path)
    with pytest.raises(TypeError, match="has its own instructions, points, tools and model"):
        run(agent.hook("h", agent=Judging, points=["action"]))
