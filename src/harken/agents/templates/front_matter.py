"""Front matter: members in YAML at the start of a Markdown file, between two `---` lines.

Agents and hooks are described in such files. They may come from anywhere, so reading them is
restricted: sizes are limited, links out of their folder are refused, and dangerous features of YAML
are rejected. The name of a file is the name of what it describes, so a name refers to a single
file.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from harken.errors import ConfigError

MAX_BYTES = 256 * 1024
MAX_FILES = 500
"""The maximum files per folder; further files are ignored."""
MAX_FRONT_BYTES = 16 * 1024
MAX_DEPTH = 8

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""The pattern of file names, without the suffix."""


class Malformed(Exception):
    """A file is invalid; the text says what to change."""


class MarkdownFile(msgspec.Struct, frozen=True):
    """A Markdown file as it was when it was read."""

    front: Mapping[str, Any]
    """The members, checked only for plain YAML; empty without front matter."""
    body: str
    """The text below the front matter."""
    data: bytes
    """The bytes of the file."""


@contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Convert errors of a file into a ConfigError with a single line that names the file."""
    try:
        yield
    except (OSError, RuntimeError) as error:  # RuntimeError: a cycle of links
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{path}: cannot be read ({reason})") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 (byte {error.start})") from None
    except Malformed as error:
        raise ConfigError(f"{path}: {error}") from None


def read_markdown_file(path: Path, *, lenient: bool = False) -> MarkdownFile:
    """Read a Markdown file, within `naming`. Raises Malformed, OSError, UnicodeDecodeError.

    lenient: parse front matter that is invalid YAML line by line. Other programs do so, and files
    for them have texts with colons.
    """
    data = _read_bytes(path)
    return MarkdownFile(*_split(data.decode("utf-8").removeprefix("\ufeff"), lenient=lenient), data)


def find_markdown_files(folders: Sequence[Path], pattern: str = "*.md") -> dict[str, Path]:
    """Return the Markdown files of some folders by name; the first folder takes precedence.

    Files with other names are ignored; folders need not exist.
    """
    paths_by_name: dict[str, Path] = {}
    for folder in folders:
        try:
            paths = sorted(islice(folder.glob(pattern), MAX_FILES))
        except OSError:
            continue
        for path in paths:
            if NAME.fullmatch(path.stem):
                paths_by_name.setdefault(path.stem, path)
    return paths_by_name


def text(front: Mapping[str, Any], key: str) -> str:
    """Return a text member, or an empty string if it is missing. Raises Malformed."""
    value = front.get(key)
    if value is not None and not isinstance(value, str):
        raise Malformed(f"{key} must be a string; put it in quotes")
    return _check_encodable(value or "", key)


def one_line(front: Mapping[str, Any], key: str) -> str:
    """Return a text member on a single line. Raises Malformed."""
    return " ".join(text(front, key).split())


def names(front: Mapping[str, Any], key: str, example: str) -> tuple[str, ...] | None:
    """Return names from a list, or from a text with commas. Raises Malformed."""
    value = front.get(key)
    if value is None:
        return None
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(name, str) for name in items):
        raise Malformed(f"{key} is a list of names: write `{key}: [{example}]`")
    return tuple(
        dict.fromkeys(_check_encodable(name.strip(), key) for name in items if name.strip())
    )


def check_name_member(front: Mapping[str, Any], name: str) -> None:
    """Raise Malformed if the member `name` differs from the file's name."""
    if front.get("name") not in (None, name):
        raise Malformed(f"is called {name!r} by its file: take `name` away, or rename the file")


def check_members(front: Mapping[str, Any], known_names: Collection[str]) -> None:
    """Raise Malformed for a member that is almost a known member.

    They differ only in an `s`, case or hyphens. `point: [action]` would be ignored as a member of
    another program, and a guard asked everywhere; with `tool: [read]` an agent would have all
    tools.
    """
    by_normalized_name = {_normalize(name): name for name in known_names}
    for name in front:
        known_name = by_normalized_name.get(_normalize(str(name)))
        if known_name is not None and name not in known_names:
            raise Malformed(f"has no member {name!r}: write {known_name!r}")


def _normalize(name: str) -> str:
    return re.sub("[-_ ]", "", name.casefold()).removesuffix("s")


def _read_bytes(path: Path) -> bytes:
    folder = path.parent.resolve()
    if not path.resolve().is_relative_to(folder):
        raise Malformed(f"is a link out of {folder}: copy the file")
    if not path.is_file():  # reading a pipe would block
        raise Malformed("is not a file")
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise Malformed(f"is longer than {MAX_BYTES // 1024} KB")
    return data


def _split(document: str, *, lenient: bool) -> tuple[Mapping[str, Any], str]:
    """Split a text into front matter and body."""
    first, *lines = [line.rstrip() for line in document.split("\n")]
    if first != "---":
        return {}, document
    if "---" not in lines:
        raise Malformed("its front matter has no end: write a line with --- below it")
    end = lines.index("---")
    body = "\n".join(document.split("\n")[end + 2 :])
    try:
        return _parse_yaml("\n".join(lines[:end])), body
    except _InvalidYaml:
        if not lenient:
            raise
        return _parse_lines(lines[:end]), body


class _InvalidYaml(Malformed):
    """Front matter that is invalid YAML."""


_MEMBER_PATTERN = re.compile(r"([A-Za-z][\w-]*):(?:[ \t]+(.*))?")


def _parse_lines(lines: Sequence[str]) -> Mapping[str, Any]:
    """Parse members line by line: a text, or a list in lines with a dash."""
    front: dict[str, Any] = {}
    last = ""
    for line in lines:
        member, item = _MEMBER_PATTERN.fullmatch(line), line.strip().removeprefix("- ")
        if member is not None:
            last = member[1]
            front[last] = (member[2] or "").strip().strip("\"'")
        elif last and line.lstrip().startswith("- ") and front[last] in ("", None):
            front[last] = [item.strip("\"'")]
        elif last and isinstance(front[last], list):
            front[last].append(item.strip("\"'"))
        elif last and line.strip():
            front[last] = f"{front[last]} {line.strip()}".strip()
    return front


@lru_cache(maxsize=256)  # folders are read again for each agent
def _parse_yaml(yaml_text: str) -> Mapping[str, Any]:
    import yaml  # noqa: PLC0415 - slow to import, and only such files need it

    if len(yaml_text) > MAX_FRONT_BYTES:
        raise Malformed(f"its front matter is longer than {MAX_FRONT_BYTES // 1024} KB")
    try:
        _check_yaml_features(yaml.parse(yaml_text, yaml.SafeLoader))
        front = yaml.safe_load(yaml_text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 2 if error.problem_mark else 2
        raise _InvalidYaml(
            f"line {line}: the front matter is not valid YAML: {error.problem}"
        ) from None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise _InvalidYaml("its front matter is not valid YAML") from None
    if front is None:
        return {}
    if not isinstance(front, dict) or not all(isinstance(key, str) for key in front):
        raise Malformed("its front matter is a list of members such as `description: ...`")
    return front


def _check_yaml_features(events: Iterator[Any]) -> None:
    """Reject all tags, and features that make small YAML expensive to read.

    Tags are not needed here, and PyYAML raises arbitrary errors for some of them.
    """
    depth = 0
    for event in events:
        kind = type(event).__name__
        depth += kind.endswith(("MappingStartEvent", "SequenceStartEvent"))
        depth -= kind.endswith(("MappingEndEvent", "SequenceEndEvent"))
        if kind == "AliasEvent":
            raise Malformed("its front matter may not use `*` aliases")
        if getattr(event, "tag", None) is not None:
            raise Malformed("its front matter may not use `!` tags")
        if depth > MAX_DEPTH:
            raise Malformed(f"its front matter is nested more than {MAX_DEPTH} deep")


def _check_encodable(value: str, key: str) -> str:
    """Return a text that can be encoded; an escape in YAML may be a lone surrogate."""
    if any("\ud800" <= letter <= "\udfff" for letter in value):
        raise Malformed(f"{key} contains a lone surrogate, which is not valid text")
    return value
