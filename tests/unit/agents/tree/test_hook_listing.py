"""An agent that may install hooks is told which named ones there are."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest

from harken import AgentRuntime, LocalWorld
from harken.agents.action_schemas import ACTIONS, hook
from harken.agents.runtime import ActionPolicy, AgentLibrary
from harken.agents.tree.hook_file import MAX_LISTED, HookFiles
from harken.experiments.replay.check import check
from harken.views.viewer import SessionViewer
from tests.agent_kit import (
    ScriptedAnswer,
    ScriptModel,
    Stage,
    call,
    call_message,
    check_log,
    open_stage,
    script_model,
    select_lines,
)
from tests.unit.agents.hook_kit import send

POLITE = "---\ndescription: Watches the tone.\npoints: [response]\n---\nBe polite."


def hooked(
    folder: Path, *steps: ScriptedAnswer, actions: Collection[str] = ACTIONS, **parts: list[str]
) -> Stage:
    (folder / "hooks").mkdir(exist_ok=True)
    (folder / "hooks/polite.md").write_text(POLITE)
    model = script_model(main=[*steps, "Done.", "Again."], **parts)
    runtime = AgentRuntime(
        model=model,
        world=LocalWorld([send]),
        policy=ActionPolicy(actions=actions),
        library=AgentLibrary(hooks=HookFiles([folder / "hooks"])),
    )
    return open_stage(folder, model, runtime=runtime)


def hook_descriptions(one: Stage) -> list[str]:
    """Return the description of `hook` in each request."""
    assert isinstance(one.runtime.model, ScriptModel)
    requests = one.runtime.model.requests_of("main")
    schemas = [schema for request in requests for schema in request.tools or ()]
    return [str(schema["description"]) for schema in schemas if schema["name"] == "hook"]


@pytest.mark.req("S4-30")
def test_an_agent_reads_the_named_hooks_and_installs_one(tmp_path: Path) -> None:
    made = call_message(call("hook", name="tone", instructions="hook:polite"))
    one = hooked(tmp_path, made, tone=["OK"])
    assert one.ask("Watch yourself.") == "Done."
    lines = hook_descriptions(one)[0].splitlines()
    assert "- polite: Watches the tone." in lines
    assert any(line.startswith("- todo-reminder: ") for line in lines)
    assert not any("command-hook" in line for line in lines)
    assert [watching.name for watching in one.root.hooks] == ["tone"]
    check_log(one.log)


def test_an_agent_without_the_action_reads_no_list(tmp_path: Path) -> None:
    one = hooked(tmp_path, actions=("task",))
    one.ask("Go.")
    assert hook_descriptions(one) == []
    assert "polite" not in one.log.read_text("utf-8")


def test_a_runtime_without_a_library_has_the_plain_description(tmp_path: Path) -> None:
    model = script_model(main=["Done."])
    runtime = AgentRuntime(model=model, policy=ActionPolicy(actions=ACTIONS))
    one = open_stage(tmp_path, model, runtime=runtime)
    one.ask("Go.")
    assert hook_descriptions(one) == [hook.description]


def test_a_resume_sends_the_same_tools_while_the_list_is_the_same(tmp_path: Path) -> None:
    one = hooked(tmp_path)
    one.ask("Go.")
    later = one.resume()
    assert later.ask("Go on.") == "Again."
    assert len(select_lines(one.log, event_type="tools_defined")) == 1
    (tmp_path / "hooks/new.md").write_text(POLITE)
    last = later.resume()
    last.set_answers(main=["", "", "New."])
    last.ask("And now?")
    assert len(select_lines(one.log, event_type="tools_defined")) == 2


def test_the_list_is_bounded_and_has_no_unusable_hook(tmp_path: Path) -> None:
    for number in range(80):
        text = POLITE.replace("Watches the tone.", "x" * 300)
        (tmp_path / f"h{number:02}.md").write_text(text)
    (tmp_path / "a-bad.md").write_text("---\npoints: [never]\n---\nx")
    lines = HookFiles([tmp_path]).listing().splitlines()
    assert len(lines) == MAX_LISTED
    assert max(map(len, lines)) < 250
    assert not any(line.startswith("- a-bad") for line in lines)


def test_a_replay_has_the_list_and_the_hooks_of_the_record(tmp_path: Path) -> None:
    made = call_message(
        call("hook", "c1", name="tone", instructions="hook:polite"),
        call("hook", "c2", name="todo", instructions="hook:todo-reminder"),
    )
    one = hooked(tmp_path, made, tone=["OK", "OK"])
    one.ask("Watch yourself.")
    one.ask("Go on.")
    one.session.close()
    result = check(SessionViewer(one.log).events)
    assert result.difference is None, (result.difference, result.miss_text, result.notes)
