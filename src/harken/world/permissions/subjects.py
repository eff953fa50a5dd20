"""Subjects: what a call is about, and how the pattern of a rule is compared with it.

A rule that allows must fit for certain, a rule that denies or asks need not: each way round, what
is in doubt is asked or denied, and never done in silence.

`UrlSubject`: a page, and how the pattern of a rule is compared with where it is.

`https://docs.python.org/*` is about URLs; what has no `://` is about hosts: `*.python.org`.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias
from urllib.parse import unquote, urlsplit

from harken.core import canonical
from harken.world.files.root import decode_shown_name
from harken.world.permissions.bash.analysis import Analysis
from harken.world.permissions.bash.plain_commands import plain_parts
from harken.world.permissions.bash.program_check import Doubt
from harken.world.permissions.bash.wrappers import RUNNERS
from harken.world.permissions.pattern import (
    compiled,
    escaped,
    folded,
    matches_path,
    may_go_on,
)
from harken.world.sensitive_paths import (
    paths_below,
    real_paths,
    reason_by_content,
    reason_of,
)
from harken.world.tool import Tool

_PORTS = {"http": 80, "https": 443}


class UrlSubject:
    """A URL in its one form: small host, no port where it is the usual one, no fragment."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._host, self._url = "", ""
        try:
            parts = urlsplit(text.strip())
            host, port = (parts.hostname or "").rstrip("."), parts.port
            host = host if host.isascii() else host.encode("idna").decode().lower()
        except (ValueError, UnicodeError):
            return
        if parts.scheme in _PORTS and host and "@" not in parts.netloc and text.isprintable():
            shown = f"[{host}]" if ":" in host else host
            at = shown if port in (None, _PORTS[parts.scheme]) else f"{shown}:{port}"
            query = f"?{parts.query}" if parts.query else ""
            url = f"{parts.scheme}://{at}{parts.path or '/'}{query}"
            self._host, self._url = host, "" if _leads_up(parts.path) else url

    def is_within(self, patterns: Sequence[str]) -> bool:
        """Whether it fits one of these patterns; what is no plain URL fits none."""
        return bool(self._url) and any(
            compiled(pattern).matches(self._url if "://" in pattern else self._host)
            for pattern in patterns
        )

    def is_held(self, pattern: str) -> Literal["yes", "no", "unknown"]:
        """Whether it fits, whichever scheme, upper or lower case, and however it is escaped.

        A host is meant with all of its pages.
        """
        wanted = folded(pattern)
        if self._host and "://" not in wanted:
            return "yes" if compiled(wanted).matches(folded(self._host)) else "no"
        if not self._url:
            return "unknown"
        written, rest = self._url.partition("://")[2], wanted.partition("://")[2]
        mine = {folded(written), folded(re.sub("//+", "/", unquote(written)))}
        patterns = (rest, f"{rest}/", f"{rest}/*")
        fits = any(compiled(pattern).matches(one) for pattern in patterns for one in mine)
        return "yes" if fits else "no"

    def offers(self) -> list[str]:
        """Offer this page, then all of its host."""
        if not self._url or len(self._url) > 300:
            return []
        scheme, _, rest = self._url.partition("://")
        return [escaped(self._url), f"{scheme}://{escaped(rest.partition('/')[0])}/*"]


def _leads_up(path: str) -> bool:
    """Whether a path has a name in it that stands for another one: `..`, also escaped."""
    return not {".", ".."}.isdisjoint(re.split(r"[/\\;]", unquote(path)))


Held: TypeAlias = Literal["yes", "no", "unknown"]
"""Whether a pattern holds for a call."""

_LONGEST_OFFER = 300


class Subject(Protocol):
    """One thing that a call is about."""

    text: str

    def is_within(self, patterns: Sequence[str]) -> bool:
        """Whether all of it surely fits one of these patterns."""
        ...

    def is_held(self, pattern: str) -> Held:
        """Whether any of it fits a pattern, be it in disguise."""
        ...

    def offers(self) -> list[str]:
        """Return patterns that it fits, the narrowest first."""
        ...


def subjects_of(tool: Tool, arguments: Mapping[str, Any], folder: Path | None) -> list[Subject]:
    """Return what a call is about; nothing where its tool does not say."""
    value = None if tool.subject is None else arguments.get(tool.subject)
    if value is None:
        return []
    values = value if isinstance(value, list | tuple | set | frozenset) else [value]
    return [_subject(tool, one, folder) for one in values]


def _subject(tool: Tool, value: Any, folder: Path | None) -> Subject:
    is_text = isinstance(value, str | os.PathLike)
    text = os.fspath(value) if is_text else canonical.to_json_line(value).decode()
    match tool.subject_kind:
        case "path":
            return PathSubject(text, folder)
        case "command":
            return CommandSubject(text, folder)
        case "url":
            return UrlSubject(text)
        case "text":
            return TextSubject(text)


class TextSubject:
    """A text that is matched as it is."""

    def __init__(self, text: str) -> None:
        self.text = text

    def is_within(self, patterns: Sequence[str]) -> bool:
        """Whether it fits one of these patterns."""
        return any(compiled(pattern).matches(self.text) for pattern in patterns)

    def is_held(self, pattern: str) -> Held:
        """Whether it fits, upper or lower case."""
        return "yes" if compiled(folded(pattern)).matches(folded(self.text)) else "no"

    def offers(self) -> list[str]:
        """Offer exactly this text."""
        return _short([escaped(self.text)])


class PathSubject:
    """A path, as it is written and as links lead it; relative to the world's folder below it.

    A relative pattern is about what lies below the folder; an absolute one about all there is.
    """

    def __init__(self, text: str, folder: Path | None) -> None:
        self.text = text
        base = self._base = None if folder is None else posixpath.abspath(folder)
        path = posixpath.join(base or "", text if base is None else decode_shown_name(base, text))
        self._forms = [_Form.of(posixpath.normpath(path), base)]
        self._is_clear = True
        if posixpath.isabs(path):
            try:
                real_base = None if base is None else posixpath.realpath(base)
                self._forms.append(_Form.of(posixpath.realpath(path), real_base))
            except (OSError, ValueError):  # a NUL, a circle of links
                self._is_clear = False

    @cached_property
    def _general(self) -> set[_Form]:
        return {form.in_general() for form in self._forms}

    @property
    def is_inside(self) -> bool:
        """Whether it surely lies below the world's folder."""
        return self._is_clear and all(form.relative is not None for form in self._forms)

    def sensitivity(self, places: Iterable[Path] = ()) -> str:
        """Return why a change of this path decides which programs run later, empty if it does not.

        places: sensitive files and folders beside the listed ones.
        """
        paths = [form.absolute for form in self._forms]
        for reason in (*map(reason_of, paths), *map(reason_by_content, paths)):
            if reason:
                return reason
        paths = [f"{folded(path)}/" for path in paths]
        below = () if self._base is None else paths_below(Path(self._base), ())
        for place in real_paths((*map(str, places), *below)):
            prefix = f"{folded(place)}/"
            # A place with a listed name was judged above, where checkouts in it are excepted.
            if any(path.startswith(prefix) for path in paths) and not reason_of(place):
                return "a file or folder that decides which programs run"
        return ""

    def is_within(self, patterns: Sequence[str]) -> bool:
        """Whether it fits one of these patterns, as it is written and as links lead it."""
        return self._is_clear and all(
            any(form.fits(pattern) for pattern in patterns) for form in self._forms
        )

    def is_held(self, pattern: str) -> Held:
        """Whether it fits either way, upper or lower case, however letters are composed."""
        pattern = _folded(pattern)
        if any(form.may_be_meant_by(pattern) for form in self._general):
            return "yes"
        return "no" if self._is_clear else "unknown"

    def offers(self) -> list[str]:
        """Offer this file, then its folder and all below."""
        inside = self._forms[-1].relative
        path = self._forms[-1].absolute if inside is None else inside
        parent = escaped(posixpath.dirname(path)).removesuffix("/")
        return _short([escaped(path), "**" if not parent and inside else f"{parent}/**"])


@dataclass(frozen=True, slots=True)
class _Form:
    """A path without `..`, absolute and, where it lies below the folder, relative."""

    absolute: str
    relative: str | None

    @classmethod
    def of(cls, path: str, folder: str | None) -> _Form:
        """Return the form of a path; without a folder, what is relative stays so."""
        if folder is None:
            is_below = not path.startswith(("/", ".."))
            return cls(path, path if is_below else None)
        absolute = f"/{path.lstrip('/')}"
        is_below = posixpath.commonpath([folder, absolute]) == folder
        return cls(absolute, posixpath.relpath(absolute, folder) if is_below else None)

    def fits(self, pattern: str) -> bool:
        """Whether a pattern stands for it."""
        path = self.absolute if pattern.startswith("/") else self.relative
        return path is not None and matches_path(pattern.removeprefix("./"), path)

    def may_be_meant_by(self, pattern: str) -> bool:
        """Whether a pattern may be meant for it, both folded; `**` first: in all folders there are.

        A folder is meant with all that is in it.
        """
        below = pattern if pattern.endswith("*") else f"{pattern.removesuffix('/')}/**"
        everywhere = below.startswith("**") and matches_path(f"/{below}", self.absolute)
        loosely = "**" in pattern and compiled(pattern).matches(self.relative or self.absolute)
        return everywhere or loosely or self.fits(below)

    def in_general(self) -> _Form:
        """Return the same in letters that do not tell `Ä` from `ä`."""
        return _Form(folded(self.absolute), self.relative and folded(self.relative))


@lru_cache(maxsize=1024)
def _folded(pattern: str) -> str:
    """Return what `folded` does; the pattern of a rule is compared with many paths."""
    return folded(pattern)


class CommandSubject:
    """A shell command. Programs that it names by a path are looked up in `folder`."""

    def __init__(self, text: str, folder: Path | None = None) -> None:
        self.text = text
        self._folder = folder

    @property
    def doubts(self) -> set[Doubt]:
        """The reasons why it may run more than can be told from its text."""
        return self._analysis.doubts

    @cached_property
    def _parts(self) -> list[str] | None:
        return plain_parts(self.text)

    @cached_property
    def _analysis(self) -> Analysis:
        return Analysis(self.text, partial(linked_names, self._folder))

    def is_within(self, patterns: Sequence[str]) -> bool:
        """Whether each of its commands fits one of these patterns, or all of it is literally one.

        Nothing fits that is more than plain commands.
        """
        if self._parts is None:
            return False
        whole = escaped(self.text.strip())
        return whole in patterns or all(
            any(_fits(pattern, part) for pattern in patterns) for part in self._parts
        )

    def is_held(self, pattern: str) -> Held:
        """Whether it runs a command that fits, also with further arguments and in disguise.

        "unknown" if it may: if it is not understood completely, whatever the pattern is.
        """
        analysis, pattern = self._analysis, folded(pattern)
        if _any_fits(pattern, analysis.commands):
            return "yes"
        may_fit = _any_fits(pattern, analysis.possible) or any(
            may_go_on(one, prefix)
            for prefix in analysis.prefixes
            for one in (pattern, f"{pattern} *")
        )
        is_doubtful = bool(analysis.doubts) or analysis.may_mention(pattern)
        return "unknown" if may_fit or is_doubtful else "no"

    def offers(self) -> list[str]:
        """Offer each command, then (of programs that run no others) any with the same beginning."""
        if self._parts is None:
            return []
        offers = [escaped(self.text.strip()) if len(self._parts) > 1 else ""]
        for part in self._parts:
            offers += [escaped(part), *_beginnings(part)]
        return _short(dict.fromkeys(filter(None, offers)))


def linked_names(folder: Path | None, program: str) -> list[str]:
    """Return the names of the program that a symbolic link leads to, by path or on `PATH`."""
    if "\0" in program or not program:
        return []
    path: str | None = posixpath.expanduser(program)
    if "/" not in program:
        path = shutil.which(program)
    elif folder is not None:
        path = posixpath.join(folder, path or "")
    try:
        target = "" if path is None else posixpath.realpath(path)
    except (OSError, ValueError):
        return []
    name = posixpath.basename(target)
    return [name] if name and name != posixpath.basename(program) else []


def _fits(pattern: str, command: str) -> bool:
    """Whether a pattern stands for a command; one that ends with ` *` also without arguments."""
    pattern = " ".join(pattern.split())
    if compiled(pattern).matches(command):
        return True
    return pattern.endswith(" *") and compiled(pattern[:-2]).matches(command)


def _any_fits(pattern: str, commands: Iterable[str]) -> bool:
    return any(_fits(pattern, one) or _fits(f"{pattern} *", one) for one in commands)


_NAMES_WITH_SUBCOMMANDS = """
apt apt-get brew bundle cargo conda dotnet gh git go gradle helm just mvn npm pip pnpm rails rustup
systemctl terraform yarn
"""
_WITH_SUBCOMMANDS = frozenset(_NAMES_WITH_SUBCOMMANDS.split())
_DESTRUCTIVE_NAMES = "chgrp chmod chown dd kill killall mv pkill rm rmdir shred truncate"
_DESTRUCTIVE = frozenset(_DESTRUCTIVE_NAMES.split())
_PLAIN = re.compile(r"[\w./+-]+")
_SUBCOMMAND = re.compile(r"[a-z][a-z0-9_-]*")


def _beginnings(command: str) -> list[str]:
    """Return the pattern for a program, or one of its subcommands, with any arguments."""
    first, _, rest = command.partition(" ")
    name = posixpath.basename(first).rstrip("0123456789.")
    if not _PLAIN.fullmatch(first) or name in RUNNERS | _DESTRUCTIVE or not rest:
        return []
    if name not in _WITH_SUBCOMMANDS:
        return [f"{first} *"]
    second = rest.partition(" ")[0]
    return [f"{first} {second} *"] if _SUBCOMMAND.fullmatch(second) else []


def _short(offers: Iterable[str]) -> list[str]:
    """Return those that a person can read in a line."""
    return [one for one in offers if len(one) <= _LONGEST_OFFER and one.isprintable()]
