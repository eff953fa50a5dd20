"""What a user sees who is asked for a change, and what of it an agent may learn."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken import AgentRuntime, LocalWorld
from harken.world.files.root import Root
from harken.world.files.tools import file_tools
from harken.world.permissions.permissions import Permissions
from harken.world.permissions.rules import PermissionRules
from tests.agent_kit import ScriptedAnswer, Stage, open_stage, script_model
from tests.unit.world.files.filing import fill
from tests.unit.world.files.knowing import call_message, edit, read, results, write
from tests.unit.world.permissions.people import NO, YES, Person


def asking(folder: Path, person: Person, main: list[ScriptedAnswer], *deny: str) -> Stage:
    """Return a stage whose agent needs leave for each change in a folder."""
    permissions = Permissions(rules=PermissionRules.parse(deny=deny))
    tools = file_tools(Root(folder))
    world = LocalWorld(tools, folder=folder, user=person, permissions=permissions)
    model = script_model(main=main)
    return open_stage(folder.parent, model, runtime=AgentRuntime(model=model, world=world))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return fill(tmp_path / "files", {"a.txt": "one\ntwo\n", ".env": "TOKEN=sk-123\n"})


def test_a_preview_is_the_diff_of_what_would_happen(folder: Path) -> None:
    person = Person([NO, NO, NO])
    some = [edit("a.txt", "two", "2"), write("b/c.txt", "new\n"), write("a.txt", "one\n")]
    asking(folder, person, [call_message(read("a.txt")), *map(call_message, some), "Done."]).ask(
        "Go."
    )
    edited, made, written = (wanted.preview for wanted in person.wanted)
    assert edited == "--- a.txt\n+++ a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2"
    assert "+new" in made
    assert "-two" in written
    assert (folder / "a.txt").read_text() == "one\ntwo\n"
    assert not (folder / "b").exists()


@pytest.mark.req("S4-43")
def test_nobody_is_asked_for_a_change_that_would_be_refused(folder: Path) -> None:
    person = Person([])
    some = [edit("a.txt", "two", "2"), write("a.txt", "x")]
    one = asking(folder, person, [*map(call_message, some), "Done."])
    one.ask("Go.")
    assert not person.wanted
    assert ["you have not read it" in text for text in results(one)] == [True, True]


def test_a_preview_tells_nothing_of_a_file_that_was_not_read(folder: Path) -> None:
    guesses = [
        call_message(edit(".env", guess, "")) for guess in ("TOKEN=sk-", "TOKEN=sk-12", "TOKEN= ")
    ]
    one = asking(folder, Person([]), [*guesses, "Done."], "read(**/.env)")
    one.ask("Go.")
    assert len({*results(one)}) == 1
    assert "123" not in results(one)[0]


@pytest.mark.req("S4-43")
def test_what_changed_while_the_user_thought_is_not_overwritten(folder: Path) -> None:
    class Slow(Person):
        async def _answer(self) -> object:  # type: ignore[override]
            (folder / "a.txt").write_text("theirs\n")
            return YES

    one = asking(
        folder, Slow(), [call_message(read("a.txt")), call_message(write("a.txt", "x")), "Done."]
    )
    one.ask("Go.")
    assert "was changed since" in results(one)[1]
    assert (folder / "a.txt").read_text() == "theirs\n"
