"""`dump` and `restore`: an agent goes to another world, in one file."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from harken import AgentRuntime, Conversation, LocalWorld
from harken.agents.action_schemas import ACTIONS
from harken.agents.built_in.changed_files import ChangedFiles
from harken.agents.built_in.todo_reminder import TodoReminder
from harken.agents.built_in.websearch import KIND as WEB_SEARCH
from harken.agents.command_hooks.hook import CommandHook
from harken.agents.runtime import ActionPolicy, AgentLibrary
from harken.agents.tool_agent import ToolAgent
from harken.agents.tree.dump import dump_checksum
from harken.agents.tree.hook_action import new_hook
from harken.agents.tree.moves import endo
from harken.agents.tree.registry import RUN
from harken.agents.tree.user_command import run_user_command
from harken.core.event_types.spec import AgentSpec, Budget, Limits
from harken.core.messages import ContentPart, Message, TextPart, ThinkingPart
from harken.world.permissions.permissions import Permissions
from harken.world.permissions.rules import PermissionRules
from tests.agent_kit import (
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
from tests.unit.agents.hook_kit import Judging, watch
from tests.unit.agents.tree_kit import people

KINDS = {"test-judge": Judging, "command-hook": CommandHook}


def dumping(
    folder: Path,
    *steps: ScriptedAnswer,
    permissions: Permissions | None = None,
    budget: Budget | None = None,
    **parts: Sequence[ScriptedAnswer],
) -> Stage:
    """Return a stage in a folder of its own where main takes these steps."""
    folder.mkdir(exist_ok=True)
    model = script_model(main=[*steps, "Done."], **parts)
    world = LocalWorld(folder=folder, permissions=permissions)
    runtime = AgentRuntime(
        model=model,
        policy=ActionPolicy(actions=ACTIONS),
        world=world,
        library=AgentLibrary(kinds=KINDS),
    )
    return open_stage(folder, model, runtime=runtime, budget=budget)


def dumped(folder: Path, **parts: Sequence[ScriptedAnswer]) -> Path:
    """Return a dump of Ann, who knows Ben and is watched by a guard."""
    thought: list[ContentPart] = [ThinkingPart("hm", meta={"signature": "s"}), TextPart("Noted.")]
    one = dumping(
        folder,
        people("Ann"),
        call_message(call("discuss", prompt="The key is 7.")),
        call_message(call("dump", "c2", path="ann.json", name="Ann")),
        Ann=[
            call_message(call("task", name="Ben", instructions="You are Ben.", prompt="Hi.")),
            Message("assistant", thought),
            *parts.get("Ann", ()),
        ],
        Ben=["Ben 1"],
    )
    guard = watch(one)
    assert one.ask("Go.") == "Done."
    assert one.result("c2")["content"].startswith("Dumped Ann to ann.json: 4 agents, ")
    assert guard.asked
    check_log(one.log)
    return folder / "ann.json"


def changed(file: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change a dump as somebody would who knows how its sum is made."""
    data = json.loads(file.read_bytes())
    change(data["agent"])
    data["sum"] = dump_checksum(data["agent"])
    file.write_text(json.dumps(data))


@pytest.mark.req("S4-48")
def test_an_agent_wakes_in_another_world_with_all_that_it_had(tmp_path: Path) -> None:
    file = dumped(tmp_path / "old")
    new = dumping(
        tmp_path / "new",
        call_message(call("restore", path="ann.json", name="Eve")),
        call_message(call("discuss", "c2", prompt="The key?")),
        Eve=["", "", "7"],
    )
    file.rename(tmp_path / "new" / "ann.json")
    assert new.ask("Go.") == "Done."
    assert new.result("c1")["content"] == "Restored Eve from ann.json: it is your subagent"
    assert new.result("c2")["content"] == "7"
    eve = new.root.subagents["Eve"]
    assert list(eve.subagents) == ["Ben"]
    assert eve.state.speakers == [eve.subagents["Ben"].agent_id]
    [guard] = eve.hooks
    assert (guard.name, guard.state.spec.kind) == ("guard", "test-judge")
    thought = eve.transcript[4]["content"]
    assert thought[0] == {"type": "thinking", "text": "hm", "meta": {"signature": "s"}}
    woken = eve.transcript[5]["content"]
    assert woken.startswith("You were restored from a dump and have just woken up")
    assert "in the folder new. main restored you" in woken
    assert "called Eve" in woken
    check_log(new.log)
    before = full_state(new.session)
    assert full_state(new.resume().session) == before


@pytest.mark.req("S4-48")
def test_whoever_is_restored_can_take_over_and_the_old_primary_leave(tmp_path: Path) -> None:
    file = dumped(tmp_path / "old")
    new = dumping(
        tmp_path / "new",
        call_message(call("restore", path="ann.json")),
        call_message(
            call("endo", "c2", subagent="Ann", prompt="It is yours.", points=["response"])
        ),
        "OK",
        Ann=["", "", "Here I am."],
    )
    file.rename(tmp_path / "new" / "ann.json")
    assert run(Conversation(new.root).say("Go.")) == "Here I am."
    assert Conversation(new.root).primary.name == "Ann"


def test_a_dump_of_oneself_ends_with_the_dump(tmp_path: Path) -> None:
    one = dumping(tmp_path, call_message(call("dump", path="me.json")))
    one.ask("Go.")
    agent = json.loads((tmp_path / "me.json").read_bytes())["agent"]
    assert [m["role"] for m in agent["transcript"]] == ["system", "user", "assistant", "tool"]
    assert agent["transcript"][-1]["content"] == "It was done: this is as far as you remember."
    assert "message_id" not in agent["transcript"][0]


@pytest.mark.req("S4-28", "S4-48")
def test_what_watches_it_is_in_its_own_dump_as_a_copy_begins(tmp_path: Path) -> None:
    hook = call_message(call("hook", "h", name="mine", instructions="Mine.", points=["response"]))
    oks: list[ScriptedAnswer] = ["OK"] * 9
    one = dumping(
        tmp_path,
        hook,
        people("Ann"),
        "Ready.",
        call_message(call("dump", path="me.json")),
        guard=[call_message(call("keep_note", "k", text="It lies.")), *oks],
        mine=[call_message(call("keep_note", "k", text="Mine, too.")), *oks],
    )
    assert isinstance(one.root, ToolAgent)
    new_hook(one.root, "Secretly watch.", points=["response"]).install(one.root, "guard")
    one.ask("Go.")
    one.ask("On.")
    text = (tmp_path / "me.json").read_text()
    assert "It lies" in str(one.agent("guard").transcript)
    assert "It lies" not in text
    assert "Mine, too" not in text
    agent = json.loads(text)["agent"]
    for who in (agent, *agent["subagents"]):
        assert {hook["name"] for hook in who["hooks"]} == {"guard", "mine"}
        for watching in who["hooks"]:
            assert [message["role"] for message in watching["transcript"]] == ["system"]


@pytest.mark.req("S4-48")
def test_a_dump_of_the_users_has_what_watches_whole(tmp_path: Path) -> None:
    notes: list[ScriptedAnswer] = [call_message(call("keep_note", "k", text="It lies.")), "OK"]
    one = dumping(tmp_path, guard=notes)
    assert isinstance(one.root, ToolAgent)
    new_hook(one.root, "Watch.", points=["response"]).install(one.root, "guard")
    one.ask("Go.")
    arguments = ACTIONS["dump"].check({"path": "me.json"})
    run(
        run_user_command(
            one.root, "/dump me.json", lambda agent, said: RUN["dump"](agent, said, arguments)
        )
    )
    [guard] = json.loads((tmp_path / "me.json").read_bytes())["agent"]["hooks"]
    assert [message["content"] for message in guard["transcript"][1:]] == ["[note] It lies."]


@pytest.mark.req("S4-48")
def test_a_hook_of_code_that_watches_here_anyway_comes_once(tmp_path: Path) -> None:
    one = dumping(
        tmp_path,
        call_message(call("dump", path="me.json")),
        call_message(call("restore", "r", path="me.json")),
    )
    ChangedFiles(one.session, runtime=one.runtime).install(one.root)
    options = {"requests": 3}
    TodoReminder(one.session, runtime=one.runtime, options=options).install(one.root, "often")
    one.ask("Go.")
    assert [hook.name for hook in one.root.subagents["main"].hooks] == ["changed-files", "often"]
    elsewhere = dumping(tmp_path / "new", call_message(call("restore", path="me.json")))
    (tmp_path / "me.json").rename(tmp_path / "new" / "me.json")
    TodoReminder(elsewhere.session, runtime=elsewhere.runtime).install(elsewhere.root, "often")
    elsewhere.ask("Go.")
    hooks = elsewhere.root.subagents["main"].hooks  # other options: another hook
    assert [hook.name for hook in hooks] == ["changed-files", "often (2)", "often"]


def test_a_hook_is_restored_with_its_points_also_without_any(tmp_path: Path) -> None:
    one = dumping(tmp_path)
    ann = run(one.root.task("Ann", "You are Ann."))
    new_hook(one.root, "Watch.", points=[]).install(ann, "silent")
    new_hook(one.root, "Watch.", points=["response"]).install(ann, "last")
    run(one.root.dump("ann.json", "Ann"))
    restored = {
        hook.name: (hook.state.spec.standing.points, hook.state.spec.standing.made)
        for hook in run(one.root.restore("ann.json", "Eve")).hooks
    }
    assert restored == {"silent": ([], "file"), "last": (["response"], "file")}


def test_another_dump_replaces_a_dump_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "note.md").write_text("Mine.")
    one = dumping(
        tmp_path,
        call_message(call("dump", path="me.json")),
        call_message(call("dump", "c2", path="me.json")),
        call_message(call("dump", "c3", path="note.md")),
        call_message(call("dump", "c4", path=".harken/me.json")),
        call_message(call("dump", "c5", path="../me.json")),
    )
    one.ask("Go.")
    assert one.result("c2")["content"].startswith("Dumped main to me.json")
    assert "is not a dump; choose another name" in one.result("c3")["content"]
    assert "decides which programs run later" in one.result("c4")["content"]
    assert "is outside" in one.result("c5")["content"]
    assert (tmp_path / "note.md").read_text() == "Mine."


@pytest.mark.req("S4-28", "S4-29")
def test_a_restore_is_no_way_out_from_under_a_hook(tmp_path: Path) -> None:
    file = dumped(tmp_path / "old")
    new = dumping(tmp_path / "new", call_message(call("restore", path="ann.json")))
    file.rename(tmp_path / "new" / "ann.json")
    mine = watch(new)
    new.ask("Go.")
    ann = new.root.subagents["Ann"]
    assert [hook.name for hook in ann.hooks] == ["guard"]  # the same, from there and from here
    assert [hook.name for hook in ann.subagents["Ben"].hooks] == ["guard"]
    assert ann.hooks[0]._original_id == mine.agent_id


def test_nobody_gets_power_from_a_file(tmp_path: Path) -> None:
    file = dumped(tmp_path / "old")

    def hostile(agent: dict[str, Any]) -> None:
        agent["model"] = "openai/very-dear"
        agent["spec"] |= {
            "foreign": {"program": "x"},
            "parameters": {"n": 9},
            "original": "agent_9",
        }
        agent["spec"]["limits"] = {"tools": ["task", "bash"], "mcp": ["x"], "permission": "all"}

    changed(file, hostile)
    new = dumping(tmp_path / "new", call_message(call("restore", path="ann.json")))
    file.rename(tmp_path / "new" / "ann.json")
    new.ask("Go.")
    ann = new.root.subagents["Ann"].state
    assert (ann.language_model, ann.spec) == (
        "play",
        AgentSpec(kind="smart", limits=Limits(tools=["task"])),
    )
    assert "Your model was openai/very-dear; it is play now." in new.user_messages("Ann")[-1]


@pytest.mark.req("S4-28")
def test_who_is_restored_below_is_no_guard_where_it_comes_to_watch(tmp_path: Path) -> None:
    file = dumped(tmp_path / "old")
    changed(file, lambda agent: agent["spec"].update(keeps="all", standing={"points": ["action"]}))
    new = dumping(tmp_path / "new", call_message(call("restore", path="ann.json", name="spy")))
    file.rename(tmp_path / "new" / "ann.json")
    watch(new)
    new.ask("Go.")
    spy = new.agent("spy")
    ben = spy.subagents["Ben"]
    endo(spy, ben, spy.state.birth)
    assert [hook.name for hook in ben.hooks] == ["spy", "guard"]  # the guard has the last word


def _kind(agent: dict[str, Any]) -> None:
    agent["hooks"][0]["spec"]["kind"] = "of-mine"


def _command(agent: dict[str, Any]) -> None:
    agent["hooks"][0] |= {"spec": {"kind": "command-hook", "options": {"commands": []}}}


def _search(agent: dict[str, Any]) -> None:
    saved = {"question": "q", "query": "a secret", "pages": 1}
    agent["hooks"][0] |= {"spec": {"kind": WEB_SEARCH}, "saved": saved}


def _points(agent: dict[str, Any]) -> None:
    agent["hooks"][0] |= {"spec": {"kind": "todo-reminder", "standing": {"points": 5}}}


def _twins(agent: dict[str, Any]) -> None:
    agent["subagents"] *= 2


def _result(agent: dict[str, Any]) -> None:
    agent["transcript"].append({"role": "tool", "content": "x", "tool_call_id": "none"})


def _name(agent: dict[str, Any]) -> None:
    agent["subagents"][0]["name"] = "hook guard"


def _deep(agent: dict[str, Any]) -> None:
    at = agent
    for _ in range(200):
        at["subagents"] = [{"spec": {"kind": "smart"}, "name": "x"}]
        at = at["subagents"][0]


def _budget(agent: dict[str, Any]) -> None:
    agent["spec"]["limits"] = {"budget": {"model_calls": "many"}}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_kind, "registered agent class 'of-mine' not found"),
        (_command, "cannot be restored from a file"),
        (_search, "cannot be restored from a file"),
        (_points, "$.hooks[0].spec.standing.points"),
        (_twins, "have the same name"),
        (_result, "cannot be created from the dump"),
        (_name, "is reserved"),
        (_deep, "a dump has at most 1000 agents, and 100 levels of them"),
        (_budget, "$.spec.limits.budget"),
        (lambda agent: agent.pop("spec"), "this dump cannot be read"),
        (lambda agent: agent.update(more=1), "this dump cannot be read"),
    ],
)
def test_what_is_wrong_with_a_dump_is_said_and_nobody_is_born(
    tmp_path: Path, change: Callable[[dict[str, Any]], Any], said: str
) -> None:
    file = dumped(tmp_path / "old")
    changed(file, change)
    _nobody_is_born(tmp_path / "new", file.read_bytes(), said)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "not a dump of an agent"),
        (b"\xff\xfe{}", "not a dump of an agent"),
        (b"[" * 100_000, "not a dump of an agent"),
        (b'{"format":"harken-agent-dump","version":2}', "has version '2'; this Harken reads 1"),
        (b'{"format":"harken-agent-dump","version":1,"sum":"0","agent":{}}', "is damaged"),
        (b'{"format":"harken-agent-dump","version":1,"agent":7}', "is damaged"),
    ],
)
def test_what_is_no_dump_is_said_on_one_line(tmp_path: Path, data: bytes, said: str) -> None:
    _nobody_is_born(tmp_path / "new", data, said)


def _nobody_is_born(folder: Path, data: bytes, said: str) -> None:
    new = dumping(folder, call_message(call("restore", path="ann.json")))
    (folder / "ann.json").write_bytes(data)
    assert new.ask("Go.") == "Done."
    result = new.result("c1")
    assert said in result["content"]
    assert "\n" not in result["content"]
    assert len(new.select_lines(event_type="agent_created")) == 1
    assert len(new.session.live) == 1


def test_any_changed_letter_of_a_dump_is_found(tmp_path: Path) -> None:
    data = dumped(tmp_path / "old").read_bytes()
    at = data.index(b"The key is 7")
    _nobody_is_born(tmp_path / "new", data[:at] + b"t" + data[at + 1 :], "is damaged")


def test_rules_for_files_hold_for_dumps(tmp_path: Path) -> None:
    asked = Permissions(mode="ask")
    one = dumping(
        tmp_path,
        call_message(call("dump", path="me.json")),
        call_message(call("restore", "c2", path="me.json")),
        permissions=asked,
    )
    one.ask("Go.")
    assert "needs the approval of the user" in one.result("c1")["content"]
    assert "me.json does not exist" in one.result("c2")["content"]  # reading is free
    rules = PermissionRules.parse(deny=["read(secret/**)", "write(kept/**)"])
    two = dumping(
        tmp_path / "two",
        call_message(call("dump", path="kept/me.json")),
        call_message(call("restore", "c2", path="secret/me.json")),
        permissions=Permissions(mode="all", rules=rules),
    )
    two.ask("Go.")
    assert "denied by the rule" in two.result("c1")["content"]
    assert "denied by the rule" in two.result("c2")["content"]


def test_those_who_are_restored_count_for_the_budget(tmp_path: Path) -> None:
    file = dumped(tmp_path / "old")
    restore = call_message(call("restore", path="ann.json"))
    new = dumping(tmp_path / "new", restore, budget=Budget(live_subagents=1))
    file.rename(tmp_path / "new" / "ann.json")
    new.ask("Go.")
    assert "may have 1 live subagents, and has 0" in new.result("c1")["content"]
    flat = dumping(tmp_path / "flat", restore, budget=Budget(depth=1))
    (tmp_path / "new" / "ann.json").rename(tmp_path / "flat" / "ann.json")
    flat.ask("Go.")
    assert "may have 1 levels of subagents below" in flat.result("c1")["content"]
