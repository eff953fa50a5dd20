"""Front matter: a Markdown file that begins with members in YAML, between two lines of `---`.

Agents and hooks are described in such files. They come from anywhere, so they are read as what a
stranger wrote: bounded, without links out of their folder, and without what makes YAML dangerous.
A file's name is that of what it describes, so a name leads to one file and to nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from harken.errors import ConfigError

MAX_BYTES = 256 * 1024
MAX_FILES = 500
"""Of a folder; more are not looked at."""
MAX_FRONT_BYTES = 16 * 1024
MAX_DEPTH = 8

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""What such a file may be called, without its suffix."""


class Malformed(Exception):
    """A file that a person has to change; the text says what."""


@dataclass(frozen=True, slots=True)
class MarkdownFile:
    """A file as it was when it was read."""

    front: Mapping[str, Any]
    """The members, unchecked but for being plain; empty where there is no front matter."""
    body: str
    """What stands below them."""
    data: bytes
    """All of it."""


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Turn what is wrong with a file into a ConfigError, on one line, that names it."""
    try:
        yield
    except (OSError, RuntimeError) as error:  # RuntimeError: links that go round
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{path}: cannot be read ({reason})") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 (byte {error.start})") from None
    except Malformed as error:
        raise ConfigError(f"{path}: {error}") from None


def read_page(path: Path, *, lenient: bool = False) -> MarkdownFile:
    """Read such a file, within `naming`. Raises Malformed, and what reading and decoding raise.

    lenient: front matter that is no YAML is taken line by line. Other programs do so, and what is
    written for them has texts with colons in it.
    """
    data = _bytes_of(path)
    return MarkdownFile(*_parts(data.decode("utf-8").removeprefix("\ufeff"), lenient=lenient), data)


def files_in(folders: Sequence[Path], pattern: str = "*.md") -> dict[str, Path]:
    """Return the Markdown files of some folders by name; of one name, that of the first folder.

    What is no plain name is no such file; no folder has to be there.
    """
    found: dict[str, Path] = {}
    for folder in folders:
        try:
            paths = sorted(islice(folder.glob(pattern), MAX_FILES))
        except OSError:
            continue
        for path in paths:
            if NAME.fullmatch(path.stem):
                found.setdefault(path.stem, path)
    return found


def text(front: Mapping[str, Any], key: str) -> str:
    """Return a member that is a text; empty where it is not there. Raises Malformed."""
    value = front.get(key)
    if value is not None and not isinstance(value, str):
        raise Malformed(f"{key} is a text: put it in quotes")
    return _whole(value or "", key)


def one_line(front: Mapping[str, Any], key: str) -> str:
    """Return a member that is a text, on one line. Raises Malformed."""
    return " ".join(text(front, key).split())


def names(front: Mapping[str, Any], key: str, example: str) -> tuple[str, ...] | None:
    """Return names given as a list, or in one text with commas between. Raises Malformed."""
    value = front.get(key)
    if value is None:
        return None
    given = value.split(",") if isinstance(value, str) else value
    if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
        raise Malformed(f"{key} is a list of names: write `{key}: [{example}]`")
    return tuple(dict.fromkeys(_whole(name.strip(), key) for name in given if name.strip()))


def check_called(front: Mapping[str, Any], name: str) -> None:
    """Raise Malformed where a file says that it is called something else than it is."""
    if front.get("name") not in (None, name):
        raise Malformed(f"is called {name!r} by its file: take `name` away, or rename the file")


def check_members(front: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise Malformed where a member is one that is known but for an `s`, capitals or a hyphen.

    `point: [action]` would be passed over as a member of another program, and a guard be asked
    everywhere; with `tool: [read]` an agent would have all tools.
    """
    plain = {_plain(name): name for name in known}
    for name in front:
        meant = plain.get(_plain(str(name)))
        if meant is not None and name not in known:
            raise Malformed(f"has no member {name!r}: write {meant!r}")


def _plain(name: str) -> str:
    return re.sub("[-_ ]", "", name.casefold()).removesuffix("s")


def _bytes_of(path: Path) -> bytes:
    folder = path.parent.resolve()
    if not path.resolve().is_relative_to(folder):
        raise Malformed(f"is a link out of {folder}: copy the file")
    if not path.is_file():  # a pipe would never end
        raise Malformed("is no file")
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise Malformed(f"is longer than {MAX_BYTES // 1024} KB")
    return data


def _parts(whole: str, *, lenient: bool) -> tuple[Mapping[str, Any], str]:
    """Return front matter and what is below it; without front matter that is all."""
    first, *lines = [line.rstrip() for line in whole.split("\n")]
    if first != "---":
        return {}, whole
    if "---" not in lines:
        raise Malformed("its front matter has no end: write a line with --- below it")
    end = lines.index("---")
    body = "\n".join(whole.split("\n")[end + 2 :])
    try:
        return _front("\n".join(lines[:end])), body
    except _NoYaml:
        if not lenient:
            raise
        return _by_lines(lines[:end]), body


class _NoYaml(Malformed):
    """Front matter that no YAML reader takes."""


_MEMBER = re.compile(r"([A-Za-z][\w-]*):(?:[ \t]+(.*))?")


def _by_lines(lines: Sequence[str]) -> Mapping[str, Any]:
    """Return members that are each a text on a line, or a list of lines with a dash below it."""
    front: dict[str, Any] = {}
    last = ""
    for line in lines:
        member, item = _MEMBER.fullmatch(line), line.strip().removeprefix("- ")
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


@lru_cache(maxsize=256)  # a folder of many is read for each agent that is told of them
def _front(written: str) -> Mapping[str, Any]:
    import yaml  # noqa: PLC0415 - slow to import, and only such files need it

    if len(written) > MAX_FRONT_BYTES:
        raise Malformed(f"its front matter is longer than {MAX_FRONT_BYTES // 1024} KB")
    try:
        _check_plain(yaml.parse(written, yaml.SafeLoader))
        front = yaml.safe_load(written)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 2 if error.problem_mark else 2
        raise _NoYaml(f"line {line}: the front matter is no YAML: {error.problem}") from None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise _NoYaml("its front matter is no YAML") from None
    if front is None:
        return {}
    if not isinstance(front, dict) or not all(isinstance(key, str) for key in front):
        raise Malformed("its front matter is a list of members such as `description: ...`")
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
            raise Malformed("its front matter may not use `*` aliases")
        if getattr(event, "tag", None) is not None:
            raise Malformed("its front matter may not use `!` tags")
        if depth > MAX_DEPTH:
            raise Malformed(f"its front matter is nested more than {MAX_DEPTH} deep")


def _whole(given: str, key: str) -> str:
    """Return a text that can be sent; an escape in YAML may be half a letter."""
    if any("\ud800" <= letter <= "\udfff" for letter in given):
        raise Malformed(f"{key} has a lone surrogate in it: that is no text")
    return given
