"""Skills: folders with instructions that an agent reads on demand.

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
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from harken.agents import texts
from harken.agents.templates import front_matter
from harken.agents.templates.front_matter import Malformed, file_errors, read_markdown_file
from harken.core import structs
from harken.core.arguments import check_arguments
from harken.errors import ConfigError, NameNotFound
from harken.world.files.root import display_name
from harken.world.result import ToolError
from harken.world.tool import Tool, ToolContext, tool

FILE = "SKILL.md"
SKILL = "skill"
"""The name of the tool."""
MAX_SKILLS = 200
"""The maximum skills per folder; further skills are ignored."""
MAX_LISTED = 50
"""The maximum skills in the tool's description."""
MAX_FILES = 100
"""The maximum files of a skill in its result."""
MAX_CHARACTERS = 100_000
"""The maximum length of instructions in a result."""
_NAME_PATTERN = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_SHELL_PATTERN = re.compile(r"(?:^|\s)!`[^`\n]+`")
_IGNORED_MEMBERS = ("agent", "context", "hooks", "model", "paths")
_MAX_NAME_CHARS, _MAX_DESCRIPTION_CHARS = 64, 1024


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    """A skill as it was when it was read."""

    name: str
    description: str
    """Its purpose and when to use it, on one line."""
    instructions: str
    folder: Path
    """The real path of its folder."""
    is_listed: bool = True
    """Whether agents may choose it themselves; otherwise the user names it."""
    notes: tuple[str, ...] = ()
    """Notes for the reader about differences from Claude Code."""

    def files(self) -> list[str]:
        """Return the relative paths of its other files, at most `MAX_FILES`."""
        return sorted(islice(_iter_files(self.folder), MAX_FILES))


@check_arguments
class Skills:
    """The skills in some folders. The first folder takes precedence."""

    def __init__(self, folders: Sequence[Path] = ()) -> None:
        """Set the folders, which are scanned on each access and need not exist."""
        self.folders = tuple(folders)

    def find(self, name: str, among: Collection[str] | None = None) -> Skill:
        """Return the skill of this name, read now. `among`: names to choose from, by default all.

        Raises NameNotFound with the existing names, ConfigError for an unusable skill.
        """
        folders = self._find_folders(among)
        if name not in folders:
            raise NameNotFound("skill", name, sorted(folders))
        return read_skill(folders[name])

    def listing(self, among: Collection[str] | None = None) -> str:
        """Format a line for each usable skill: its name and description."""
        lines: list[str] = []
        for _, folder in sorted(self._find_folders(among).items()):
            try:
                skill = read_skill(folder)
            except ConfigError:
                continue  # The error is reported when the skill is used.
            if not skill.is_listed:
                continue
            lines.append(f"- {skill.name}: {skill.description}")
            if len(lines) == MAX_LISTED:
                break
        return "\n".join(lines)

    def _find_folders(self, among: Collection[str] | None) -> dict[str, Path]:
        folders: dict[str, Path] = {}
        for folder in self.folders:
            try:
                names = sorted(entry.name for entry in islice(folder.iterdir(), MAX_SKILLS))
            except OSError:
                continue
            for name in names:
                is_candidate = among is None or name in among
                if is_candidate and _is_name(name) and (folder / name / FILE).exists():
                    folders.setdefault(name, folder / name)
        return folders


def read_skill(folder: Path) -> Skill:
    """Read a skill. Raises ConfigError, with a single line, if it cannot be used."""
    path = folder / FILE
    with file_errors(path):
        if folder.resolve().parent != folder.parent.resolve():
            raise Malformed(f"its folder is a link out of {folder.parent}: copy it")
        page = read_markdown_file(path, lenient=True)
        front, body = page.front, page.body.strip()
        description = front_matter.one_line(front, "description") or _first_paragraph(body)
        when = front_matter.one_line(front, "when_to_use")
        if not body:
            raise Malformed("has no instructions: write them below the front matter")
    real = folder.resolve()
    return Skill(
        name=folder.name,
        description=" - ".join(filter(None, [description, when]))[:_MAX_DESCRIPTION_CHARS],
        instructions=body.replace("${CLAUDE_SKILL_DIR}", str(real)),
        folder=real,
        is_listed=str(front.get("disable-model-invocation")).lower() != "true",
        notes=tuple(_iter_notes(front, body)),
    )


def has_shell(text: str) -> bool:
    """Whether Claude Code would run commands for a text: !`COMMAND`."""
    return _SHELL_PATTERN.search(text) is not None


def _first_paragraph(body: str) -> str:
    """Return the first paragraph on a single line, as the description of a skill without one."""
    return " ".join(body.split("\n\n", 1)[0].lstrip("# ").split())


def _iter_notes(front: Mapping[str, Any], body: str) -> Iterator[str]:
    """Yield notes about features that Harken ignores."""
    if has_shell(body):
        yield texts.UNRUN_COMMANDS
    ignored_names = [name for name in _IGNORED_MEMBERS if name in front]
    if ignored_names:
        yield f"{', '.join(ignored_names)} in its front matter: not supported and ignored"


@check_arguments
def skill_tool(skills: Skills) -> Tool:
    """Return the tool `skill`; `with_skills` adds the list of skills for an agent."""

    async def skill(name: str, caller: ToolContext) -> str:
        try:
            match = skills.find(name, skills_of(caller.agent))
        except (NameNotFound, ConfigError) as error:
            raise ToolError(str(error)) from None
        return _format_skill(match)

    return tool(name=SKILL, description=_DESCRIPTION, reads_only=True)(skill).with_subject(
        by="name"
    )


def skills_of(agent: Any) -> list[str] | None:
    """Return the names of the skills that an agent may use, from its birth, or None for all."""
    names: list[str] | None = agent.state.spec.limits.skills
    return names


def with_skills(base_tool: Tool, listing: str) -> Tool:
    """Return the tool `skill` with the list of an agent's skills in its description."""
    return structs.replace(base_tool, description=f"{_DESCRIPTION}\n\nThere is:\n{listing}")


_DESCRIPTION = """\
Read a skill: instructions for a kind of work, written by somebody who knows it.

Use it before you begin such work, and then do as it says. The result also names the files of the
skill, if it has any: read those that the instructions speak of, when you need them."""


def _format_skill(skill: Skill) -> str:
    text, path = skill.instructions, skill.folder / FILE
    if len(text) > MAX_CHARACTERS:
        text = text[:MAX_CHARACTERS] + texts.SKILL_TRUNCATED.format(display_name(str(path)))
    text = "\n\n".join([text, *(f"[{note}]" for note in skill.notes)])
    files = skill.files()
    if not files:
        return text
    tail = [texts.SKILL_FILES_OMITTED] if len(files) == MAX_FILES else []
    file_list = "\n".join([*(f"- {display_name(file)}" for file in files), *tail])
    folder = display_name(str(skill.folder))
    return f"{text}\n\n{texts.SKILL_FILES.format(folder, file_list)}"


def _is_name(name: str) -> bool:
    return len(name) <= _MAX_NAME_CHARS and _NAME_PATTERN.fullmatch(name) is not None


def _iter_files(folder: Path) -> Iterator[str]:
    for folder_path, folders, files in os.walk(folder):  # it follows no links
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for file in sorted(files):
            path = Path(folder_path, file)
            if not file.startswith(".") and not path.is_symlink() and path != folder / FILE:
                yield path.relative_to(folder).as_posix()
