"""Skills: what an agent is told of them, what it reads, and that nothing in them does harm."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from harken import AgentRuntime, LocalWorld
from harken.agents.runtime import AgentLibrary
from harken.agents.templates.skills import MAX_CHARACTERS, Skills, read_skill, skill_tool
from harken.agents.templates.template import Templates
from harken.errors import ConfigError, NameNotFound
from harken.world.files.root import Root
from harken.world.files.tools import file_tools
from harken.world.search.engines import Scanner
from harken.world.search.tools import search_tools
from tests.agent_kit import Stage, call, call_message, check_log, open_stage, script_model

STYLE = """\
---
name: house-style
description: How we write here: short. Use it before you write.
license: MIT
---
Write short sentences. See references/words.md.
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "home/skills"
    path.mkdir(parents=True)
    return path


def skill(folder: Path, name: str = "house-style", text: str = STYLE) -> Path:
    (folder / name).mkdir()
    (folder / name / "SKILL.md").write_text(text)
    return folder / name


def test_a_skill_is_its_front_matter_and_its_instructions(folder: Path) -> None:
    made = skill(folder)
    (made / "references").mkdir()
    (made / "references/words.md").write_text("words")
    (made / ".hidden").write_text("x")
    found = Skills([folder]).find("house-style")
    assert found.description == "How we write here: short. Use it before you write."
    assert found.instructions == "Write short sentences. See references/words.md."
    assert found.files() == ["references/words.md"]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("---\ndescription: x\n---\n", "has no instructions"),
        ("---\ndescription: [x]\n---\nHi", "description must be a string"),
        ("x" * 300_000, "longer than 256 KB"),
    ],
)
def test_what_cannot_be_used_is_an_error_on_one_line(folder: Path, text: str, wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong) as error:
        read_skill(skill(folder, text=text))
    assert "\n" not in str(error.value)


LENIENT = """\
---
name: House Style
when_to_use: Use it before you write.
context: fork
---
# How we write

See ${CLAUDE_SKILL_DIR}/words.md and !`git status`.
"""


def test_a_skill_may_be_written_as_claude_code_has_them(tmp_path: Path, folder: Path) -> None:
    made = skill(folder, text=LENIENT)
    one = skilled(tmp_path, folder, main=[use(), "Fine."])
    one.ask("Write.")
    line = "- house-style: How we write - Use it before you write."
    assert str(described(one)).endswith(line)
    text, unrun, nothing = one.result()["content"].rsplit("\n\n", 2)
    assert text.endswith(f"See {made.resolve()}/words.md and !`git status`.")
    assert unrun.startswith("[what stands in it as !`COMMAND` was not run")
    assert nothing == "[context in its front matter: not supported and ignored]"


def test_what_only_the_user_may_name_is_not_listed(folder: Path) -> None:
    skill(folder, text="---\ndescription: x\ndisable-model-invocation: true\n---\nHi")
    assert Skills([folder]).listing() == ""
    assert Skills([folder]).find("house-style").instructions == "Hi"


def test_names_lead_nowhere_else(folder: Path, tmp_path: Path) -> None:
    skill(folder)
    skill(folder, "Not-Plain")
    skill(tmp_path, "outside")
    (folder / "linked").symlink_to(tmp_path / "outside")
    (folder / "pipe").mkdir()
    os.mkfifo(folder / "pipe/SKILL.md")
    (folder / "leak").mkdir()
    (folder / "leak/SKILL.md").symlink_to("/etc/passwd")
    skills = Skills([folder, tmp_path / "not there"])
    for name in ("../../outside", "", ".", "Not-Plain", "a\0b"):
        with pytest.raises(NameNotFound):
            skills.find(name)
    for name in ("linked", "leak"):
        with pytest.raises(ConfigError, match="link out of"):
            skills.find(name)
    with pytest.raises(ConfigError, match="is not a file"):
        skills.find("pipe")
    assert skills.listing() == "- house-style: How we write here: short. Use it before you write."


def test_files_that_are_links_are_not_named(folder: Path) -> None:
    made = skill(folder)
    (made / "passwd").symlink_to("/etc/passwd")
    (made / "up").symlink_to("..")
    assert Skills([folder]).find("house-style").files() == []


def test_the_first_folder_counts(folder: Path, tmp_path: Path) -> None:
    skill(folder)
    (tmp_path / "own").mkdir()
    skill(tmp_path / "own", text="---\ndescription: Ours.\n---\nOurs.")
    assert Skills([tmp_path / "own", folder]).find("house-style").instructions == "Ours."


def skilled(tmp_path: Path, folder: Path, **parts: Any) -> Stage:
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    (tmp_path / "agents").mkdir(exist_ok=True)
    skills, root = Skills([folder]), Root(work, readable=[folder])
    tools = [*file_tools(root), *search_tools(root, Scanner()), skill_tool(skills)]
    runtime = AgentRuntime(
        model=script_model(**parts),
        world=LocalWorld(tools, folder=work),
        library=AgentLibrary(skills=skills, templates=Templates([tmp_path / "agents"])),
    )
    return open_stage(tmp_path, runtime.model, runtime=runtime)  # type: ignore[arg-type]


def use(name: str = "house-style", id_: str = "c1") -> Any:
    return call_message(call("skill", id_, name=name))


def described(one: Stage, agent: str = "main") -> str | None:
    request = one.runtime.model.requests_of(agent)[-1]  # type: ignore[union-attr]
    tools = {tool["name"]: tool["description"] for tool in request.tools}
    return tools.get("skill")


@pytest.mark.req("S4-06")
def test_an_agent_reads_what_a_skill_says_now(tmp_path: Path, folder: Path) -> None:
    made = skill(folder)
    one = skilled(tmp_path, folder, main=[use(), "Fine.", use(id_="c2"), "Fine."])
    one.ask("Write.")
    assert "- house-style: How we write here" in str(described(one))
    assert one.result()["content"] == "Write short sentences. See references/words.md."
    (made / "SKILL.md").write_text("---\ndescription: x\n---\nWrite long ones.")
    one = one.resume()
    one.ask("Again.")
    assert one.result("c2")["content"] == "Write long ones."
    check_log(one.log)


def test_its_files_can_be_read_and_not_changed(tmp_path: Path, folder: Path) -> None:
    made = skill(folder)
    words = made / "words.md"
    words.write_text("short words\n")
    read = call_message(
        call("read", "c2", path=str(words)), call("grep", "c3", pattern="short", path=str(made))
    )
    change = call_message(
        call("edit", "c4", path=str(words), old_string="short", new_string="long"),
        call("write", "c5", path=str(made / "new.md"), content="x"),
    )
    one = skilled(tmp_path, folder, main=[use(), read, change, "Fine."])
    one.ask("Write.")
    assert one.result()["content"].endswith(f"[files of this skill, in {made}:\n- words.md]")
    assert "short words" in one.result("c2")["content"][0]["text"]
    assert "short words" in one.result("c3")["content"]
    assert "is outside" in one.result("c4")["content"]
    assert "is outside" in one.result("c5")["content"]
    assert words.read_text() == "short words\n"


def test_without_skills_there_is_no_such_tool_to_see(tmp_path: Path, folder: Path) -> None:
    one = skilled(tmp_path, folder, main=[use(), "Fine."])
    one.ask("Write.")
    assert described(one) is None
    assert one.result()["is_error"]


def test_a_wrong_name_and_a_broken_skill_are_results(tmp_path: Path, folder: Path) -> None:
    skill(folder)
    skill(folder, "broken", "---\ndescription: x\n---\n")
    one = skilled(tmp_path, folder, main=[use("nine"), use("broken", "c2"), "Fine."])
    one.ask("Write.")
    assert one.result()["content"].startswith("Error: skill 'nine' not found")
    assert "has no instructions" in one.result("c2")["content"]


def test_long_instructions_are_cut(tmp_path: Path, folder: Path) -> None:
    made = skill(folder, text="---\ndescription: Long.\n---\n" + "x" * 200_000)
    one = skilled(tmp_path, folder, main=[use(), "Fine."])
    one.ask("Write.")
    content = one.result()["content"]
    assert content.endswith(f"x\n[cut: the whole is in {made}/SKILL.md]")
    assert len(content) < MAX_CHARACTERS + 200


@pytest.mark.req("S4-05")
def test_a_template_limits_skills(tmp_path: Path, folder: Path) -> None:
    skill(folder)
    skill(folder, "cooking", "---\ndescription: Cooks.\n---\nBoil it.")
    task = call("task", "t1", name="Ann", instructions="template:cook", prompt="Cook!")
    bob = call("task", "t2", name="Bob", instructions="Be Bob.", prompt="Cook!")
    one = skilled(
        tmp_path,
        folder,
        main=[call_message(task), "Done."],
        Ann=[
            call_message(
                call("skill", "a1", name="house-style"), call("skill", "a2", name="cooking")
            ),
            call_message(bob),
            "Hm.",
        ],
        Bob=[call_message(call("skill", "b1", name="house-style")), "Hm."],
    )
    (tmp_path / "agents/cook.md").write_text("---\nskills: [cooking, nothing]\n---\nYou cook.")
    one.ask("Go.")
    assert "skill 'house-style' not found" in one.result("a1", "Ann")["content"]
    assert one.result("a2", "Ann")["content"] == "Boil it."
    assert str(described(one, "Ann")).endswith("There is:\n- cooking: Cooks.")
    assert "skill 'house-style' not found" in one.result("b1", "Bob")["content"]
    check_log(one.log)


@pytest.mark.req("S4-05")
def test_a_template_with_more_skills_than_its_parent_gives_no_more(
    tmp_path: Path, folder: Path
) -> None:
    skill(folder)
    skill(folder, "cooking", "---\ndescription: Cooks.\n---\nBoil it.")
    cook = call("task", "t1", name="Ann", instructions="template:cook", prompt="Cook!")
    writer = call("task", "t2", name="Bob", instructions="template:writer", prompt="Write!")
    one = skilled(
        tmp_path,
        folder,
        main=[call_message(cook), "Done."],
        Ann=[call_message(writer), "Hm."],
        Bob=[
            call_message(
                call("skill", "b1", name="house-style"), call("skill", "b2", name="cooking")
            ),
            "Hm.",
        ],
    )
    (tmp_path / "agents/cook.md").write_text("---\nskills: [cooking]\n---\nYou cook.")
    both = "---\nskills: [house-style, cooking]\n---\nYou write."
    (tmp_path / "agents/writer.md").write_text(both)
    one.ask("Go.")
    assert "skill 'house-style' not found" in one.result("b1", "Bob")["content"]
    assert one.result("b2", "Bob")["content"] == "Boil it."
    assert str(described(one, "Bob")).endswith("There is:\n- cooking: Cooks.")
    check_log(one.log)
