"""The preview of a change for the user reveals nothing to the agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken import AgentRuntime, LocalWorld
from harken.world.files.root import Root
from harken.world.files.tools import file_tools
from harken.world.permissions.permissions import Permissions
from harken.world.permissions.rules import PermissionRules
from tests.agent_kit import ScriptedAnswer, Stage, open_stage, script_model
from tests.unit.world.files.agent_file_kit import (
    call_message,
    edit_call,
    read_call,
    tool_results,
    write_call,
)
from tests.unit.world.files.file_kit import write_files
from tests.unit.world.permissions.user_kit import NO, YES, ScriptedUser


def approval_stage(
    folder: Path, person: ScriptedUser, main: list[ScriptedAnswer], *deny: str
) -> Stage:
    """Return a stage whose agent needs approval for each change in a folder."""
    permissions = Permissions(rules=PermissionRules.parse(deny=deny))
    tools = file_tools(Root(folder))
    world = LocalWorld(tools, folder=folder, user=person, permissions=permissions)
    model = script_model(main=main)
    return open_stage(folder.parent, model, runtime=AgentRuntime(model=model, world=world))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_files(tmp_path / "files", {"a.txt": "one\ntwo\n", ".env": "TOKEN=sk-123\n"})


def test_preview_is_the_diff_of_the_change(folder: Path) -> None:
    person = ScriptedUser([NO, NO, NO])
    tool_calls = [
        edit_call("a.txt", "two", "2"),
        write_call("b/c.txt", "new\n"),
        write_call("a.txt", "one\n"),
    ]
    approval_stage(
        folder, person, [call_message(read_call("a.txt")), *map(call_message, tool_calls), "Done."]
    ).ask("Go.")
    edited, created, encoded = (approval.preview for approval in person.approvals)
    assert edited == "--- a.txt\n+++ a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2"
    assert "+new" in created
    assert "-two" in encoded
    assert (folder / "a.txt").read_text() == "one\ntwo\n"
    assert not (folder / "b").exists()


@pytest.mark.req("S4-43")
def test_change_that_would_fail_needs_no_approval(folder: Path) -> None:
    person = ScriptedUser([])
    tool_calls = [edit_call("a.txt", "two", "2"), write_call("a.txt", "x")]
    agent_stage = approval_stage(folder, person, [*map(call_message, tool_calls), "Done."])
    agent_stage.ask("Go.")
    assert not person.approvals
    assert ["you have not read it" in text for text in tool_results(agent_stage)] == [True, True]


def test_preview_reveals_nothing_of_an_unread_file(folder: Path) -> None:
    guesses = [
        call_message(edit_call(".env", guess, ""))
        for guess in ("TOKEN=sk-", "TOKEN=sk-12", "TOKEN= ")
    ]
    agent_stage = approval_stage(folder, ScriptedUser([]), [*guesses, "Done."], "read(**/.env)")
    agent_stage.ask("Go.")
    assert len({*tool_results(agent_stage)}) == 1
    assert "123" not in tool_results(agent_stage)[0]


@pytest.mark.req("S4-43")
def test_file_changed_during_the_approval_is_not_overwritten(folder: Path) -> None:
    class SlowUser(ScriptedUser):
        async def _answer(self) -> object:  # type: ignore[override]
            (folder / "a.txt").write_text("theirs\n")
            return YES

    agent_stage = approval_stage(
        folder,
        SlowUser(),
        [call_message(read_call("a.txt")), call_message(write_call("a.txt", "x")), "Done."],
    )
    agent_stage.ask("Go.")
    assert "was changed since" in tool_results(agent_stage)[1]
    assert (folder / "a.txt").read_text() == "theirs\n"
