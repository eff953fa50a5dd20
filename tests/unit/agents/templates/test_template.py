"""Templates as files: what is read, what is refused, and that nothing in them does harm."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from harken.agents.templates.front_matter import MAX_BYTES
from harken.agents.templates.template import Template, Templates, read_template
from harken.errors import ConfigError, NameNotFound

REVIEWER = """\
---
name: reviewer
description: Looks for
  mistakes.
tools: [read, search]
model: scripted:r.yaml
color: red
---

You are a reviewer.
---
Be kind.
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "agents"
    path.mkdir()
    return path


def written(folder: Path, text: str | bytes, name: str = "reviewer") -> Path:
    path = folder / f"{name}.md"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_a_template_is_its_front_matter_and_its_instructions(folder: Path) -> None:
    path = written(folder, REVIEWER)
    found = Templates([folder]).find("reviewer")
    assert found == Template(
        name="reviewer",
        description="Looks for mistakes.",
        instructions="You are a reviewer.\n---\nBe kind.",
        tools=("read", "search"),
        model="scripted:r.yaml",
        path=path,
        hash=found.hash,
        ignored=("color",),
    )
    assert len(found.hash) == 64


def test_a_slip_in_the_name_of_a_member_is_an_error(folder: Path) -> None:
    written(folder, "---\ntool: [read]\n---\nYou only read.\n")
    with pytest.raises(ConfigError, match="reviewer.md: has no member 'tool': write 'tools'"):
        Templates([folder]).find("reviewer")


def test_without_front_matter_all_is_instructions(folder: Path) -> None:
    written(folder, "\ufeffYou are Ann.\r\n")
    found = Templates([folder]).find("reviewer")
    assert (found.instructions, found.tools, found.model) == ("You are Ann.", None, None)


def test_front_matter_may_be_empty_and_end_lines_as_on_another_system(folder: Path) -> None:
    assert read_template(written(folder, "---\r\n---\r\nHi")).instructions == "Hi"
    assert read_template(written(folder, "---\ntools:\nmodel:\n---\nHi")).tools is None


def test_tools_may_stand_in_one_text_and_may_be_none_at_all(folder: Path) -> None:
    assert read_template(written(folder, "---\ntools: read, search,\n---\nHi")).tools == (
        "read",
        "search",
    )
    assert read_template(written(folder, "---\ntools: []\n---\nHi")).tools == ()


@pytest.mark.req("S4-06")
def test_a_template_is_read_when_it_is_asked_for(folder: Path) -> None:
    templates = Templates([folder])
    with pytest.raises(NameNotFound):
        templates.find("ann")
    written(folder, "old", "ann")
    before = templates.find("ann")
    written(folder, "new", "ann")
    after = templates.find("ann")
    assert (before.instructions, after.instructions) == ("old", "new")
    assert before.hash != after.hash
    (folder / "ann.md").unlink()
    assert list(templates) == []


def test_the_first_folder_counts_and_folders_may_be_missing(tmp_path: Path, folder: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    written(folder, "mine", "ann")
    written(other, "theirs", "ann")
    written(other, "Bob.", "bob")
    templates = Templates([tmp_path / "missing", folder, other])
    assert [one.instructions for one in templates] == ["mine", "Bob."]


def test_an_unknown_template_is_refused_with_those_that_exist(folder: Path) -> None:
    written(folder, REVIEWER)
    written(folder, "broken: [", "zed")
    with pytest.raises(NameNotFound) as caught:
        Templates([folder]).find("revieuer")
    assert str(caught.value) == ("template 'revieuer' not found; existing templates: reviewer, zed")


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../secret", "a/b", "/etc/passwd", "a.md", "a\0b", "é", "-x", "x" * 65]
)
def test_a_name_leads_nowhere_but_to_a_file_of_the_folder(folder: Path, name: str) -> None:
    (folder.parent / "secret.md").write_text("secret")
    (folder / "a.md").write_text("a")
    with pytest.raises(NameNotFound):
        Templates([folder]).find(name)


def test_files_that_have_no_plain_name_are_no_templates(folder: Path) -> None:
    for name in ("a b", ".hidden", "ünï"):
        written(folder, "Hi", name)
    (folder / "note.txt").write_text("Hi")
    assert list(Templates([folder])) == []


BAD = {
    "---\nname: x": "its front matter has no end: write a line with --- below it",
    "---\na: b: c\n---\nHi": "line 2: the front matter is not valid YAML: mapping values are not allowed here",
    "---\n- a\n---\nHi": "its front matter is a list of members such as `description: ...`",
    "---\n1: a\n---\nHi": "its front matter is a list of members such as `description: ...`",
    "---\nname: other\n---\nHi": "is called 'reviewer' by its file: take `name` away, or rename",
    "---\nmodel: 5\n---\nHi": "model must be a string; put it in quotes",
    "---\ndescription: 2026-01-31\n---\nHi": "description must be a string; put it in quotes",
    "---\ntools: 5\n---\nHi": "tools is a list of names: write `tools: [read, search]`",
    "---\ntools: [1]\n---\nHi": "tools is a list of names: write `tools: [read, search]`",
    "---\nhooks: {Stop: 1}\n---\nHi": "hooks is a list of names: write `hooks: [single-minded]`",
    "---\npermission: any\n---\nHi": "permission must be one of ask, edits, all, plan",
    "---\nmodel: x\n---\n \n": "has no instructions: write them below the front matter",
    "---\na: !!python/object/apply:os.system [ls]\n---\nHi": "its front matter may not use `!` tags",
    "---\na: !!timestamp x\n---\nHi": "its front matter may not use `!` tags",
    '---\na: !!int ""\n---\nHi': "its front matter may not use `!` tags",
    '---\ndescription: "\\ud800"\n---\nHi': "description contains a lone surrogate",
    '---\ntools: ["\\ud800"]\n---\nHi': "tools contains a lone surrogate",
    "---\na: &a 1\nb: *a\n---\nHi": "its front matter may not use `*` aliases",
    "---\na: " + "[" * 8000 + "]" * 8000 + "\n---\nHi": "is nested more than 8 deep",
    "---\na: " + "9" * 9000 + "\n---\nHi": "its front matter is not valid YAML",
    "---\na: 9999-99-99\n---\nHi": "its front matter is not valid YAML",
    "---\na: \x07\n---\nHi": "its front matter is not valid YAML",
    "---\na: " + "x" * 20000 + "\n---\nHi": "its front matter is longer than 16 KB",
    "x" * (MAX_BYTES + 1): "is longer than 256 KB",
}


@pytest.mark.parametrize("text", BAD, ids=lambda text: repr(text[:24]))
def test_a_broken_template_is_refused_on_one_line(folder: Path, text: str) -> None:
    path = written(folder, text)
    with pytest.raises(ConfigError) as caught:
        Templates([folder]).find("reviewer")
    assert str(caught.value).startswith(f"{path}: ")
    assert BAD[text] in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_grows_when_it_is_read_is_refused_at_once(folder: Path) -> None:
    bomb = ["a0: &a0 {x: 1}"]
    bomb += [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, 60)]
    written(folder, "---\n" + "\n".join(bomb) + "\n---\nHi")
    begun = time.process_time()
    with pytest.raises(ConfigError, match="aliases"):
        Templates([folder]).find("reviewer")
    assert time.process_time() - begun < 5


def test_what_is_no_text_or_no_file_is_refused(folder: Path) -> None:
    written(folder, b"You are \xe4", "latin")
    (folder / "sub.md").mkdir()
    os.mkfifo(folder / "pipe.md")
    (folder / "gone.md").symlink_to(folder / "nobody.md")
    (folder / "round.md").symlink_to(folder / "round.md")
    (folder.parent / "secret").write_text("secret")
    (folder / "out.md").symlink_to(folder.parent / "secret")
    reasons = {}
    for name in ("latin", "sub", "pipe", "gone", "round", "out"):
        with pytest.raises(ConfigError) as caught:
            Templates([folder]).find(name)
        reasons[name] = str(caught.value)
    assert "is not UTF-8 (byte 8)" in reasons["latin"]
    assert all("is not a file" in reasons[name] for name in ("sub", "pipe", "gone"))
    assert "is a link out of " in reasons["out"]
    assert "secret" not in reasons["out"].partition(": ")[2]


def test_a_link_within_the_folder_is_another_name(folder: Path) -> None:
    written(folder, "You are Ann.", "ann")
    (folder / "anna.md").symlink_to("ann.md")
    assert Templates([folder]).find("anna").instructions == "You are Ann."


def test_the_list_has_a_line_for_each_that_can_be_used(folder: Path) -> None:
    written(folder, REVIEWER)
    written(folder, "You are Ann.", "ann")
    written(folder, "---\n", "broken")
    assert Templates([folder]).listing() == "- ann\n- reviewer: Looks for mistakes."
    assert Templates().listing() == ""
    for n in range(60):
        written(folder, "---\ndescription: " + "long " * 99 + "\n---\nHi", f"n{n}")
    lines = Templates([folder]).listing().splitlines()
    assert len(lines) == 50
    assert max(map(len, lines)) < 220
