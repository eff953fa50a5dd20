"""The todo list: the last call is the list."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from harken import LocalWorld
from harken.core.messages import Content
from harken.world.result import InvalidArguments
from harken.world.todo import todo
from tests.agent_kit import call, call_message, check_log, open_stage, script_model


def write_todos(*items: dict[str, Any]) -> Content:
    return asyncio.run(todo.run({"items": list(items)}))


def test_result_is_the_list() -> None:
    assert (
        write_todos(
            {"text": "look", "status": "done"},
            {"text": "leap", "status": "doing"},
            {"text": "land\n  softly"},
        )
        == "[x] look\n[>] leap\n[ ] land softly\n1 of 3 done."
    )


def test_list_may_be_empty() -> None:
    assert write_todos() == "The list is empty."


def test_two_active_items_are_accepted_with_a_warning() -> None:
    doing = {"text": "a", "status": "doing"}
    assert str(write_todos(doing, doing)).endswith("2 items are at `doing`: prefer one at a time.")


@pytest.mark.parametrize(
    ("item", "why"),
    [
        ({"text": " "}, "item 1 has no text"),
        ({"text": "a", "status": "later"}, "Invalid enum value 'later'"),
        ({"status": "open"}, "missing required field `text`"),
    ],
)
@pytest.mark.req("S4-03")
def test_invalid_list_is_reported(item: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidArguments, match=why):
        write_todos(item)


def test_todo_is_read_only_and_runs_concurrently() -> None:
    assert (todo.reads_only, todo.idempotent) == (True, True)
    assert todo.parameters["$defs"]["TodoItem"]["properties"]["status"]["enum"] == [
        "doing",
        "done",
        "open",
    ]


def test_agent_has_its_list_in_its_context(tmp_path: Path) -> None:
    model = script_model(main=[call_message(call("todo", items=[{"text": "look"}])), "Done."])
    agent_stage = open_stage(tmp_path, model, tools=LocalWorld([todo]).tools.values())
    assert agent_stage.ask("Go.") == "Done."
    assert agent_stage.result()["content"] == "[ ] look\n0 of 1 done."
    resumed = agent_stage.resume(model)
    assert resumed.root.transcript[-2]["content"] == "[ ] look\n0 of 1 done."
    check_log(agent_stage.log)
