"""Built-in hooks in one run, as a user would have them: planned, agreed to, done, and looked at.

What they said is in the log and in the view of hooks, with what became of it; and wherever the
session is left and taken up again, it goes on as if it had not been.
"""

from pathlib import Path
from typing import Any, ClassVar

import pytest

from harken import (
    AgentRuntime,
    Comment,
    Hook,
    HookQuestion,
    LocalWorld,
    Ok,
    SessionViewer,
    ToolContext,
    register_agent_class,
    tool,
)
from harken.agents.hooks.registry import get_hook_class
from harken.core.event_types.spec import HookPoint
from harken.core.verdict import Verdict
from harken.world.files.root import Root
from harken.world.files.tools import file_tools
from harken.world.search.engines import Scanner
from harken.world.search.tools import search_tools
from harken.world.todo import todo
from tests.agent_kit import (
    ScriptedAnswer,
    Stage,
    call,
    call_message,
    check_log,
    full_state,
    open_stage,
    script_model,
)

HOOKS: dict[str, dict[str, Any]] = {
    "planning-mode": {},
    "todo-reminder": {"requests": 3},
    "changed-files": {},
    "read-before-write": {},
    "garbage-collector": {"requests": 6},
    "task-limiter": {"live": 2},
    "budget-guard": {"model_calls": 16},
}


def todos(status: str, id_: str) -> ScriptedAnswer:
    items = [{"text": "rename f", "status": status}, {"text": "test it", "status": "open"}]
    return call_message(call("todo", id_, items=items))


def edit(path: str, old: str, new: str, id_: str) -> ScriptedAnswer:
    return call_message(call("edit", id_, path=path, old_string=old, new_string=new))


PLAN = "PLAN: rename f to g in a.py, then test."
MAIN: list[ScriptedAnswer] = [
    edit("a.py", "f", "g", "e0"),  # it would rather begin at once: denied
    call_message(call("read", "r1", path="a.py"), call("grep", "g1", pattern="f")),
    call_message(call("task", "k1", name="reviewer", instructions="Review.", prompt="Is it safe?")),
    PLAN,
    todos("doing", "t1"),
    edit("a.py", "f()", "g()", "e1"),
    call_message(call("read", "r2", path="b.py")),
    call_message(call("ls", "l1")),
    edit("b.py", "f", "g", "e2"),  # b.py was changed by somebody meanwhile: denied
    call_message(call("read", "r3", path="b.py")),
    edit("b.py", "f", "g", "e3"),
    "Done.",
]
REVIEWER: list[ScriptedAnswer] = [edit("a.py", "f", "h", "x1"), "It is safe."]


def open_hooked_stage(tmp_path: Path) -> Stage:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "a.py").write_text("f()\n")
    (folder / "b.py").write_text("import a\na.f()\n")
    root = Root(folder)

    def meanwhile(request: object) -> ScriptedAnswer:
        (folder / "b.py").write_text("import a\na.f()  # by somebody else\n")
        return call_message(call("ls", "l1"))

    lines = [meanwhile if index == 7 else line for index, line in enumerate(MAIN)]
    model = script_model(main=lines, reviewer=REVIEWER)
    tools = [*file_tools(root), *search_tools(root, Scanner()), todo]
    runtime = AgentRuntime(model=model, world=LocalWorld(tools, folder=folder))
    stage = open_stage(tmp_path, model, runtime=runtime)
    for kind, options in HOOKS.items():
        hook = get_hook_class(kind, runtime)(stage.session, runtime=runtime, options=options)
        hook.install(stage.root)
    return stage


@pytest.mark.req("S4-27", "S4-29", "S4-33", "S4-34", "S4-36", "S4-42", "S4-43")
@pytest.mark.parametrize("resumed", [False, True])
def test_hooks_plan_remind_guard_and_count_in_one_run(tmp_path: Path, *, resumed: bool) -> None:
    stage = open_hooked_stage(tmp_path)
    assert stage.ask("Rename f.") == PLAN
    assert (tmp_path / "files/a.py").read_text() == "f()\n"
    if resumed:
        live = full_state(stage.session)
        stage = stage.resume()
        assert full_state(stage.session) == live
    assert stage.ask("Yes, go ahead.") == "Done."
    assert (tmp_path / "files/a.py").read_text() == "g()\n"
    assert "g()  # by somebody else" in (tmp_path / "files/b.py").read_text()
    assert failed(stage) == {
        "e0": "planning-mode",
        "x1": "planning-mode",
        "e2": "read-before-write",
    }
    comments = [text for text in stage.user_messages("main") if text.startswith("[hook")]
    assert [text.partition("]")[0].removeprefix("[hook ") for text in comments] == SAID
    check_log(stage.log)
    viewer = SessionViewer(stage.log)
    verdicts = [(row.hook_name, row.kind) for row in viewer.verdicts() if row.kind != "ok"]
    assert ("read-before-write", "denial") in verdicts
    assert len([row for row in verdicts if row == ("planning-mode", "denial")]) == 2


SAID = [
    *("planning-mode", "planning-mode", "budget-guard", "todo-reminder"),
    *("changed-files", "garbage-collector", "todo-reminder", "budget-guard"),
]
"""Whom the main agent heard, in order."""


def failed(stage: Stage) -> dict[str, str]:
    """Return which calls were denied, and by whom."""
    rows = [row for row in stage.select_lines(role="tool") if "is_error" in row]
    return {row["tool_call_id"]: row["content"].split("'")[1] for row in rows}


@register_agent_class("test-mood")
class Mood(Hook):
    """Reads what the world shares."""

    points: ClassVar[frozenset[HookPoint]] = frozenset({"result"})

    def judge(self, question: HookQuestion) -> Verdict:
        world, watched = self.runtime.world, self.watched
        assert watched is not None
        hashes = ", ".join(world.file_states.find_known_hashes(watched))
        mood = world.variables.get("mood")
        return Comment(f"{mood}; knows {hashes}; mcp {world.mcp}") if mood else Ok()


@tool
async def cheer(mood: str, caller: ToolContext) -> str:
    """Set the mood."""
    caller.agent.runtime.world.variables["mood"] = mood
    return "set"


@pytest.mark.req("S4-41")
def test_hooks_read_the_file_states_of_the_world(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "a.txt").write_text("a\n")
    model = script_model(
        main=[
            call_message(call("read", "r", path="a.txt")),
            call_message(call("cheer", mood="merry")),
            "Done.",
        ]
    )
    world = LocalWorld([*file_tools(Root(folder)), cheer], folder=folder)
    before = dict(vars(world))
    stage = open_stage(tmp_path, model, runtime=AgentRuntime(model=model, world=world))
    Mood(stage.session, runtime=stage.runtime).install(stage.root, "mood")
    stage.ask("Go.")
    assert stage.user_messages("main")[-1] == "[hook mood]: merry; knows a.txt; mcp None"
    changed_names = {name for name, value in vars(world).items() if before.get(name) is not value}
    assert changed_names == {"_file_states", "_variables"}  # created when they are first needed
    expected = {"tools", "_local_tools", "folder", "user", "permissions", "sources", "web"}
    assert before.keys() - expected == {"mcp", "_changing"}
