"""`Mounts`: folders mounted over each other, as arguments of bubblewrap.

The nearest folder with a rule decides what holds for a path. So rules can be given in any order,
and are mounted from the top down.

A folder that the agent owns can be renamed, with everything mounted in it, and replaced. So every
folder in between is *pinned*: mounted upon itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

import msgspec

Kind: TypeAlias = Literal["closed", "own", "readable", "elsewhere"]
"""No content; writable by the agent; readable; mounted from another folder."""
_PRECEDENCE: dict[Kind, int] = {"readable": 0, "elsewhere": 1, "own": 2, "closed": 3}
_DEFAULT_KIND: Kind = "readable"


class Mounts(msgspec.Struct):
    """The view of a command on the file system: everything readable, except for the rules."""

    empty: str
    """The path of an empty file."""
    _rules: dict[str, tuple[Kind, list[str]]] = msgspec.field(default_factory=dict)
    _read_only: set[str] = msgspec.field(default_factory=set)
    _real_folders: dict[str, str] = msgspec.field(default_factory=dict)
    watched: dict[str, str | None] = msgspec.field(default_factory=dict)
    """Paths that nothing can be mounted over -> the link that is there, or None."""

    def add_writable(self, path: str, source: str | None = None) -> None:
        """Make a folder writable, or mount another one in its place."""
        kind: Kind = "own" if source is None else "elsewhere"
        self._add_rule(path, kind, ["--bind", source or path, path])

    def add_foreign(self, path: str) -> None:
        """Record that a path does not show the content outside of the sandbox."""
        self._add_rule(path, "elsewhere", [])

    def add_readable(self, path: str) -> None:
        """Make a path readable in a closed or writable folder."""
        if os.path.exists(path):  # noqa: PTH110 - its folder may be closed to this user
            self._add_rule(path, "readable", ["--ro-bind", path, path])

    def add_socket(self, socket: str) -> None:
        """Allow connections to a socket."""
        if os.path.exists(socket):  # noqa: PTH110 - as above
            self._add_rule(socket, "readable", ["--bind", socket, socket])

    def close(self, path: str) -> None:
        """Hide the content of a path, and of the target of a link."""
        path = self._in_real_folder(path)
        path = path if _read_link(path) is None else os.path.realpath(path)
        if path == "/":
            return  # Closing the root would leave nothing.
        if os.path.isdir(path):  # noqa: PTH112 - hundreds of them for each command
            self._add_rule(path, "closed", ["--perms", "0555", "--tmpfs", path])
        else:  # This also covers a path that does not exist yet.
            self._add_rule(path, "closed", ["--ro-bind", self.empty, path])

    def close_socket(self, socket: str) -> None:
        """Prevent connections to a socket that the agent does not own."""
        if self._find_rule_above(socket)[0] == "readable" and socket not in self._rules:
            self._rules[socket] = "closed", ["--ro-bind", self.empty, socket]

    def add_read_only(self, path: str) -> None:
        """Make a path in a writable folder read-only."""
        path = self._in_real_folder(path)
        self._read_only.add(path)
        if _read_link(path) is not None:
            self._read_only.add(os.path.realpath(path))

    def _in_real_folder(self, path: str) -> str:
        """Return a path with a resolved folder, cached because many paths share a folder."""
        if path != os.path.normpath(path):
            path = os.path.realpath(path)
        folder, _, name = path.rpartition("/")
        if folder not in self._real_folders:
            self._real_folders[folder] = os.path.realpath(folder or "/").rstrip("/")
        return f"{self._real_folders[folder]}/{name}"

    def _add_rule(self, path: str, kind: Kind, arguments: list[str]) -> None:
        existing_rule = self._rules.get(path)
        if existing_rule is None or _PRECEDENCE[existing_rule[0]] < _PRECEDENCE[kind]:
            self._rules[path] = kind, arguments

    def arguments(self) -> list[str]:
        """Return the arguments for bubblewrap, and fill `watched`."""
        mounts: dict[str, list[str]] = {}
        pinned: dict[str, list[str]] = {}
        for path, (kind, arguments) in self._rules.items():
            kind_above, ruling_folder = self._find_rule_above(path)
            if kind != "closed":
                mounts[path] = arguments
            elif kind_above not in ("closed", "elsewhere"):
                if os.path.exists(path):  # noqa: PTH110 - as in `close`
                    mounts[path] = arguments
                    pinned |= _pin_between(ruling_folder, path) if kind_above == "own" else {}
                elif kind_above == "own":
                    self.watched[path] = None
        for path in self._read_only:
            kind_above, ruling_folder = self._find_rule_above(path)
            if kind_above != "own" or path in self._rules:
                continue
            link = _read_link(path)
            if link is not None or not os.path.exists(path):  # noqa: PTH110 - as in `close`
                self.watched[path] = link
            else:
                mounts[path] = ["--ro-bind", path, path]
                pinned |= _pin_between(ruling_folder, path)
        ordered = sorted((pinned | mounts).items(), key=lambda item: item[0].count("/"))
        return [argument for _, arguments in ordered for argument in arguments]

    def _find_rule_above(self, path: str) -> tuple[Kind, str]:
        """Return the kind of the nearest folder with a rule above a path, and that folder."""
        for folder in _iter_parents(path):
            if folder in self._rules:
                return self._rules[folder][0], folder
        return _DEFAULT_KIND, "/"


def iter_created_paths(watched: Mapping[str, str | None]) -> Iterator[str]:
    """Yield the watched paths that exist now and did not before."""
    for path, link_before in watched.items():
        if os.path.lexists(path) and (link_before is None or _read_link(path) != link_before):
            yield path


def _read_link(path: str) -> str | None:
    try:
        return os.readlink(path)  # noqa: PTH115 - as in `close`
    except OSError:
        return None


def _iter_parents(path: str) -> Iterator[str]:
    while path != "/":
        path = path.rpartition("/")[0] or "/"
        yield path


def _pin_between(folder: str, path: str) -> dict[str, list[str]]:
    """Return the mounts that pin the folders between a folder and a path."""
    folders = (parent for parent in _iter_parents(path) if len(parent) > len(folder))
    return {parent: ["--bind", parent, parent] for parent in folders}
