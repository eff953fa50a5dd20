"""Skills: folders with instructions that an agent reads when it needs them.

    house-style/
        SKILL.md        front matter with `name` and `description`, then the instructions
        references/     whatever these speak of: texts, scripts, templates

An agent is told names and descriptions, in the description of the tool `skill`. What a skill says
is read when it is used and never kept, so an edit counts at once.

What Claude Code has beside the specification is read where it means something here: `when_to_use`
and `disable-model-invocation`; a name that is not the folder's, or no description. What it would
run or do otherwise is said to whoever reads the skill.

Source: https://agentskills.io/specification; the skills reference of Claude Code, as of 2.1.329.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from harken.agents.templates import front_matter
from harken.agents.templates.front_matter import Malformed, naming, read_page
from harken.core.arguments import check_arguments
from harken.errors import ConfigError, NameNotFound
from harken.world.files.root import display_name
from harken.world.result import ToolError
from harken.world.tool import Tool, ToolContext, tool

FILE = "SKILL.md"
SKILL = "skill"
"""The name of the tool."""
MAX_SKILLS = 200
"""In a folder; more are not looked at."""
MAX_LISTED = 50
"""Of how many skills a model is told."""
MAX_FILES = 100
"""Of how many files of a skill its result tells."""
MAX_CHARACTERS = 100_000
"""Of instructions in a result."""
UNRUN = "what stands in it as !`COMMAND` was not run: where you need its output, run it yourself"
"""Said of a text in which Claude Code would put the output of commands."""
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_SHELL = re.compile(r"(?:^|\s)!`[^`\n]+`")
_FOR_NOTHING = ("agent", "context", "hooks", "model", "paths")
_LONGEST_NAME, _LONGEST_DESCRIPTION = 64, 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """A skill, as its file was when it was read."""

    name: str
    description: str
    """What it does and when to use it, on one line."""
    instructions: str
    folder: Path
    """The real folder that it is in."""
    is_listed: bool = True
    """Whether agents may use it of their own accord; else the user names it."""
    notes: tuple[str, ...] = ()
    """What a reader has to know: what is different here."""

    def files(self) -> list[str]:
        """Return the paths of its other files, from its folder; of many, the first."""
        return sorted(islice(_files_below(self.folder), MAX_FILES))


@check_arguments
class Skills:
    """The skills in some folders; where two have one name, that of the first folder counts."""

    def __init__(self, folders: Sequence[Path] = ()) -> None:
        """Look into these folders whenever something is asked; none of them has to be there."""
        self.folders = tuple(folders)

    def find(self, name: str, among: Collection[str] | None = None) -> Skill:
        """Return the skill of this name, as it is now; `among` those of these names (None: all).

        Raises NameNotFound with the names that there are, ConfigError for one that cannot be used.
        """
        there = self._folders(among)
        if name not in there:
            raise NameNotFound("skill", name, sorted(there))
        return read_skill(there[name])

    def listing(self, among: Collection[str] | None = None) -> str:
        """Return a line for each skill that can be used, its name and description."""
        lines: list[str] = []
        for _, folder in sorted(self._folders(among).items()):
            try:
                skill = read_skill(folder)
            except ConfigError:
                continue  # whoever uses it is told what is wrong
            if not skill.is_listed:
                continue
            lines.append(f"- {skill.name}: {skill.description}")
            if len(lines) == MAX_LISTED:
                break
        return "\n".join(lines)

    def _folders(self, among: Collection[str] | None) -> dict[str, Path]:
        found: dict[str, Path] = {}
        for folder in self.folders:
            try:
                names = sorted(one.name for one in islice(folder.iterdir(), MAX_SKILLS))
            except OSError:
                continue
            for name in names:
                is_wanted = among is None or name in among
                if is_wanted and _is_name(name) and (folder / name / FILE).exists():
                    found.setdefault(name, folder / name)
        return found


def read_skill(folder: Path) -> Skill:
    """Read a skill. Raises ConfigError, on one line, where it cannot be used."""
    path = folder / FILE
    with naming(path):
        if folder.resolve().parent != folder.parent.resolve():
            raise Malformed(f"its folder is a link out of {folder.parent}: copy it")
        page = read_page(path, lenient=True)
        front, body = page.front, page.body.strip()
        description = front_matter.one_line(front, "description") or _first_paragraph(body)
        when = front_matter.one_line(front, "when_to_use")
        if not body:
            raise Malformed("has no instructions: write them below the front matter")
    real = folder.resolve()
    return Skill(
        name=folder.name,
        description=" - ".join(filter(None, [description, when]))[:_LONGEST_DESCRIPTION],
        instructions=body.replace("${CLAUDE_SKILL_DIR}", str(real)),
        folder=real,
        is_listed=str(front.get("disable-model-invocation")).lower() != "true",
        notes=tuple(_notes(front, body)),
    )


def has_shell(text: str) -> bool:
    """Whether Claude Code would run commands for a text: !`COMMAND`."""
    return _SHELL.search(text) is not None


def _first_paragraph(body: str) -> str:
    """Return what stands first in a text, on one line: a skill may say nothing else of itself."""
    return " ".join(body.split("\n\n", 1)[0].lstrip("# ").split())


def _notes(front: Mapping[str, Any], body: str) -> Iterator[str]:
    """Yield what a reader has to know, where the text was written for somebody who does more."""
    if has_shell(body):
        yield UNRUN
    nothing = [name for name in _FOR_NOTHING if name in front]
    if nothing:
        yield f"{', '.join(nothing)} in its front matter: counts for nothing here"


@check_arguments
def skill_tool(skills: Skills) -> Tool:
    """Return the tool `skill`; an agent is told with `with_skills` which there are."""

    async def skill(name: str, caller: ToolContext) -> str:
        try:
            found = skills.find(name, skills_of(caller.agent))
        except (NameNotFound, ConfigError) as error:
            raise ToolError(str(error)) from None
        return _said(found)

    return tool(name=SKILL, description=_ABOUT, reads_only=True)(skill).with_subject(by="name")


def skills_of(agent: Any) -> list[str] | None:
    """Return the names of the skills that an agent may use, as its birth says; None for all."""
    names = agent.state.spec.get("skills")
    return names if isinstance(names, list) else None


def with_skills(made: Tool, listing: str) -> Tool:
    """Return the tool `skill` as it is told to an agent with these skills."""
    return replace(made, description=f"{_ABOUT}\n\nThere is:\n{listing}")


_ABOUT = """\
Read a skill: instructions for a kind of work, written by somebody who knows it.

Use it before you begin such work, and then do as it says. The result also names the files of the
skill, if it has any: read those that the instructions speak of, when you need them."""


def _said(skill: Skill) -> str:
    text, path = skill.instructions, skill.folder / FILE
    if len(text) > MAX_CHARACTERS:
        text = f"{text[:MAX_CHARACTERS]}\n[cut: the whole is in {display_name(str(path))}]"
    text = "\n\n".join([text, *(f"[{note}]" for note in skill.notes)])
    files = skill.files()
    if not files:
        return text
    more = ["- and more"] if len(files) == MAX_FILES else []
    listed = "\n".join([*(f"- {display_name(file)}" for file in files), *more])
    return f"{text}\n\n[files of this skill, in {display_name(str(skill.folder))}:\n{listed}]"


def _is_name(name: str) -> bool:
    return len(name) <= _LONGEST_NAME and _NAME.fullmatch(name) is not None


def _files_below(folder: Path) -> Iterator[str]:
    for inside, folders, files in os.walk(folder):  # it follows no links
        folders[:] = sorted(one for one in folders if not one.startswith("."))
        for file in sorted(files):
            path = Path(inside, file)
            if not file.startswith(".") and not path.is_symlink() and path != folder / FILE:
                yield path.relative_to(folder).as_posix()
