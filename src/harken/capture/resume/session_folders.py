"""The names that clients give to the session folders of a working folder.

A client finds the sessions of a folder by a name derived from the folder's path. Only Gemini CLI
reserves names, so that two folders do not share one.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

_MAX_NAME_CHARS = 200
"""Claude Code truncates a longer name, and appends a hash."""
_NAME_PATTERN = re.compile(r"[a-z0-9-]+")
_MARKER = ".project_root"


def claude_name(folder: str) -> str:
    """Return the name below `projects` that Claude Code uses for a folder.

    >>> claude_name("/home/jill/a.b")
    '-home-jill-a-b'
    """
    units = folder.encode("utf-16-le", "surrogatepass")  # JavaScript strings are UTF-16.
    codes = [
        int.from_bytes(units[offset : offset + 2], "little") for offset in range(0, len(units), 2)
    ]
    name = "".join(chr(c) if c < 128 and chr(c).isalnum() else "-" for c in codes)
    if len(name) <= _MAX_NAME_CHARS:
        return name
    hash_ = 0
    for code in codes:
        hash_ = (hash_ * 31 + code + 2**31) % 2**32 - 2**31
    return f"{name[:_MAX_NAME_CHARS]}-{_format_base_36(abs(hash_))}"


def _format_base_36(number: int) -> str:
    digits = ""
    while number or not digits:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits


def pi_name(folder: str) -> str:
    """Return the name below `sessions` that Pi uses for a folder.

    >>> pi_name("/home/jill/a.b")
    '--home-jill-a.b--'
    """
    flat = re.sub(r"[/\\:]", "-", re.sub(r"^[/\\]", "", folder))
    return f"--{flat}--"


def gemini_name(home: Path, folder: str) -> str:
    """Return the name that Gemini CLI uses for a folder. Reserve a name if there is none.

    Gemini CLI's list of names is read but not written: it finds the marker in the reserved folder.
    """
    bases = [home / "tmp", home / "history"]
    names = _read_gemini_names(home / "projects.json")
    name = names.get(folder)
    if name is not None and all(_read_owner(base / name) in (None, folder) for base in bases):
        return name
    for base in bases:
        for marked in sorted(base.glob(f"*/{_MARKER}")):
            if _NAME_PATTERN.fullmatch(marked.parent.name) and _read_owner(marked.parent) == folder:
                return marked.parent.name
    safe_name = re.sub("[^a-z0-9]+", "-", Path(folder).name.lower())
    stem, number = re.sub("^-|-$", "", safe_name) or "project", 0
    while True:
        name = f"{stem}-{number}" if number else stem
        number += 1
        if name in names.values() or any(_read_owner(base / name) is not None for base in bases):
            continue
        with suppress(FileExistsError):
            create_file(bases[0] / name / _MARKER, os.fsencode(folder))
            return name


def _read_gemini_names(file: Path) -> dict[str, str]:
    try:
        projects = json.loads(file.read_bytes())["projects"]
    except (FileNotFoundError, ValueError, RecursionError, TypeError, KeyError):
        return {}
    entries: dict[Any, Any] = projects if isinstance(projects, dict) else {}
    names = {folder: name for folder, name in entries.items() if isinstance(name, str)}
    return {folder: name for folder, name in names.items() if _NAME_PATTERN.fullmatch(name)}


def _read_owner(folder: Path) -> str | None:
    """Return the working folder named in a folder of Gemini CLI.

    Return None if there is no marker.
    """
    try:
        return os.fsdecode((folder / _MARKER).read_bytes()).strip()
    except FileNotFoundError:
        return None


def create_file(file: Path, data: bytes) -> None:
    """Create a file and its parent folders. Raises FileExistsError, OSError."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    number = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(number, "wb") as output:
            output.write(data)
    except BaseException:  # A partial session must not remain, also after an interrupt.
        file.unlink(missing_ok=True)
        raise
