"""The names that clients have for the folders in which they work.

One idea: a client finds the sessions of a folder by a name that follows from the folder's path. Of
Gemini CLI alone it is one that was claimed, so that two folders do not share it.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

_LONGEST = 200
"""Claude Code shortens a longer name, and adds a hash."""
_NAME = re.compile(r"[a-z0-9-]+")
_MARK = ".project_root"


def claude_name(folder: str) -> str:
    """Return the name below `projects` that Claude Code has for a folder.

    >>> claude_name("/home/jill/a.b")
    '-home-jill-a-b'
    """
    units = folder.encode("utf-16-le", "surrogatepass")  # JavaScript counts in these
    codes = [int.from_bytes(units[at : at + 2], "little") for at in range(0, len(units), 2)]
    name = "".join(chr(c) if c < 128 and chr(c).isalnum() else "-" for c in codes)
    if len(name) <= _LONGEST:
        return name
    hash_ = 0
    for code in codes:
        hash_ = (hash_ * 31 + code + 2**31) % 2**32 - 2**31
    return f"{name[:_LONGEST]}-{_in_base_36(abs(hash_))}"


def _in_base_36(number: int) -> str:
    digits = ""
    while number or not digits:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits


def pi_name(folder: str) -> str:
    """Return the name below `sessions` that Pi has for a folder.

    >>> pi_name("/home/jill/a.b")
    '--home-jill-a.b--'
    """
    flat = re.sub(r"[/\\:]", "-", re.sub(r"^[/\\]", "", folder))
    return f"--{flat}--"


def gemini_name(home: Path, folder: str) -> str:
    """Return the name that Gemini CLI has for a folder; where it has none yet, claim one.

    Its list of names is read, never written: it finds the mark in the claimed folder by itself.
    """
    bases = [home / "tmp", home / "history"]
    known = _gemini_names(home / "projects.json")
    name = known.get(folder)
    if name is not None and all(_owner(base / name) in (None, folder) for base in bases):
        return name
    for base in bases:
        for marked in sorted(base.glob(f"*/{_MARK}")):
            if _NAME.fullmatch(marked.parent.name) and _owner(marked.parent) == folder:
                return marked.parent.name
    plain = re.sub("[^a-z0-9]+", "-", Path(folder).name.lower())
    stem, number = re.sub("^-|-$", "", plain) or "project", 0
    while True:
        name = f"{stem}-{number}" if number else stem
        number += 1
        if name in known.values() or any(_owner(base / name) is not None for base in bases):
            continue
        with suppress(FileExistsError):
            make(bases[0] / name / _MARK, os.fsencode(folder))
            return name


def _gemini_names(file: Path) -> dict[str, str]:
    try:
        projects = json.loads(file.read_bytes())["projects"]
    except (FileNotFoundError, ValueError, RecursionError, TypeError, KeyError):
        return {}
    listed: dict[Any, Any] = projects if isinstance(projects, dict) else {}
    named = {at: name for at, name in listed.items() if isinstance(name, str)}
    return {at: name for at, name in named.items() if _NAME.fullmatch(name)}


def _owner(folder: Path) -> str | None:
    """Return the folder whose sessions are in a folder of Gemini CLI's; None: nobody says."""
    try:
        return os.fsdecode((folder / _MARK).read_bytes()).strip()
    except FileNotFoundError:
        return None


def make(file: Path, data: bytes) -> None:
    """Make a file, and the folders above it. Raises FileExistsError, OSError."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    number = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(number, "wb") as opened:
            opened.write(data)
    except BaseException:  # stopped by its user, too: nobody finds half a session
        file.unlink(missing_ok=True)
        raise
