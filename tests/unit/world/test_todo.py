"""The list of things to do: the calls are the list."""

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


def written(*items: dict[str, Any]) -> Content:
    return asyncio.run(todo.run({"items": list(items)}))


def test_the_result_is_the_list() -> None:
    assert (
        written(
            {"text": "look", "status": "done"},
            {"text": "leap", "status": "doing"},
            {"text": "land\n  softly"},
        )
        == "[x] look\n[>] leap\n[ ] land softly\n1 of 3 done."
    )


def test_a_list_may_be_empty() -> None:
    assert written() == "The list is empty."


def test_two_things_at_once_are_allowed_and_remarked_on() -> None:
    doing = {"text": "a", "status": "doing"}
    assert str(written(doing, doing)).endswith("2 items are at `doing`: prefer one at a time.")


@pytest.mark.parametrize(
    ("item", "why"),
    [
        ({"text": " "}, "item 1 has no text"),
        ({"text": "a", "status": "later"}, "Invalid enum value 'later'"),
        ({"status": "open"}, "missing required field `text`"),
    ],
)
@pytest.mark.req("S4-03")
def test_what_is_no_list_is_said(item: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidArguments, match=why):
        written(item)


def test_it_changes_nothing_and_so_runs_beside_others() -> None:
    assert (todo.reads_only, todo.idempotent) == (True, True)
    assert todo.parameters["$defs"]["TodoItem"]["properties"]["status"]["enum"] == [
        "doing",
        "done",
        "open",
    ]


def test_an_agent_has_its_list_in_its_context(tmp_path: Path) -> None:
    model = script_model(main=[call_message(call("todo", items=[{"text": "look"}])), "Done."])
    one = open_stage(tmp_path, model, tools=LocalWorld([todo]).tools.values())
    assert one.ask("Go.") == "Done."
    assert one.result()["content"] == "[ ] look\n0 of 1 done."
    again = one.resume(model)
    assert again.root.transcript[-2]["content"] == "[ ] look\n0 of 1 done."
    check_log(one.log)
