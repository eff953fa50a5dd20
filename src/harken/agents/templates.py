"""Templates: kinds of agents, each described in a Markdown file.

    ---
    description: Looks for mistakes in a change.
    tools: [read, search]
    model: anthropic/claude-opus-5-5
    ---
    You are a careful reviewer. ...

A template is read when it is used and never kept, so an edit counts at once. Its name is that of
its file, so a name leads to one file and to nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harken.core import codec
from harken.errors import ConfigError, UnknownName
from harken.world.mcp.servers import Server, granted

MAX_BYTES = 256 * 1024
MAX_FRONT_BYTES = 16 * 1024
MAX_DEPTH = 8
MAX_LISTED = 50
"""Of how many templates a model is told."""
TEMPLATE = b"harken.template.v1\n"
"""The domain line of a template's hash, which covers all bytes of its file."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


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
    model: str | None = None
    """The full name of its model; None for its parent's."""
    mcp: tuple[str, ...] = ()
    """The MCP servers whose tools it has, whatever its parent may use."""
    servers: tuple[Server, ...] = ()
    """Those of them that the template itself describes."""
    path: Path
    hash: str
    """BLAKE3 of the file: 64 hex digits."""
    ignored: tuple[str, ...] = ()
    """Members of the front matter that mean nothing here: other programs may read them."""

    @property
    def origin(self) -> dict[str, str]:
        """What a birth records of the template that it comes from."""
        return {"name": self.name, "hash": self.hash}


class Templates:
    """The templates in some folders; where two have one name, that of the first folder counts."""

    def __init__(self, folders: Sequence[Path] = ()) -> None:
        """Look into these folders whenever something is asked; none of them has to be there."""
        self.folders = tuple(folders)

    def find(self, name: str) -> Template:
        """Return the template of this name, as it is now.

        Raises UnknownName with the names that there are, ConfigError for one that cannot be used.
        """
        path = self._files().get(name) if _NAME.fullmatch(name) else None
        if path is None:
            raise UnknownName("template", name, sorted(self._files()))
        return read_template(path)

    def __iter__(self) -> Iterator[Template]:
        """Yield all that can be used, by name."""
        for _, path in sorted(self._files().items()):
            try:
                yield read_template(path)
            except ConfigError:
                continue  # whoever uses it is told what is wrong

    def listing(self) -> str:
        """Return a line for each template, its name and description; empty where there is none."""
        found = [template for template, _ in zip(self, range(MAX_LISTED), strict=False)]
        return "\n".join(f"- {one.name}: {one.description[:200]}".rstrip(": ") for one in found)

    def _files(self) -> dict[str, Path]:
        """Return the files of templates by name; what is no plain name is no template."""
        found: dict[str, Path] = {}
        for folder in self.folders:
            try:
                paths = sorted(folder.glob("*.md"))
            except OSError:
                continue
            for path in paths:
                if _NAME.fullmatch(path.stem):
                    found.setdefault(path.stem, path)
        return found


def read_template(path: Path) -> Template:
    """Read a template. Raises ConfigError, on one line, where it cannot be used."""
    try:
        data = _bytes_of(path)
        front, instructions = _parts(data.decode("utf-8").removeprefix("\ufeff"))
        known = _checked(front, path.stem)
        if not instructions.strip():
            raise _Malformed("has no instructions: write them below the front matter")
    except (OSError, RuntimeError) as error:  # RuntimeError: links that go round
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{path}: cannot be read ({reason})") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 (byte {error.start})") from None
    except _Malformed as error:
        raise ConfigError(f"{path}: {error}") from None
    return Template(
        name=path.stem,
        instructions=instructions.strip(),
        path=path,
        hash=codec.digest(TEMPLATE, data).hex(),
        ignored=tuple(sorted(front.keys() - _KEYS)),
        **known,
    )


class _Malformed(Exception):
    """A template that a person has to change; the text says what."""


def _bytes_of(path: Path) -> bytes:
    folder = path.parent.resolve()
    if not path.resolve().is_relative_to(folder):
        raise _Malformed(f"is a link out of {folder}: copy the file")
    if not path.is_file():  # a pipe would never end
        raise _Malformed("is no file")
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise _Malformed(f"is longer than {MAX_BYTES // 1024} KB")
    return data


def _parts(text: str) -> tuple[Mapping[str, Any], str]:
    """Return front matter and instructions; without front matter all is instructions."""
    first, *lines = [line.rstrip() for line in text.split("\n")]
    if first != "---":
        return {}, text
    if "---" not in lines:
        raise _Malformed("its front matter has no end: write a line with --- below it")
    end = lines.index("---")
    return _front("\n".join(lines[:end])), "\n".join(text.split("\n")[end + 2 :])


def _front(text: str) -> Mapping[str, Any]:
    import yaml  # noqa: PLC0415 - slow to import, and only templates need it

    if len(text) > MAX_FRONT_BYTES:
        raise _Malformed(f"its front matter is longer than {MAX_FRONT_BYTES // 1024} KB")
    try:
        _check_plain(yaml.parse(text, yaml.SafeLoader))
        front = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 2 if error.problem_mark else 2
        raise _Malformed(f"line {line}: the front matter is no YAML: {error.problem}") from None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise _Malformed("its front matter is no YAML") from None
    if front is None:
        return {}
    if not isinstance(front, dict) or not all(isinstance(key, str) for key in front):
        raise _Malformed("its front matter is a list of members such as `description: ...`")
    return front


def _check_plain(events: Iterator[Any]) -> None:
    """Refuse what is small to write and takes gigabytes, or minutes, to read, and all tags.

    A tag is needed for nothing here, and PyYAML fails at some with any error there is.
    """
    depth = 0
    for event in events:
        kind = type(event).__name__
        depth += kind.endswith(("MappingStartEvent", "SequenceStartEvent"))
        depth -= kind.endswith(("MappingEndEvent", "SequenceEndEvent"))
        if kind == "AliasEvent":
            raise _Malformed("its front matter may not use `*` aliases")
        if getattr(event, "tag", None) is not None:
            raise _Malformed("its front matter may not use `!` tags")
        if depth > MAX_DEPTH:
            raise _Malformed(f"its front matter is nested more than {MAX_DEPTH} deep")


def _checked(front: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the members that mean something, as fields of a template."""
    if "hooks" in front:
        raise _Malformed("hooks of templates are not supported: take `hooks` away")
    if front.get("name") not in (None, name):
        raise _Malformed(f"is called {name!r} by its file: take `name` away, or rename the file")
    return {
        "description": " ".join(_text(front, "description").split()),
        "tools": _tools(front.get("tools")),
        "model": _text(front, "model").strip() or None,
        **_servers(front.get("mcp"), f"{name}.md"),
    }


_KEYS = {"name", "description", "tools", "model", "mcp"}


def _text(front: Mapping[str, Any], key: str) -> str:
    value = front.get(key)
    if value is not None and not isinstance(value, str):
        raise _Malformed(f"{key} is a text: put it in quotes")
    return _whole(value or "", key)


def _whole(text: str, key: str) -> str:
    """Return a text that can be sent; an escape in YAML may be half a letter."""
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise _Malformed(f"{key} has a lone surrogate in it: that is no text")
    return text


def _tools(value: object) -> tuple[str, ...] | None:
    """Return names given as a list, or in one text with commas between."""
    if value is None:
        return None
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _Malformed("tools is a list of names: write `tools: [read, search]`")
    return tuple(dict.fromkeys(_whole(name.strip(), "tools") for name in names if name.strip()))


def _servers(value: object, origin: str) -> dict[str, Any]:
    """Return MCP servers given by name, or described in a table."""
    if value is None:
        return {}
    try:
        names, servers = granted(value, origin)
    except ConfigError as error:
        raise _Malformed(str(error)) from None
    return {"mcp": names, "servers": servers}
