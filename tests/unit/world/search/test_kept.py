"""What rules keep from an agent, `glob` and `grep` do not show it, whichever way it looks."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from harken import LocalWorld, ToolContext
from harken.core.messages import text_of
from harken.world.files.root import Root
from harken.world.permissions.permissions import Permissions
from harken.world.permissions.rules import PermissionRules
from harken.world.search.engines import Engine
from harken.world.search.tools import search_tools
from tests.agent_kit import call, run
from tests.unit.world.files.filing import ENGINES, fill
from tests.unit.world.permissions.people import YES, Person

FILES: dict[str, str | bytes] = {"a": "key: none\n", "secret/b": "key: 1\n", "secret/c.d": "\0key"}
LEFT_OUT = "(1 file that permission rules hide from you was left out)"


class Looking:
    """Somebody who looks for files in a world with rules."""

    def __init__(self, folder: Path, engine: Engine, **rules: list[str]) -> None:
        tools = search_tools(Root(folder), engine)
        permissions = Permissions("all", PermissionRules.parse(**rules))
        self.world = LocalWorld(tools, folder=folder, permissions=permissions)
        self.person = Person([YES])

    def __call__(self, name: str, **arguments: object) -> str:
        session = SimpleNamespace(agents={}, sync=lambda: None)
        agent = SimpleNamespace(name="main", agent_id="agent_001", session=session)
        caller = ToolContext(agent, "msg_001", self.person)
        result = run(self.world.call_tool(call(name, **arguments).function, caller))
        return text_of(result.content)


@pytest.fixture(params=ENGINES, ids=[type(engine).__name__ for engine in ENGINES])
def engine(request: pytest.FixtureRequest) -> Engine:
    made: Engine = request.param
    return made


@pytest.mark.parametrize("rule", ["grep(secret/**)", "read(secret/**)", "grep(secret)", "*(**/b)"])
@pytest.mark.parametrize("kind", ["deny", "ask"])
def test_grep_prints_no_line_of_a_file_that_it_may_not_show(
    tmp_path: Path, engine: Engine, rule: str, kind: str
) -> None:
    grep = Looking(fill(tmp_path, FILES), engine, **{kind: [rule]})
    assert grep("grep", pattern=".") == f"a\n1:key: none\n\n{LEFT_OUT}"
    for glob in ("secret/b", "secret/*", "se*/b", f"{tmp_path}/secret/b"):
        assert grep("grep", pattern="key", glob=glob) == f"[no matches]\n\n{LEFT_OUT}"
    assert grep.person.wanted == []


def test_of_a_file_that_is_kept_grep_says_not_even_the_kind(tmp_path: Path, engine: Engine) -> None:
    grep = Looking(fill(tmp_path, FILES), engine, deny=["read(secret/**)"])
    assert grep("grep", pattern="1", glob="secret/c.d") == f"[no matches]\n\n{LEFT_OUT}"


def test_glob_names_no_file_that_rules_keep_from_it(tmp_path: Path, engine: Engine) -> None:
    glob = Looking(fill(tmp_path, FILES), engine, deny=["glob(secret/**)"])
    left_out = "(2 files that permission rules hide from you were left out)"
    assert glob("glob", pattern="**/*") == f"a\n\n{left_out}"
    assert glob("glob", pattern="secret/*") == f"[no files]\n\n{left_out}"
    assert glob("glob", pattern="secret/b") == f"[no files]\n\n{LEFT_OUT}"


def test_of_names_that_are_kept_not_even_similar_ones_are_told(
    tmp_path: Path, engine: Engine
) -> None:
    glob = Looking(fill(tmp_path, {"secret/key": "x"}), engine, deny=["glob(secret/**)"])
    for name in ("key", "keys"):
        assert glob("glob", pattern=f"secret/{name}") == f"[no files]\n\n{LEFT_OUT}"


def test_the_name_of_a_file_that_may_not_be_read_is_no_secret(
    tmp_path: Path, engine: Engine
) -> None:
    glob = Looking(fill(tmp_path, FILES), engine, deny=["read(secret/**)"])
    assert glob("glob", pattern="b") == "secret/b"


def test_what_is_named_is_denied_or_asked_and_shown_where_it_is_allowed(
    tmp_path: Path, engine: Engine
) -> None:
    folder = fill(tmp_path, FILES)
    denied = Looking(folder, engine, deny=["read(secret/**)"])
    assert denied("grep", pattern="key", path="secret") == (
        "Error: grep was not run: denied by the rule read(secret/**)"
    )
    asked = Looking(folder, engine, ask=["read(secret/**)"])
    assert asked("grep", pattern="key", path="secret") == "secret/b\n1:key: 1"
    assert [wanted.subject for wanted in asked.person.wanted] == ["secret"]


def test_a_link_to_a_folder_is_no_way_around(tmp_path: Path, engine: Engine) -> None:
    folder = fill(tmp_path / "real", FILES)
    (folder / "way").symlink_to("secret")
    linked = tmp_path / "linked"
    linked.symlink_to(folder)
    for at in (folder, linked):
        grep = Looking(at, engine, deny=["grep(SECRET/**)"])
        assert LEFT_OUT in grep("grep", pattern="key", glob="way/b")
        assert "denied by the rule" in grep("grep", pattern="key", path="way/b")


def test_rules_for_others_keep_nothing(tmp_path: Path, engine: Engine) -> None:
    rules = ["Jill:grep(secret/**)", "edit(secret/**)", "glob(secret/**)"]
    grep = Looking(fill(tmp_path, FILES), engine, deny=rules)
    assert grep("grep", pattern="key") == "a\n1:key: none\n\nsecret/b\n1:key: 1"
