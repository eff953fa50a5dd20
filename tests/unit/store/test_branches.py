"""Names of branches, and of the heads of artifacts."""

from __future__ import annotations

import pytest

from harken.errors import BranchConflict, ConfigError
from harken.store.branches import (
    MAX_BRANCH_CHARS,
    check_branch,
    check_head,
    check_head_name,
    check_source,
)

DIGITS = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    "name", ["m", "main", "review/alice", "é", "tkt", "a-b", "b" * MAX_BRANCH_CHARS]
)
def test_branch_name_is_accepted(name: str) -> None:
    check_branch(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "b" * (MAX_BRANCH_CHARS + 1),
        "a b",
        "a\u00a0b",
        "a\nb",
        "a\x00b",
        "a@b",
        "ctx-1",
        "art-1",
        "tkt-1",
        "src-1",
        "-a",
        "/a",
        "a/",
        "a//b",
    ],
)
def test_branch_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="is not the name of a branch"):
        check_branch(name)


@pytest.mark.parametrize("name", [f"tkt-{DIGITS}", f"src-{DIGITS}"])
def test_head_name_is_accepted(name: str) -> None:
    assert check_head_name(name) == name


@pytest.mark.parametrize(
    "name", ["", DIGITS, f"tkt-{DIGITS[1:]}", f"tkt-{DIGITS}0", f"ctx-{DIGITS}", f"tkt-{DIGITS}\n"]
)
def test_other_head_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="is not the name of a head"):
        check_head_name(name)


def test_head_of_an_imported_file_is_no_ticket() -> None:
    check_source(f"src-{DIGITS}")
    with pytest.raises(ConfigError, match="imported file"):
        check_source(f"tkt-{DIGITS}")


@pytest.mark.parametrize("expected", [None, "old", "other"])
def test_head_is_compared_with_the_expected_one(expected: str | None) -> None:
    heads = {"main": "new"}
    check_head("s", heads, "main", "new")
    check_head("s", heads, "none", None)
    with pytest.raises(BranchConflict) as error:
        check_head("s", heads, "main", expected)
    assert (error.value.expected, error.value.actual) == (expected, "new")
