"""Subjects of tool calls, and how the pattern of a rule is matched against them.

A rule that allows must match for certain; a rule that denies or asks matches also in doubt. Either
way, a doubtful call is asked or denied, and never allowed silently.

`UrlSubject` is a page, matched by URL or by host: `https://docs.python.org/*` is a pattern for
URLs, and a pattern without `://`, such as `*.python.org`, is one for hosts.

"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias
from urllib.parse import unquote, urlsplit

import msgspec

from harken.core import canonical
from harken.world.files.root import decode_shown_name
from harken.world.permissions.bash.analysis import Analysis
from harken.world.permissions.bash.findings import Doubt
from harken.world.permissions.bash.plain_commands import plain_parts
from harken.world.permissions.bash.wrappers import RUNNERS
from harken.world.permissions.pattern import (
    compile_pattern,
    escape_pattern,
    fold_text,
    matches_path,
    may_match_prefix,
)
from harken.world.sensitive_paths import (
    paths_below,
    real_paths,
    reason_by_content,
    reason_of,
)
from harken.world.tool import Tool

_DEFAULT_PORTS = {"http": 80, "https": 443}


class UrlSubject:
    """A normalized URL: lowercase host, no default port, no fragment."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._host, self._url = "", ""
        try:
            parts = urlsplit(text.strip())
            host, port = (parts.hostname or "").rstrip("."), parts.port
            host = host if host.isascii() else host.encode("idna").decode().lower()
        except (ValueError, UnicodeError):
            return
        if (
            parts.scheme in _DEFAULT_PORTS
            and host
            and "@" not in parts.netloc
            and text.isprintable()
        ):
            bracketed_host = f"[{host}]" if ":" in host else host
            host_port = (
                bracketed_host
                if port in (None, _DEFAULT_PORTS[parts.scheme])
                else f"{bracketed_host}:{port}"
            )
            query = f"?{parts.query}" if parts.query else ""
            url = f"{parts.scheme}://{host_port}{parts.path or '/'}{query}"
            self._host, self._url = host, "" if _has_dot_component(parts.path) else url

    def is_within(self, patterns: Sequence[str]) -> bool:
        """Whether it matches one of these patterns. A text that is not a plain URL matches none."""
        return bool(self._url) and any(
            compile_pattern(pattern).matches(self._url if "://" in pattern else self._host)
            for pattern in patterns
        )

    def match_pattern(self, pattern: str) -> Literal["yes", "no", "unknown"]:
        """Whether it matches, ignoring the scheme, case and percent-encoding.

        A pattern for a host matches all of its pages.
        """
        folded_pattern = fold_text(pattern)
        if self._host and "://" not in folded_pattern:
            return "yes" if compile_pattern(folded_pattern).matches(fold_text(self._host)) else "no"
        if not self._url:
            return "unknown"
        url_rest, pattern_rest = self._url.partition("://")[2], folded_pattern.partition("://")[2]
        forms = {fold_text(url_rest), fold_text(re.sub("//+", "/", unquote(url_rest)))}
        patterns = (pattern_rest, f"{pattern_rest}/", f"{pattern_rest}/*")
        is_match = any(
            compile_pattern(pattern).matches(form) for pattern in patterns for form in forms
        )
        return "yes" if is_match else "no"

    def suggest_patterns(self) -> list[str]:
        """Return patterns for this page, then for its host."""
        if not self._url or len(self._url) > 300:
            return []
        scheme, _, url_rest = self._url.partition("://")
        return [
            escape_pattern(self._url),
            f"{scheme}://{escape_pattern(url_rest.partition('/')[0])}/*",
        ]


def _has_dot_component(path: str) -> bool:
    """Whether a path has a component `.` or `..`, also escaped."""
    return not {".", ".."}.isdisjoint(re.split(r"[/\\;]", unquote(path)))


RuleMatch: TypeAlias = Literal["yes", "no", "unknown"]
"""Whether a pattern matches a call."""

_MAX_OFFER_CHARS = 300


class Subject(Protocol):
    """One subject of a call: a text, path, command or URL."""

    text: str

    def is_within(self, patterns: Sequence[str]) -> bool:
        """Whether all of it certainly matches one of these patterns."""
        ...

    def match_pattern(self, pattern: str) -> RuleMatch:
        """Whether any part of it matches a pattern, also in another spelling."""
        ...

    def suggest_patterns(self) -> list[str]:
        """Return patterns that it matches, the narrowest first."""
        ...


def subjects_of(tool: Tool, arguments: Mapping[str, Any], folder: Path | None) -> list[Subject]:
    """Return the subjects of a call; empty if its tool names none."""
    value = None if tool.subject is None else arguments.get(tool.subject)
    if value is None:
        return []
    values = value if isinstance(value, list | tuple | set | frozenset) else [value]
    return [_build_subject(tool, item, folder) for item in values]


def _build_subject(tool: Tool, value: Any, folder: Path | None) -> Subject:
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
    """A text that is matched literally."""

    def __init__(self, text: str) -> None:
        self.text = text

    def is_within(self, patterns: Sequence[str]) -> bool:
        """Whether it matches one of these patterns."""
        return any(compile_pattern(pattern).matches(self.text) for pattern in patterns)

    def match_pattern(self, pattern: str) -> RuleMatch:
        """Whether it matches, ignoring case."""
        return "yes" if compile_pattern(fold_text(pattern)).matches(fold_text(self.text)) else "no"

    def suggest_patterns(self) -> list[str]:
        """Return the pattern for exactly this text."""
        return _drop_long([escape_pattern(self.text)])


class PathSubject:
    """A path, as written and with links resolved; relative if it is below the world's folder.

    A relative pattern matches paths below the folder; an absolute one matches any path.
    """

    def __init__(self, text: str, folder: Path | None) -> None:
        self.text = text
        base = self._base = None if folder is None else posixpath.abspath(folder)
        path = posixpath.join(base or "", text if base is None else decode_shown_name(base, text))
        self._forms = [_PathForm.of(posixpath.normpath(path), base)]
        self._is_clear = True
        if posixpath.isabs(path):
            try:
                real_base = None if base is None else posixpath.realpath(base)
                self._forms.append(_PathForm.of(posixpath.realpath(path), real_base))
            except (OSError, ValueError):  # The path contains a NUL or a cycle of links.
                self._is_clear = False

    @cached_property
    def _case_folded_forms(self) -> set[_PathForm]:
        return {form.in_general() for form in self._forms}

    @property
    def is_inside(self) -> bool:
        """Whether it certainly lies below the world's folder."""
        return self._is_clear and all(form.relative is not None for form in self._forms)

    def sensitivity(self, places: Iterable[Path] = ()) -> str:
        """Return why a change of this path decides which programs run later, empty if it does not.

        places: sensitive files and folders besides the listed ones.
        """
        paths = [form.absolute for form in self._forms]
        for reason in (*map(reason_of, paths), *map(reason_by_content, paths)):
            if reason:
                return reason
        paths = [f"{fold_text(path)}/" for path in paths]
        listed_paths = () if self._base is None else paths_below(Path(self._base), ())
        for place in real_paths((*map(str, places), *listed_paths)):
            prefix = f"{fold_text(place)}/"
            # The loop above has checked places with a listed name, and excepts checkouts in them.
            if any(path.startswith(prefix) for path in paths) and not reason_of(place):
                return "a file or folder that controls which programs run"
        return ""

    def is_within(self, patterns: Sequence[str]) -> bool:
        """Whether it matches one of these patterns, both as written and with links resolved."""
        return self._is_clear and all(
            any(form.fits(pattern) for pattern in patterns) for form in self._forms
        )

    def match_pattern(self, pattern: str) -> RuleMatch:
        """Whether it matches either way, ignoring case and Unicode composition."""
        pattern = _fold_cached(pattern)
        if any(form.may_be_meant_by(pattern) for form in self._case_folded_forms):
            return "yes"
        return "no" if self._is_clear else "unknown"

    def suggest_patterns(self) -> list[str]:
        """Return patterns for this file, then for its folder and all below."""
        relative_path = self._forms[-1].relative
        path = self._forms[-1].absolute if relative_path is None else relative_path
        parent = escape_pattern(posixpath.dirname(path)).removesuffix("/")
        return _drop_long(
            [escape_pattern(path), "**" if not parent and relative_path else f"{parent}/**"]
        )


class _PathForm(msgspec.Struct, frozen=True):
    """A path without `..`: absolute and, if it lies below the folder, relative."""

    absolute: str
    relative: str | None

    @classmethod
    def of(cls, path: str, folder: str | None) -> _PathForm:
        """Return the form of a path; without a folder, a relative path stays relative."""
        if folder is None:
            is_below = not path.startswith(("/", ".."))
            return cls(path, path if is_below else None)
        absolute = f"/{path.lstrip('/')}"
        is_below = posixpath.commonpath([folder, absolute]) == folder
        return cls(absolute, posixpath.relpath(absolute, folder) if is_below else None)

    def fits(self, pattern: str) -> bool:
        """Whether a pattern matches it."""
        path = self.absolute if pattern.startswith("/") else self.relative
        return path is not None and matches_path(pattern.removeprefix("./"), path)

    def may_be_meant_by(self, pattern: str) -> bool:
        """Whether a pattern may match it, both folded; a leading `**` matches in all folders.

        A pattern for a folder matches everything in it.
        """
        deep_pattern = pattern if pattern.endswith("*") else f"{pattern.removesuffix('/')}/**"
        matches_anywhere = deep_pattern.startswith("**") and matches_path(
            f"/{deep_pattern}", self.absolute
        )
        matches_as_text = "**" in pattern and compile_pattern(pattern).matches(
            self.relative or self.absolute
        )
        return matches_anywhere or matches_as_text or self.fits(deep_pattern)

    def in_general(self) -> _PathForm:
        """Return the same form with folded letters, so that `Ä` equals `ä`."""
        return _PathForm(fold_text(self.absolute), self.relative and fold_text(self.relative))


@lru_cache(maxsize=1024)
def _fold_cached(pattern: str) -> str:
    """Return the cached result of `folded`: the pattern of a rule is compared with many paths."""
    return fold_text(pattern)


class CommandSubject:
    """A shell command. Relative paths of programs are resolved in `folder`."""

    def __init__(self, text: str, folder: Path | None = None) -> None:
        self.text = text
        self._folder = folder

    @property
    def doubts(self) -> set[Doubt]:
        """The reasons why it may run more than its text shows."""
        return self._analysis.doubts

    @cached_property
    def _parts(self) -> list[str] | None:
        return plain_parts(self.text)

    @cached_property
    def _analysis(self) -> Analysis:
        return Analysis(self.text, partial(linked_names, self._folder))

    def is_within(self, patterns: Sequence[str]) -> bool:
        """Whether each of its commands, or the full text, matches one of these patterns.

        A text that is not a list of plain commands matches nothing.
        """
        if self._parts is None:
            return False
        full_pattern = escape_pattern(self.text.strip())
        return full_pattern in patterns or all(
            any(_matches_command(pattern, part) for pattern in patterns) for part in self._parts
        )

    def match_pattern(self, pattern: str) -> RuleMatch:
        """Whether it runs a command that matches, also with more arguments or in another form.

        Returns "unknown" if it may, or if the text is not completely understood.
        """
        analysis, pattern = self._analysis, fold_text(pattern)
        if _matches_any(pattern, analysis.commands):
            return "yes"
        may_fit = _matches_any(pattern, analysis.possible) or any(
            may_match_prefix(candidate, prefix)
            for prefix in analysis.prefixes
            for candidate in (pattern, f"{pattern} *")
        )
        is_doubtful = bool(analysis.doubts) or analysis.may_mention(pattern)
        return "unknown" if may_fit or is_doubtful else "no"

    def suggest_patterns(self) -> list[str]:
        """Return patterns for each command, then for its program with any arguments."""
        if self._parts is None:
            return []
        offers = [escape_pattern(self.text.strip()) if len(self._parts) > 1 else ""]
        for part in self._parts:
            offers += [escape_pattern(part), *_prefix_patterns(part)]
        return _drop_long(dict.fromkeys(filter(None, offers)))


def linked_names(folder: Path | None, program: str) -> list[str]:
    """Return the program name that a symbolic link resolves to, by path or on `PATH`."""
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


def _matches_command(pattern: str, command: str) -> bool:
    """Whether a pattern matches a command; a pattern that ends with ` *` also without arguments."""
    pattern = " ".join(pattern.split())
    if compile_pattern(pattern).matches(command):
        return True
    return pattern.endswith(" *") and compile_pattern(pattern[:-2]).matches(command)


def _matches_any(pattern: str, commands: Iterable[str]) -> bool:
    return any(
        _matches_command(pattern, command) or _matches_command(f"{pattern} *", command)
        for command in commands
    )


_NAMES_WITH_SUBCOMMANDS = """
apt apt-get brew bundle cargo conda dotnet gh git go gradle helm just mvn npm pip pnpm rails rustup
systemctl terraform yarn
"""
_WITH_SUBCOMMANDS = frozenset(_NAMES_WITH_SUBCOMMANDS.split())
_DESTRUCTIVE_NAMES = "chgrp chmod chown dd kill killall mv pkill rm rmdir shred truncate"
_DESTRUCTIVE = frozenset(_DESTRUCTIVE_NAMES.split())
_PROGRAM_PATTERN = re.compile(r"[\w./+-]+")
_SUBCOMMAND_PATTERN = re.compile(r"[a-z][a-z0-9_-]*")


def _prefix_patterns(command: str) -> list[str]:
    """Return the pattern for a program, or one of its subcommands, with any arguments."""
    first, _, arguments = command.partition(" ")
    name = posixpath.basename(first).rstrip("0123456789.")
    if not _PROGRAM_PATTERN.fullmatch(first) or name in RUNNERS | _DESTRUCTIVE or not arguments:
        return []
    if name not in _WITH_SUBCOMMANDS:
        return [f"{first} *"]
    second = arguments.partition(" ")[0]
    return [f"{first} {second} *"] if _SUBCOMMAND_PATTERN.fullmatch(second) else []


def _drop_long(patterns: Iterable[str]) -> list[str]:
    """Return the patterns that are short and printable."""
    return [
        pattern
        for pattern in patterns
        if len(pattern) <= _MAX_OFFER_CHARS and pattern.isprintable()
    ]
