"""The hook that lets an agent change a file only where it knows what is in it now."""

from pathlib import Path
from typing import Any

import pytest

from harken import AgentRuntime, LocalWorld, Tool, tool
from harken.world.files.root import Root
from harken.world.files.tools import file_tools
from tests.agent_kit import (
    ScriptModel,
    Stage,
    call,
    call_message,
    check_log,
    open_stage,
    script_model,
)
from tests.unit.agents.built_in.built_in import denials, put, resumed
from tests.unit.world.files.agent_file_kit import edit_call, read_call, write_call

NAME = "read-before-write"


def overwriting(folder: Path) -> Tool:
    """Return a tool of somebody else, which writes and does not look."""

    @tool
    async def save(file: str, text: str) -> str:
        """Save."""
        (folder / file).write_text(text)
        return "saved"

    return save.with_subject(by="file", kind="path", edits_files=True)


def saving(tmp_path: Path, *, hook: bool = True, options: Any = None, **parts: list[Any]) -> Stage:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    model: ScriptModel = script_model(**parts)
    world = LocalWorld([*file_tools(Root(folder)), overwriting(folder)], folder=folder)
    one = open_stage(tmp_path, model, runtime=AgentRuntime(model=model, world=world))
    if hook:
        put(one, NAME, **(options or {}))
    return one


def save(text: str, id_: str = "s", file: str = "a.txt") -> Any:
    return call_message(call("save", id_, file=file, text=text))


def content(tmp_path: Path) -> str:
    return (tmp_path / "files/a.txt").read_text()


@pytest.mark.req("S4-43")
@pytest.mark.parametrize("hook", [False, True])
def test_a_reads_b_writes_and_a_write_of_a_is_refused(tmp_path: Path, *, hook: bool) -> None:
    """Without the hook the tool refuses, with it the hook does, and says who."""
    asks = call_message(call("task", "t", name="B", prompt="Write a.txt."))
    one = saving(
        tmp_path,
        hook=hook,
        main=[
            call_message(read_call("a.txt")),
            asks,
            call_message(write_call("a.txt", "mine\n", "w")),
            "I could not.",
        ],
        B=[
            call_message(read_call("a.txt")),
            call_message(write_call("a.txt", "two\n")),
            "Written.",
        ],
    )
    one.ask("Go.")
    assert content(tmp_path) == "two\n"
    assert one.result("w")["is_error"]
    assert (denials(one, NAME) != []) is hook
    check_log(one.log)


@pytest.mark.req("S4-43")
def test_it_guards_tools_that_do_not_look(tmp_path: Path) -> None:
    asks = call_message(call("task", "t", name="B", prompt="Write a.txt."))
    one = saving(
        tmp_path,
        main=[
            call_message(read_call("a.txt")),
            asks,
            save("mine\n"),
            call_message(read_call("a.txt", "r")),
            save("3", "u"),
            "-",
        ],
        B=[save("early\n"), call_message(read_call("a.txt")), save("two\n", "s2"), "Written."],
    )
    one.ask("Go.")
    assert denials(one, NAME, "B") == ["you have not read a.txt: read it first"]
    assert denials(one, NAME) == ["a.txt is no longer what you read: read it again first"]
    assert content(tmp_path) == "3"


def test_new_files_and_what_an_agent_wrote_itself_need_no_reading(tmp_path: Path) -> None:
    lines = [
        save("x", "s1", "new.txt"),
        call_message(write_call("b.txt", "b\n", "w"), edit_call("b.txt", "b", "c", "e")),
        call_message(call("save", "s2", file="b.txt", text="d")),
        call_message(
            call("save", "s3", file="../x", text="d"), call("save", "s4", file="a\0", text="")
        ),
        call_message(call("save", "s5", text="d"), call("ls", "l")),
        "Done.",
    ]
    one = saving(tmp_path, main=lines)
    one.ask("Go.")
    assert denials(one, NAME) == []
    assert (tmp_path / "files/b.txt").read_text() == "d"


def test_a_read_in_the_same_message_came_too_late(tmp_path: Path) -> None:
    both = call_message(read_call("a.txt", "r"), call("save", "s", file="./a.txt", text="x"))
    one = saving(tmp_path, main=[both, "-"])
    one.ask("Go.")
    assert denials(one, NAME) == ["you have not read ./a.txt: read it first"]


def test_a_tool_that_does_not_say_what_it_edits_may_be_named(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    one = saving(tmp_path, main=[save("x"), "-"], options={"tools": {"save": "text"}})
    (folder / "x").write_text("there")
    one.ask("Go.")
    assert denials(one, NAME) == ["you have not read x: read it first"]


@pytest.mark.req("S4-27", "S4-43")
def test_what_was_read_before_a_resume_is_known_after_it(tmp_path: Path) -> None:
    one = saving(
        tmp_path,
        main=[call_message(read_call("a.txt")), "Read.", save("2"), "Done.", save("3"), "-"],
    )
    one.ask("Read.")
    one = resumed(one)
    one.ask("Write.")
    assert content(tmp_path) == "2"
    (tmp_path / "files/a.txt").write_text("somebody else\n")
    one = resumed(one)
    one.ask("Write.")
    assert content(tmp_path) == "somebody else\n"
