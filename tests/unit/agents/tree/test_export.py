"""An agent writes its conversation to a file of its folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken import AgentRuntime, LocalWorld
from harken.agents.action_schemas import ACTIONS
from harken.agents.runtime import ActionPolicy
from harken.formats.registry import FORMATS
from harken.world.permissions.permissions import Permissions
from harken.world.permissions.rules import PermissionRules
from tests.agent_kit import (
    ScriptedAnswer,
    Stage,
    call,
    call_message,
    check_log,
    open_stage,
    script_model,
)
from tests.unit.agents.tree_kit import people


def exporting(
    folder: Path, *steps: ScriptedAnswer, permissions: Permissions | None = None
) -> Stage:
    model = script_model(main=["Hello.", *steps, "Done."], Ann=["Tea."])
    runtime = AgentRuntime(
        model=model,
        policy=ActionPolicy(actions=ACTIONS),
        world=LocalWorld(folder=folder, permissions=permissions),
    )
    stage = open_stage(folder, model, runtime=runtime)
    stage.ask("Hi.")
    return stage


def export_call(**arguments: str) -> ScriptedAnswer:
    return call_message(call("export", **arguments))


@pytest.mark.req("S4-45")
def test_an_agent_writes_its_conversation_to_a_new_file(tmp_path: Path) -> None:
    one = exporting(tmp_path, export_call(path="notes.md"))
    assert one.ask("Write it down.") == "Done."
    text = (tmp_path / "notes.md").read_text("utf-8")
    assert "Hello." in text
    assert "Write it down." in text
    assert "export" not in text
    assert one.result()["content"].startswith("Exported main to notes.md: 4 messages, narrative-v1")
    check_log(one.log)


@pytest.mark.parametrize("name", [n for n in FORMATS.list_names() if FORMATS.find(n).writes])
def test_every_format_that_is_written_can_be_exported(tmp_path: Path, name: str) -> None:
    one = exporting(tmp_path, export_call(path="out", format=name))
    one.ask("Write it down.")
    assert not one.result().get("is_error"), one.result()["content"]
    read = FORMATS.find(name).reads
    data = (tmp_path / "out").read_bytes()
    assert data
    if read is not None and name == "events-v1":
        assert [str(entry.message.content) for entry in read(data)][1:3] == ["Hi.", "Hello."]


def test_the_conversation_of_a_subagent_is_exported(tmp_path: Path) -> None:
    asked = call_message(call("discuss", "c2", prompt="Tea or coffee?", speakers=["Ann"]))
    one = exporting(tmp_path, people("Ann"), asked, export_call(path="ann.md", name="Ann"))
    one.ask("Go.")
    text = (tmp_path / "ann.md").read_text("utf-8")
    assert "Tea or coffee?" in text
    assert "Hello." not in text


def test_a_file_that_exists_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "mine.md").write_text("mine")
    one = exporting(tmp_path, export_call(path="mine.md"))
    one.ask("Go.")
    assert one.result()["is_error"]
    assert (tmp_path / "mine.md").read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"path": "../out.md"}, "out.md"),
        ({"path": ".git/hooks/pre-commit"}, "export to another place"),
        ({"path": "a.md", "format": "no-such"}, "narrative-v1"),
        ({"path": "a.md", "name": "Bob"}, "Bob"),
    ],
)
def test_a_wrong_argument_is_an_error_that_says_why(
    tmp_path: Path, arguments: dict[str, str], reason: str
) -> None:
    folder = tmp_path / "in"
    (folder / ".git/hooks").mkdir(parents=True)
    one = exporting(folder, export_call(**arguments))
    one.ask("Go.")
    assert one.result()["is_error"]
    assert reason in one.result()["content"]
    assert not list(tmp_path.rglob("*.md"))


def test_the_permissions_of_writing_apply(tmp_path: Path) -> None:
    denied = Permissions(mode="all", rules=PermissionRules.parse(deny=["write(*.md)"]))
    one = exporting(tmp_path, export_call(path="a.md"), permissions=denied)
    one.ask("Go.")
    assert one.result()["is_error"]
    (tmp_path / "plan").mkdir()
    planning = exporting(
        tmp_path / "plan", export_call(path="a.md"), permissions=Permissions(mode="plan")
    )
    planning.ask("Go.")
    assert "plan mode" in planning.result()["content"]
    assert not list(tmp_path.rglob("*.md"))


def test_an_agent_without_messages_has_nothing_to_export(tmp_path: Path) -> None:
    one = exporting(tmp_path, people("Ann"))
    one.ask("Go.")
    one.set_answers(main=["Hello.", people("Ann"), "Done.", export_call(path="a.md", name="Ann")])
    one.ask("Go on.")
    assert "Ann has no messages yet" in one.result()["content"]
