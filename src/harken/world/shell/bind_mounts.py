"""`Mounts`: folders laid over each other, as arguments of bubblewrap.

One idea: what holds for a path is what holds for the nearest folder above it of which something is
said. So all is said in any order, and mounted from the top down.

A folder of the agent's own can be renamed, with all that is mounted in it; then another one could
be made in its place. So every folder between is *pinned*: mounted upon itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["closed", "own", "readable", "elsewhere"]
"""Nothing is there; the agent's; there to be read; what is there is another folder."""
_ORDER: dict[Kind, int] = {"readable": 0, "elsewhere": 1, "own": 2, "closed": 3}
_ALL: Kind = "readable"


@dataclass(slots=True)
class Mounts:
    """What a command sees of a machine: all of it, to be read, but for what is said here."""

    empty: str
    """A file with nothing in it."""
    _said: dict[str, tuple[Kind, list[str]]] = field(default_factory=dict)
    _fixed: set[str] = field(default_factory=set)
    _real_folders: dict[str, str] = field(default_factory=dict)
    watched: dict[str, str | None] = field(default_factory=dict)
    """Places that nothing can be mounted over: what is there before, None for nothing."""

    def own(self, path: str, source: str | None = None) -> None:
        """Let a folder be written, or another one in its place."""
        kind: Kind = "own" if source is None else "elsewhere"
        self._say(path, kind, ["--bind", source or path, path])

    def elsewhere(self, path: str) -> None:
        """Take note that what is at a path has nothing to do with what is there outside."""
        self._say(path, "elsewhere", [])

    def readable(self, path: str) -> None:
        """Let be read what is in a closed folder, or in one of the agent's own."""
        if os.path.exists(path):  # noqa: PTH110 - its folder may be closed to this user
            self._say(path, "readable", ["--ro-bind", path, path])

    def reachable(self, socket: str) -> None:
        """Let a socket be connected to."""
        if os.path.exists(socket):  # noqa: PTH110 - as above
            self._say(socket, "readable", ["--bind", socket, socket])

    def close(self, path: str) -> None:
        """Keep out of sight what is at a path, where links lead."""
        path = self._in_real_folder(path)
        path = path if _link(path) is None else os.path.realpath(path)
        if path == "/":
            return  # nothing would be left
        if os.path.isdir(path):  # noqa: PTH112 - hundreds of them for each command
            self._say(path, "closed", ["--perms", "0555", "--tmpfs", path])
        else:  # also what is not there yet
            self._say(path, "closed", ["--ro-bind", self.empty, path])

    def shut(self, socket: str) -> None:
        """Let a socket not be connected to, where it is not the agent's own."""
        if self._above(socket)[0] == "readable" and socket not in self._said:
            self._said[socket] = "closed", ["--ro-bind", self.empty, socket]

    def fix(self, path: str) -> None:
        """Let what is at a path of the agent's own be read only."""
        path = self._in_real_folder(path)
        self._fixed.add(path)
        if _link(path) is not None:
            self._fixed.add(os.path.realpath(path))

    def _in_real_folder(self, path: str) -> str:
        """Return a path whose folder is real; there are hundreds of paths in a dozen of folders."""
        if path != os.path.normpath(path):
            path = os.path.realpath(path)
        folder, _, name = path.rpartition("/")
        if folder not in self._real_folders:
            self._real_folders[folder] = os.path.realpath(folder or "/").rstrip("/")
        return f"{self._real_folders[folder]}/{name}"

    def _say(self, path: str, kind: Kind, arguments: list[str]) -> None:
        before = self._said.get(path)
        if before is None or _ORDER[before[0]] < _ORDER[kind]:
            self._said[path] = kind, arguments

    def arguments(self) -> list[str]:
        """Return all of it for bubblewrap; `watched` is known then."""
        chosen: dict[str, list[str]] = {}
        pinned: dict[str, list[str]] = {}
        for path, (kind, arguments) in self._said.items():
            above, held_by = self._above(path)
            if kind != "closed":
                chosen[path] = arguments
            elif above not in ("closed", "elsewhere"):
                if os.path.exists(path):  # noqa: PTH110 - as in `close`
                    chosen[path] = arguments
                    pinned |= _between(held_by, path) if above == "own" else {}
                elif above == "own":
                    self.watched[path] = None
        for path in self._fixed:
            above, held_by = self._above(path)
            if above != "own" or path in self._said:
                continue
            link = _link(path)
            if link is not None or not os.path.exists(path):  # noqa: PTH110 - as in `close`
                self.watched[path] = link
            else:
                chosen[path] = ["--ro-bind", path, path]
                pinned |= _between(held_by, path)
        ordered = sorted((pinned | chosen).items(), key=lambda one: one[0].count("/"))
        return [argument for _, arguments in ordered for argument in arguments]

    def _above(self, path: str) -> tuple[Kind, str]:
        """Return what holds for a path by the nearest folder above it, and that folder."""
        for folder in _upwards(path):
            if folder in self._said:
                return self._said[folder][0], folder
        return _ALL, "/"


def made(watched: Mapping[str, str | None]) -> Iterator[str]:
    """Yield what is there now in places where it was not."""
    for path, before in watched.items():
        if os.path.lexists(path) and (before is None or _link(path) != before):
            yield path


def _link(path: str) -> str | None:
    try:
        return os.readlink(path)  # noqa: PTH115 - as in `close`
    except OSError:
        return None


def _upwards(path: str) -> Iterator[str]:
    while path != "/":
        path = path.rpartition("/")[0] or "/"
        yield path


def _between(folder: str, path: str) -> dict[str, list[str]]:
    """Return the mounts that pin the folders below one folder and above a path."""
    found = (one for one in _upwards(path) if len(one) > len(folder))
    return {one: ["--bind", one, one] for one in found}
