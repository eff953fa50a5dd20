"""Templates: kinds of agents, each described in a Markdown file.

    ---
    description: Looks for mistakes in a change.
    tools: [read, search]
    model: anthropic/claude-opus-5-5
    hooks: [single-minded]
    skills: [house-style]
    permission: plan
    ---
    You are a careful reviewer. ...

A template is read when it is used and never kept, so an edit counts at once. Its name is that of
its file, so a name leads to one file and to nowhere else.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, TypeAlias, get_args

import msgspec

from harken.agents.templates import front_matter
from harken.agents.templates.front_matter import (
    NAME,
    Malformed,
    file_errors,
    find_markdown_files,
    read_markdown_file,
)
from harken.core import canonical, structs
from harken.core.arguments import check_arguments
from harken.core.event_types.spec import TemplateOrigin
from harken.errors import ConfigError, NameNotFound
from harken.world.mcp.server_config import McpServerConfig, parse_granted_servers
from harken.world.permissions.mode import Mode

MAX_LISTED = 50
"""The maximum templates in the description of `task`."""
TEMPLATE = b"harken.template.v1\n"
"""The domain line of a template's hash, which covers all bytes of its file."""


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """A template as its file was when it was read."""

    name: str
    instructions: str
    """The system prompt."""
    description: str = ""
    """Its purpose, on one line."""
    tools: tuple[str, ...] | None = None
    """The allowed tools, or None for all tools of its parent."""
    denied: tuple[str, ...] = ()
    """Tools that it may not use, even if its parent may."""
    model: str | None = None
    """The full name of its model, or None for its parent's model."""
    hooks: tuple[str, ...] = ()
    """Names of its hooks besides copies of its parent's hooks."""
    commands: Mapping[str, Any] | None = None
    """A `hooks` section as in Claude Code's settings: commands that watch it."""
    skills: tuple[str, ...] | None = None
    """The allowed skills, or None for those of its parent."""
    permission: Mode | None = None
    """Its permission mode, which applies if it is stricter than its parent's."""
    mcp: tuple[str, ...] = ()
    """The MCP servers whose tools it has, regardless of its parent's tools."""
    servers: tuple[McpServerConfig, ...] = ()
    """The MCP servers that the template itself describes."""
    path: Path
    hash: str
    """BLAKE3 of the file: 64 hex digits."""
    ignored: tuple[str, ...] = ()
    """Members of the front matter that are unknown here; other programs may use them."""
    notes: tuple[str, ...] = ()
    """Notes for the user, a line each."""

    def expanded(self, tool_names: Iterable[str]) -> Template:
        """Replace `mcp__SERVER__*` with the matching tools of this world.

        >>> cook = Template(name="a", instructions="", path=Path(), hash="", tools=("mcp__x__*",))
        >>> cook.expanded(["mcp__x__a", "mcp__y__a"]).tools
        ('mcp__x__a',)
        """
        if self.tools is None or not any("*" in name for name in self.tools):
            return self
        sorted_names = sorted(tool_names)
        tools = (
            fnmatch.filter(sorted_names, name) if "*" in name else [name] for name in self.tools
        )
        return structs.replace(self, tools=tuple(dict.fromkeys(chain.from_iterable(tools))))

    @property
    def origin(self) -> TemplateOrigin:
        """The members that a birth records of its template."""
        return TemplateOrigin(name=self.name, hash=self.hash)


class TemplateSource(Protocol):
    """Template files of other programs."""

    def files(self) -> Mapping[str, Path]:
        """Return the current files by name."""
        ...

    def read(self, path: Path) -> Template:
        """Read a file. Raises ConfigError, with a single line, if it cannot be used."""
        ...


Reader: TypeAlias = Callable[[Path], Template]


@check_arguments
class Templates:
    """The templates in some folders. The first folder takes precedence."""

    def __init__(self, folders: Sequence[Path] = (), more: Sequence[TemplateSource] = ()) -> None:
        """Set the folders, which are scanned on each access and need not exist.

        Names without a template in the folders are looked up in `more`.
        """
        self.folders, self.more = tuple(folders), tuple(more)

    def find(self, name: str) -> Template:
        """Return the template of this name, read now.

        Raises NameNotFound with the existing names, ConfigError for an unusable template.
        """
        files = self._find_files()
        file = files.get(name) if NAME.fullmatch(name) else None
        if file is None:
            raise NameNotFound("template", name, sorted(files))
        path, read = file
        return read(path)

    def __iter__(self) -> Iterator[Template]:
        """Yield all usable templates, sorted by name."""
        for _, (path, read) in sorted(self._find_files().items()):
            try:
                yield read(path)
            except ConfigError:
                continue  # The error is reported when the template is used.

    def listing(self) -> str:
        """Format a line for each template: its name and description. Empty without templates."""
        templates = [template for template, _ in zip(self, range(MAX_LISTED), strict=False)]
        return "\n".join(
            f"- {item.name}: {item.description[:200]}".rstrip(": ") for item in templates
        )

    def _find_files(self) -> dict[str, tuple[Path, Reader]]:
        """Return the files by name, with their readers."""
        files: dict[str, tuple[Path, Reader]] = {
            name: (path, read_template) for name, path in find_markdown_files(self.folders).items()
        }
        for source in self.more:
            for name, path in source.files().items():
                files.setdefault(name, (path, source.read))
        return files


def read_template(path: Path) -> Template:
    """Read a template. Raises ConfigError, with a single line, if it cannot be used."""
    with file_errors(path):
        page = read_markdown_file(path)
        fields = _parse_members(page.front, path.stem)
        if not page.body.strip():
            raise Malformed("has no instructions: write them below the front matter")
    return Template(
        name=path.stem,
        instructions=page.body.strip(),
        path=path,
        hash=canonical.hash_bytes(TEMPLATE, page.data).hex(),
        ignored=tuple(sorted(page.front.keys() - _KEYS)),
        **fields,
    )


def _parse_members(front: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Parse the supported members into fields of a template."""
    front_matter.check_name_member(front, name)
    front_matter.check_members(front, _KEYS)
    return {
        "description": front_matter.one_line(front, "description"),
        "tools": front_matter.names(front, "tools", "read, search"),
        "model": front_matter.text(front, "model").strip() or None,
        "hooks": front_matter.names(front, "hooks", "single-minded") or (),
        "skills": front_matter.names(front, "skills", "house-style"),
        "permission": _parse_permission(front),
        **_parse_servers(front.get("mcp"), f"{name}.md"),
    }


def _parse_permission(front: Mapping[str, Any]) -> Mode | None:
    value = front.get("permission")
    mode: Mode | None = next((mode for mode in get_args(Mode) if mode == value), None)
    if value is not None and mode is None:
        raise Malformed(f"permission must be one of {', '.join(get_args(Mode))}")
    return mode


_KEYS = {"name", "description", "tools", "model", "hooks", "skills", "permission", "mcp"}


def _parse_servers(value: object, origin: str) -> dict[str, Any]:
    """Parse MCP servers given by name, or described in a table."""
    if value is None:
        return {}
    try:
        names, servers = parse_granted_servers(value, origin)
    except ConfigError as error:
        raise Malformed(str(error)) from None
    return {"mcp": names, "servers": servers}
