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
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, TypeAlias, get_args

from harken.agents.templates import front_matter
from harken.agents.templates.front_matter import NAME, Malformed, files_in, naming, read_page
from harken.core import canonical
from harken.core.arguments import check_arguments
from harken.errors import ConfigError, NameNotFound
from harken.world.mcp.server_config import McpServerConfig, granted
from harken.world.permissions.permissions import Mode

MAX_LISTED = 50
"""Of how many templates a model is told."""
TEMPLATE = b"harken.template.v1\n"
"""The domain line of a template's hash, which covers all bytes of its file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A kind of agent, as its file was when it was read."""

    name: str
    instructions: str
    """The system prompt of such an agent."""
    description: str = ""
    """What it is good for, on one line."""
    tools: tuple[str, ...] | None = None
    """All that it may use; None for all that its parent may."""
    denied: tuple[str, ...] = ()
    """What it may not use, whatever its parent may."""
    model: str | None = None
    """The full name of its model; None for its parent's."""
    hooks: tuple[str, ...] = ()
    """Names of the hooks that watch it, beside copies of those that watch its parent."""
    commands: Mapping[str, Any] | None = None
    """A section of settings of Claude Code: commands that watch it."""
    skills: tuple[str, ...] | None = None
    """The skills that it may use; None for those that its parent may."""
    permission: Mode | None = None
    """What it may do without being asked, where that is less than what its parent may."""
    mcp: tuple[str, ...] = ()
    """The MCP servers whose tools it has, whatever its parent may use."""
    servers: tuple[McpServerConfig, ...] = ()
    """Those of them that the template itself describes."""
    path: Path
    hash: str
    """BLAKE3 of the file: 64 hex digits."""
    ignored: tuple[str, ...] = ()
    """Members of the front matter that mean nothing here: other programs may read them."""
    notes: tuple[str, ...] = ()
    """What a person should know of it, a line each."""

    def expanded(self, known: Iterable[str]) -> Template:
        """Return it with the tools of this world in the place of `mcp__SERVER__*`.

        >>> cook = Template(name="a", instructions="", path=Path(), hash="", tools=("mcp__x__*",))
        >>> cook.expanded(["mcp__x__a", "mcp__y__a"]).tools
        ('mcp__x__a',)
        """
        if self.tools is None or not any("*" in name for name in self.tools):
            return self
        there = sorted(known)
        tools = (fnmatch.filter(there, name) if "*" in name else [name] for name in self.tools)
        return replace(self, tools=tuple(dict.fromkeys(chain.from_iterable(tools))))

    @property
    def origin(self) -> dict[str, str]:
        """What a birth records of the template that it comes from."""
        return {"name": self.name, "hash": self.hash}


class TemplateSource(Protocol):
    """Files of other programs that describe kinds of agents."""

    def files(self) -> Mapping[str, Path]:
        """Return those that there are now, by name."""
        ...

    def read(self, path: Path) -> Template:
        """Read one. Raises ConfigError, on one line, where it cannot be used."""
        ...


Reader: TypeAlias = Callable[[Path], Template]


@check_arguments
class Templates:
    """The templates in some folders; where two have one name, that of the first folder counts."""

    def __init__(self, folders: Sequence[Path] = (), more: Sequence[TemplateSource] = ()) -> None:
        """Look into these folders whenever something is asked; none of them has to be there.

        What has no template of its name in them is looked for in `more`.
        """
        self.folders, self.more = tuple(folders), tuple(more)

    def find(self, name: str) -> Template:
        """Return the template of this name, as it is now.

        Raises NameNotFound with the names that there are, ConfigError for one that cannot be used.
        """
        files = self._files()
        found = files.get(name) if NAME.fullmatch(name) else None
        if found is None:
            raise NameNotFound("template", name, sorted(files))
        path, read = found
        return read(path)

    def __iter__(self) -> Iterator[Template]:
        """Yield all that can be used, by name."""
        for _, (path, read) in sorted(self._files().items()):
            try:
                yield read(path)
            except ConfigError:
                continue  # whoever uses it is told what is wrong

    def listing(self) -> str:
        """Return a line for each template, its name and description; empty where there is none."""
        found = [template for template, _ in zip(self, range(MAX_LISTED), strict=False)]
        return "\n".join(f"- {one.name}: {one.description[:200]}".rstrip(": ") for one in found)

    def _files(self) -> dict[str, tuple[Path, Reader]]:
        """Return the files by name, with what reads them."""
        found: dict[str, tuple[Path, Reader]] = {
            name: (path, read_template) for name, path in files_in(self.folders).items()
        }
        for source in self.more:
            for name, path in source.files().items():
                found.setdefault(name, (path, source.read))
        return found


def read_template(path: Path) -> Template:
    """Read a template. Raises ConfigError, on one line, where it cannot be used."""
    with naming(path):
        page = read_page(path)
        known = _checked(page.front, path.stem)
        if not page.body.strip():
            raise Malformed("has no instructions: write them below the front matter")
    return Template(
        name=path.stem,
        instructions=page.body.strip(),
        path=path,
        hash=canonical.hash_bytes(TEMPLATE, page.data).hex(),
        ignored=tuple(sorted(page.front.keys() - _KEYS)),
        **known,
    )


def _checked(front: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the members that mean something, as fields of a template."""
    front_matter.check_called(front, name)
    front_matter.check_members(front, _KEYS)
    return {
        "description": front_matter.one_line(front, "description"),
        "tools": front_matter.names(front, "tools", "read, search"),
        "model": front_matter.text(front, "model").strip() or None,
        "hooks": front_matter.names(front, "hooks", "single-minded") or (),
        "skills": front_matter.names(front, "skills", "house-style"),
        "permission": _permission(front),
        **_servers(front.get("mcp"), f"{name}.md"),
    }


def _permission(front: Mapping[str, Any]) -> Mode | None:
    given = front.get("permission")
    mode: Mode | None = next((mode for mode in get_args(Mode) if mode == given), None)
    if given is not None and mode is None:
        raise Malformed(f"permission is one of {', '.join(get_args(Mode))}")
    return mode


_KEYS = {"name", "description", "tools", "model", "hooks", "skills", "permission", "mcp"}


def _servers(value: object, origin: str) -> dict[str, Any]:
    """Return MCP servers given by name, or described in a table."""
    if value is None:
        return {}
    try:
        names, servers = granted(value, origin)
    except ConfigError as error:
        raise Malformed(str(error)) from None
    return {"mcp": names, "servers": servers}
