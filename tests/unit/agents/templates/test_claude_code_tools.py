"""Tools in the words of Claude Code, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.agents.templates.claude_code_tools import (
    TOOLS,
    claude_names,
    from_claude_arguments,
    harken_name,
    to_claude_arguments,
)

FOLDER = Path("/there")
CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("bash", {"command": "ls", "timeout_s": 1.5}, {"command": "ls", "timeout": 1500}),
    ("read", {"path": "a", "limit": 3}, {"file_path": "/there/a", "limit": 3}),
    (
        "edit",
        {"path": "/x/a", "old_string": "1", "new_string": "2"},
        {"file_path": "/x/a", "old_string": "1", "new_string": "2", "replace_all": False},
    ),
    ("grep", {"pattern": "x", "ignore_case": True}, {"pattern": "x", "-i": True}),
    (
        "task",
        {"name": "Ann", "instructions": "template:cook", "prompt": "Go!"},
        {"description": "Ann", "subagent_type": "cook", "prompt": "Go!"},
    ),
    (
        "task",
        {"name": "Ann", "instructions": "Be Ann."},
        {"description": "Ann", "subagent_type": "general-purpose"},
    ),
    ("task", {"name": "Ann"}, {"description": "Ann", "subagent_type": "general-purpose"}),
    (
        "todo",
        {"items": [{"text": "look", "status": "doing"}, 5]},
        {"todos": [{"content": "look", "status": "in_progress", "activeForm": "look"}, 5]},
    ),
    ("mcp__a__b", {"path": "a"}, {"path": "a"}),
]


@pytest.mark.parametrize(("tool", "ours", "theirs"), CASES)
def test_arguments_are_told_in_other_words(
    tool: str, ours: dict[str, Any], theirs: dict[str, Any]
) -> None:
    assert to_claude_arguments(tool, ours, FOLDER) == theirs


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
NAMES = st.sampled_from(["path", "command", "timeout_s", "items", "name", "instructions", "x"])


@given(st.sampled_from([*TOOLS, "other"]), st.dictionaries(NAMES, JSON))
def test_what_was_not_changed_is_taken_back_as_it_was(tool: str, ours: dict[str, Any]) -> None:
    assert (
        from_claude_arguments(tool, ours, to_claude_arguments(tool, ours, FOLDER), FOLDER) == ours
    )


def test_only_what_was_changed_is_changed() -> None:
    ours = {"path": "a", "old_string": "1", "new_string": "2"}
    updated = {"file_path": "/there/b", "old_string": "1", "replace_all": True}
    after = from_claude_arguments("edit", ours, updated, FOLDER)
    assert after == {"path": "/there/b", "old_string": "1", "replace_all": True}


def test_changed_values_are_in_our_words() -> None:
    todos = {"todos": [{"content": "x", "status": "pending", "activeForm": "x"}]}
    assert from_claude_arguments("todo", {}, todos, FOLDER) == {
        "items": [{"text": "x", "status": "open"}]
    }
    assert from_claude_arguments("bash", {}, {"timeout": 500}, FOLDER) == {"timeout_s": 0.5}
    task = from_claude_arguments("task", {"name": "Ann"}, {"subagent_type": "cook"}, FOLDER)
    assert task == {"instructions": "template:cook"}


def test_a_path_is_the_file_that_will_be_touched(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    for path in ("file", "x/../file", "./file", "link"):
        assert to_claude_arguments("read", {"path": path}, tmp_path)["file_path"] == str(
            tmp_path / "file"
        )
    assert to_claude_arguments("read", {"path": "a\0b"}, tmp_path)["file_path"] == "a\0b"


def test_every_name_leads_back() -> None:
    for ours in TOOLS:
        assert all(harken_name(name) == ours for name in claude_names(ours))
