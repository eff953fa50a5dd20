"""Hook files: hooks as Markdown, found by name, read when they are put somewhere."""

import os
from pathlib import Path
from typing import Any

import pytest

from harken import AgentRuntime, LocalWorld, Templates
from harken.agents.action_schemas import ACTIONS
from harken.agents.hooks.hook import hook_points
from harken.agents.runtime import ActionPolicy, AgentLibrary
from harken.agents.templates.front_matter import MAX_BYTES
from harken.agents.tree.hook_file import HookFiles, read_hook
from harken.core.event_types.spec import AgentSpec, Copies, Standing
from harken.errors import ConfigError, NameNotFound
from tests.agent_kit import Stage, call, call_message, check_log, open_stage
from tests.unit.agents.hook_kit import SENT, Judging, send
from tests.unit.agents.smart_hooks import Cast, always, sends
from tests.unit.agents.tree.test_hook_action import then

CAREFUL = """---
description: Denies all
  sending.
points: [action]
tools: send
keeps: notes
colour: red
---
Deny what is sent.
"""


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / "hooks" / f"{name}.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def filed(folder: Path, cast: Cast, **more: Any) -> Stage:
    """Return a stage whose hooks are found in a folder."""
    runtime = AgentRuntime(
        model=cast.model(),
        world=LocalWorld([send]),
        policy=ActionPolicy(actions=ACTIONS),
        library=AgentLibrary(hooks=HookFiles([folder / "hooks"]), **more),
    )
    return open_stage(folder, cast.model(), runtime=runtime)


@pytest.mark.parametrize(
    ("member", "meant"), [("point", "points"), ("Tools", "tools"), ("keep", "keeps")]
)
def test_a_slip_in_the_name_of_a_member_is_an_error(
    tmp_path: Path, member: str, meant: str
) -> None:
    path = written(tmp_path, "guard", f"---\n{member}: action\n---\nWatch.\n")
    with pytest.raises(ConfigError, match=f"guard.md: has no member '{member}': write '{meant}'"):
        read_hook(path)


def test_what_a_file_names_and_is_not_there_is_said_with_the_file(tmp_path: Path) -> None:
    written(tmp_path, "odd", "---\nuse: nobody\n---\n")
    written(tmp_path, "far", "---\nmodel: nowhere/no\n---\nWatch.\n")
    one = filed(tmp_path, Cast())
    for name, why in (
        ("odd", "built-in hook 'nobody' not found"),
        ("far", "provider 'nowhere' not found"),
    ):
        with pytest.raises(ConfigError, match=f"{name}.md: .*{why}"):
            HookFiles([tmp_path / "hooks"]).create(name, one.root)
    problems = {k.name: k.problem for k in HookFiles([tmp_path / "hooks"]).list_hooks()}
    assert "built-in hook 'nobody' not found" in problems["odd"]


def test_a_file_says_what_a_hook_is(tmp_path: Path) -> None:
    found = read_hook(written(tmp_path, "careful", CAREFUL))
    assert (found.name, found.description) == ("careful", "Denies all sending.")
    assert (found.points, found.tools, found.model) == (("action",), ("send",), None)
    assert found.instructions == "Deny what is sent."
    assert found.ignored == ("colour",)
    plain = read_hook(written(tmp_path, "plain", "Watch.\n"))
    assert (plain.points, plain.tools, plain.keeps, plain.subagents) == (None, (), "notes", True)
    assert len(plain.hash) == 64


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("---\npoints: [thought]\n---\nx", "points are input, action, result and response"),
        ("---\nkeeps: some\n---\nx", "keeps must be `notes` or `all`"),
        ("---\nsubagents: maybe\n---\nx", "subagents is true or false"),
        ("---\noptions: 5\nuse: a\n---\n", "options is a list of members"),
        ("---\noptions: {a: 1}\n---\nx", "options, which are for a hook that is code"),
        ("---\nuse: todo-reminder\n---\nAlso this.", "has `options` and no instructions"),
        ("---\nuse: todo-reminder\nmodel: x\n---\n", "has `options` and no instructions"),
        ("---\nname: other\n---\nx", "is called 'odd' by its file"),
        ("---\ndescription: x\n---\n  \n", "has no instructions"),
        ("---\ntools: {a: 1}\n---\nx", "tools is a list of names"),
        ("---\na: &x [1]\nb: *x\n---\nx", "aliases"),
        ("---\nuse: !!python/name:os.system\n---\nx", "tags"),
        ("---\nx", "has no end"),
        ("x" * (MAX_BYTES + 1), "is longer than"),
    ],
)
def test_a_file_that_says_nothing_usable_is_refused(tmp_path: Path, text: str, why: str) -> None:
    path = written(tmp_path, "odd", text)
    with pytest.raises(ConfigError, match=why) as error:
        read_hook(path)
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    written(tmp_path, "plain", "x")
    (tmp_path / "secret").write_text("secret", encoding="utf-8")
    (tmp_path / "hooks" / "link.md").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "hooks" / "pipe.md")
    (tmp_path / "hooks" / "bytes.md").write_bytes(b"\xff")
    files = HookFiles([tmp_path / "hooks"])
    for name in ("link", "pipe", "bytes"):
        with pytest.raises(ConfigError):
            files.find(name)
    assert files.find("../secret") is None
    problems = {one.name: one.problem for one in files.list_hooks()}
    assert problems["plain"] == ""
    assert "is a link out of" in problems["link"]


@pytest.mark.req("S4-28")
def test_a_hook_from_a_file_is_frozen_when_it_is_installed(tmp_path: Path) -> None:
    path = written(tmp_path, "careful", CAREFUL)
    cast = Cast(main=sends, careful=always("DENY: no"))
    one = filed(tmp_path, cast)
    hook = HookFiles([path.parent]).create("careful", one.root).install(one.root, "careful")
    path.write_text("Allow everything.", encoding="utf-8")
    assert one.ask("Send.") == "Done."
    later = one.resume()
    path.unlink()
    later.ask("Send.")
    assert SENT == []
    assert all(read[0].startswith("Deny what is sent.") for read in cast.read_by("careful"))
    spec = hook.state.spec
    assert spec.template is not None
    assert spec.template.name == "careful"
    assert (spec.standing.points, spec.limits.tools, spec.keeps) == (["action"], ["send"], "notes")
    check_log(one.log)


@pytest.mark.req("S4-30")
def test_an_agent_puts_a_hook_from_a_file_above_itself_with_no_more_than_its_own_tools(
    tmp_path: Path,
) -> None:
    written(tmp_path, "careful", CAREFUL)
    task = call_message(
        call("task", name="kim", instructions="k", tools=["hook"], prompt="Watch yourself.")
    )
    hooked = call_message(call("hook", name="mine", instructions="hook:careful"))
    cast = Cast(main=then(task, "Done."), kim=then(hooked, "Done."), mine=always("OK"))
    one = filed(tmp_path, cast)
    one.ask("Go.")
    [hook] = one.agent("kim").hooks
    assert hook.state.spec.limits.tools == []
    assert hook.transcript[0]["content"].startswith("Deny what is sent.")


def test_files_count_before_what_is_built_in_and_the_first_folder_first(tmp_path: Path) -> None:
    cast = Cast(main=lambda _: "Done.")
    one = filed(tmp_path, cast)
    written(tmp_path, "on-your-toes", "My own.")
    other = tmp_path / "other"
    other.mkdir()
    written(other, "on-your-toes", "Another.")
    written(other, "more", "More.")
    files = HookFiles([tmp_path / "hooks", other / "hooks"])
    assert (
        files.create("on-your-toes", one.root)
        .install(one.root)
        .transcript[0]["content"]
        .startswith("My own.")
    )
    assert {"more", "on-your-toes", "todo-reminder", "discussion-limiter"} <= set(files.names())
    assert HookFiles().find("on-your-toes") is not None


def test_a_hook_that_is_code_is_found_by_its_kind_and_by_a_file_with_options(
    tmp_path: Path,
) -> None:
    text = (
        "---\nuse: todo-reminder\noptions: {requests: 3}\npoints: [input]\nsubagents: false\n---\n"
    )
    written(tmp_path, "nag", text)
    made = call_message(call("task", name="kim", instructions="k"))
    one = filed(tmp_path, Cast(main=then(made, "Done.")), kinds={"test-judge": Judging})
    files = HookFiles([tmp_path / "hooks"])
    for name in ("nag", "todo-reminder", "test-judge"):
        files.create(name, one.root).install(one.root, name)
    specs = [hook.state.spec for hook in one.root.hooks]
    assert specs[0] == AgentSpec(
        kind="todo-reminder",
        options={"requests": 3},
        copies=Copies(subagents=False),
        standing=Standing(points=["input"]),
    )
    assert [spec.kind for spec in specs[1:]] == ["todo-reminder", "test-judge"]
    assert hook_points(one.root.hooks[0]) == {"input"}
    one.ask("Go.")
    assert [hook.name for hook in one.agent("kim").hooks] == ["todo-reminder", "test-judge"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("---\ntools: [fly]\n---\nx", "tool 'fly' not found; existing tools: "),
        ("---\nmodel: nobody/none\n---\nx", "nobody"),
        ("---\nuse: nothing\n---\n", "built-in hook 'nothing' not found"),
        ("---\nuse: smart\n---\n", "built-in hook 'smart' not found"),
        ("---\nuse: todo-reminder\noptions: {wings: 2}\n---\n", "option 'wings' not found"),
        (
            "---\nuse: command-hook\noptions: {commands: [{event: Stop, command: id}]}\n---\n",
            "command-hook runs programs, which no hook file may name",
        ),
    ],
)
def test_a_hook_that_cannot_be_made_is_refused(tmp_path: Path, text: str, why: str) -> None:
    written(tmp_path, "odd", text)
    one = filed(tmp_path, Cast(main=lambda _: "Done."))
    with pytest.raises((ConfigError, NameNotFound), match=why):
        HookFiles([tmp_path / "hooks"]).create("odd", one.root)
    with pytest.raises(NameNotFound, match="hook 'none' not found.*on-your-toes"):
        HookFiles().create("none", one.root)


@pytest.mark.req("S4-29")
def test_a_template_names_hooks_from_files(tmp_path: Path) -> None:
    written(tmp_path, "careful", CAREFUL)
    agents = tmp_path / "agents"
    agents.mkdir()
    text = "---\nhooks: [careful]\ntools: [send]\n---\nYou send."
    (agents / "sender.md").write_text(text, encoding="utf-8")
    task = call_message(call("task", name="kim", instructions="template:sender", prompt="Send."))
    cast = Cast(main=then(task, "Done."), kim=sends, careful=always("DENY: no"))
    one = filed(tmp_path, cast, templates=Templates([agents]))
    one.ask("Go.")
    assert SENT == []
    assert [hook.name for hook in one.agent("kim").hooks] == ["careful"]
    check_log(one.log)
