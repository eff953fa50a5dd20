"""The edits of calls of all runtimes, and which of them the arguments spell out."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from harken.chat.render.tool_calls import list_change_lines
from harken.edits.file_edit import Addition, Change, Content, Fragment, Replacement
from harken.edits.tools import find_argument_change, find_edits, is_edit_tool
from harken.views.conversation.differences import Work, change_of_call

PATCH = "*** Begin Patch\n*** Update File: tea.py\n@@\n pot\n-black\n+green\n*** End Patch\n"
UNIFIED = "--- a/tea.py\n+++ b/tea.py\n@@ -1,2 +1,2 @@\n pot\n-black\n+green\n"
OLD, NEW = "pot\nblack", "pot\ngreen"
CHANGE = Replacement(OLD, NEW)
CLAUDE = {"old_string": OLD, "new_string": NEW}

REPLACEMENTS: list[tuple[str, dict[str, Any]]] = [
    ("Edit", {"file_path": "tea.py", **CLAUDE}),
    ("MultiEdit", {"file_path": "tea.py", "edits": [CLAUDE]}),
    ("replace", {"file_path": "tea.py", **CLAUDE}),
    ("edit", {"path": "tea.py", "edits": [{"oldText": OLD, "newText": NEW}]}),
    ("edit", {"path": "tea.py", "oldText": OLD, "newText": NEW}),
    ("edit", {"filePath": "tea.py", "oldString": OLD, "newString": NEW}),
    ("edit", {"path": "tea.py", "old_str": OLD, "new_str": NEW}),
    ("edit", {"path": "tea.py", **CLAUDE}),
    ("mcp__files__edit_file", {"path": "tea.py", "edits": [{"oldText": OLD, "newText": NEW}]}),
    (
        "multi_replace_string_in_file",
        {"replacements": [{"filePath": "tea.py", "oldString": OLD, "newString": NEW}]},
    ),
    (
        "str_replace_based_edit_tool",
        {"command": "str_replace", "path": "tea.py", "old_str": OLD, "new_str": NEW},
    ),
]
"""Claude Code, Gemini CLI, Pi, OpenCode, Copilot CLI, Harken, MCP, VS Code, and OpenHands."""

PATCHES: list[tuple[str, str]] = [
    ("apply_patch", PATCH),
    ("apply_patch", json.dumps({"input": PATCH})),
    ("apply_patch", json.dumps({"input": "reviewed", "patch": PATCH})),
    ("patch", json.dumps({"patchText": PATCH})),
    ("apply_diff", json.dumps({"diff": UNIFIED})),
]

OTHERS: list[tuple[str, dict[str, Any], Change]] = [
    ("Write", {"file_path": "tea.py", "content": "green\n"}, Content("green\n")),
    ("write_file", {"path": "tea.py", "content": "green\n", "append": True}, Addition("green\n")),
    (
        "str_replace_based_edit_tool",
        {"command": "create", "path": "tea.py", "file_text": "green\n"},
        Content("green\n"),
    ),
    (
        "str_replace_based_edit_tool",
        {"command": "insert", "path": "tea.py", "insert_text": "green"},
        Fragment("green"),
    ),
    ("insert_lines", {"path": "tea.py", "line": 1, "content": "green"}, Fragment("green")),
    ("NotebookEdit", {"notebook_path": "tea.py", "new_source": "green"}, Fragment('"green"')),
    ("shell", {"command": ["bash", "-lc", "echo green > tea.py"]}, Content("green\n")),
    ("shell", {"command": ["apply_patch", PATCH]}, CHANGE),
    ("exec_command", {"cmd": f"apply_patch <<'EOF'\n{PATCH}EOF"}, CHANGE),
    (
        "Bash",
        {"command": "sed -i 's/black/green/' tea.py"},
        Replacement("black", "green", replaces_all=True),
    ),
]
"""Calls whose arguments spell out no change: a new content, a fragment, and commands."""


@pytest.mark.parametrize(("name", "arguments"), REPLACEMENTS)
def test_each_reader_finds_the_replacements_of_all_runtimes(
    name: str, arguments: dict[str, Any]
) -> None:
    text = json.dumps(arguments)
    [edit] = find_edits(name, text)
    assert (edit.path, edit.changes) == ("tea.py", (CHANGE,))
    change = change_of_call(name, text, Work())
    assert change is not None
    assert (
        change.diff
        == "--- tea.py\n+++ tea.py\n@@ line 1 of the replaced text @@\n pot\n-black\n+green"
    )
    others = {"command": "str_replace"} if "command" in arguments else None
    assert json.loads(change.other_arguments or "null") == others
    lines = ["".join(part for _, part in line) for line in list_change_lines(name, text)]
    assert lines == [" pot", "-black", "+green"]


@pytest.mark.parametrize(("name", "arguments"), PATCHES)
def test_each_reader_finds_the_patches_of_all_runtimes(name: str, arguments: str) -> None:
    [edit] = find_edits(name, arguments)
    assert (edit.path, edit.changes) == ("tea.py", (CHANGE,))
    change = change_of_call(name, arguments, Work())
    assert change is not None
    assert change.diff in (PATCH, UNIFIED)
    lines = ["".join(part for _, part in line) for line in list_change_lines(name, arguments)]
    assert lines == change.diff.split("\n")[:-1]


@pytest.mark.parametrize(("name", "arguments", "expected"), OTHERS)
def test_a_call_that_spells_out_no_change_is_shown_by_its_arguments(
    name: str, arguments: dict[str, Any], expected: Change
) -> None:
    text = json.dumps(arguments)
    [edit] = find_edits(name, text)
    assert (edit.path, edit.changes) == ("tea.py", (expected,))
    assert change_of_call(name, text, Work()) is None
    assert list_change_lines(name, text) == []


@pytest.mark.parametrize("name", ["curl", "read", "Bash", "Write", "str_replace_editor", ""])
def test_a_tool_that_replaces_no_text_has_no_change(name: str) -> None:
    for arguments in (json.dumps({"path": "tea.py", **CLAUDE}), json.dumps({"input": PATCH})):
        assert find_edits(name, arguments) == []
        assert change_of_call(name, arguments, Work()) is None
        assert list_change_lines(name, arguments) == []


def test_each_file_of_a_call_has_its_own_edit() -> None:
    arguments = json.dumps({"path": "tea.py", "edits": [CLAUDE, {"path": "cup.py", **CLAUDE}]})
    assert [edit.path for edit in find_edits("edit", arguments)] == ["tea.py", "cup.py"]
    change = change_of_call("edit", arguments, Work())
    assert change is not None
    assert change.other_arguments is None
    assert [line for line in change.diff.split("\n") if line.startswith("+++")] == [
        "+++ tea.py",
        "+++ cup.py",
    ]
    lines = ["".join(part for _, part in line) for line in list_change_lines("edit", arguments)]
    assert [line for line in lines if line.startswith("+++")] == ["+++ tea.py", "+++ cup.py"]


def test_the_shown_path_is_that_of_the_arguments() -> None:
    arguments = json.dumps({"path": "./a/../tea.py", **CLAUDE})
    assert find_edits("edit", arguments)[0].path == "tea.py"
    change = change_of_call("edit", arguments, Work())
    assert change is not None
    assert change.diff.startswith("--- ./a/../tea.py\n")


@pytest.mark.parametrize(
    ("arguments", "members"),
    [
        ({"path": "a", **CLAUDE, "replace_all": True}, {"path", "old_string", "new_string"}),
        ({"path": "a", "file_path": "b", **CLAUDE}, {"file_path", "old_string", "new_string"}),
        ({"path": "a", "edits": [CLAUDE]}, {"path", "edits"}),
        ({"path": "a", "edits": [{"path": "b", **CLAUDE}]}, {"edits"}),
        ({"path": "a", "edits": [CLAUDE, {**CLAUDE, "run": "x"}]}, {"path"}),
        ({"path": "a", "edits": [CLAUDE, 7]}, {"path"}),
        ({"path": "a", "edits": [CLAUDE, {"old_string": "x"}]}, {"path"}),
        ({"edits": [CLAUDE, {"path": "b", **CLAUDE}]}, set()),
        ({"path": "a", "edits": [CLAUDE], "replacements": [CLAUDE]}, {"path", "edits"}),
    ],
)
def test_only_arguments_with_all_of_their_value_in_the_change_are_its_members(
    arguments: dict[str, Any], members: set[str]
) -> None:
    change = find_argument_change("edit", json.dumps(arguments))
    assert change is not None
    assert change.members == frozenset(members)


def test_an_empty_replaced_text_creates_a_file() -> None:
    arguments = json.dumps({"path": "tea.py", "old_string": "", "new_string": "pot\ngreen\n"})
    [edit] = find_edits("edit", arguments)
    assert edit.changes == (Content("pot\ngreen\n"),)
    change = change_of_call("edit", arguments, Work())
    assert change is not None
    assert change.diff.split("\n")[2:] == ["@@ new text @@", "+pot", "+green"]


@pytest.mark.parametrize(
    "arguments",
    ["", "[]", "7", "[" * 100_000, '{"path": "a"', json.dumps({"path": 7, **CLAUDE})],
)
def test_odd_arguments_are_no_edit(arguments: str) -> None:
    for name in ("Edit", "Write", "apply_patch", "Bash", "NotebookEdit", "insert"):
        assert is_edit_tool(name)
        assert find_edits(name, arguments) == []
        assert find_argument_change(name, arguments) is None


def test_a_costly_call_takes_bounded_time_in_each_reader() -> None:
    costly = {"old_string": "\n".join(["a"] * 190), "new_string": "\n".join(["a", "b"] * 95)}
    arguments = json.dumps({"path": "tea.py", "edits": [costly] * 200})
    started_at = time.process_time()
    assert len(find_edits("edit", arguments)[0].changes) == 200
    assert change_of_call("edit", arguments, Work()) is not None
    assert list_change_lines("edit", arguments)
    assert time.process_time() - started_at < 3  # It takes 13 s if each edit is compared.
