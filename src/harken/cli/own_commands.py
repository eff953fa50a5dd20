"""Commands of one's own: texts with places for arguments, each in a Markdown file.

    ---
    description: Looks at a change.
    argument-hint: FILE
    ---
    Review the change in $1. Pay attention to: $ARGUMENTS

A file is read when it is used, so an edit counts at once. What it says is said to the agent, as
if it had been typed: through the agent and its hooks. With `role: system` it is the system that
says it, past the hooks, and the agent owes no answer. Nothing in it is run.

Those of Claude Code are such files, too: `sub/fix.md` is `/sub:fix`, `$ARGUMENTS[0]` is the first
word, and so is `$0`; where a file says `$0`, `$1` is the second.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from harken.agents import front_matter
from harken.agents.front_matter import NAME, Malformed, files_in, naming, read_page
from harken.agents.skills import UNRUN, has_shell
from harken.agents.user_command import instruct
from harken.cli.commands import COMMANDS, Command, Talk
from harken.cli.structure_commands import act
from harken.errors import ConfigError
from harken.views.written import count

FOLDER = "commands"
MOST = 200
"""So many are listed."""
_END = "(?![0-9A-Za-z_])"
_PLACE = re.compile(rf"\$(?:ARGUMENTS\[(?P<at>[0-9]{{1,3}})\]|(?P<word>ARGUMENTS|[0-9]){_END})")
_FROM_ZERO = re.compile(rf"\$0{_END}")


@dataclass(slots=True)
class OwnCommands:
    """The commands in some folders; where two have one name, that of the first folder counts."""

    folders: Sequence[Path] = ()
    _known: dict[Path, tuple[tuple[int, int], Command]] = field(default_factory=dict)

    def commands(self) -> dict[str, Command]:
        """Return all of them, by name, without those that have the name of a built-in one."""
        found: dict[str, Command] = {}
        for name, path in sorted(self._files().items())[:MOST]:
            if name not in COMMANDS:
                found[name] = self._command(name, path)
        return found

    @property
    def notes(self) -> list[str]:
        """What the user should be told: that a file does not count."""
        names = sorted(self._files())
        hidden = [f"/{name}" for name in names if name in COMMANDS]
        notes: list[str] = []
        if hidden:
            files = count(len(hidden), "command")
            notes.append(f"{files} of your own cannot be used: {', '.join(hidden)} is built in")
        for name in names:
            longer = [f"/{one}" for one in COMMANDS if one.startswith(name) and one != name]
            if len(longer) == 1 and name not in COMMANDS:
                notes.append(f"/{name} is a command of your own here, not short for {longer[0]}")
        return notes

    def _files(self) -> Mapping[str, Path]:
        """Return the files by name; one in a folder is called by that, too."""
        found = files_in(self.folders)
        for folder in self.folders:
            for path in sorted(islice(folder.rglob("*.md"), MOST)):
                names = path.relative_to(folder).with_suffix("").parts
                if all(map(NAME.fullmatch, names)):
                    found.setdefault(":".join(names), path)
        return found

    def _command(self, name: str, path: Path) -> Command:
        """Return a command, as its file is now; it is read again only where it changed."""
        try:
            found = os.stat(path)  # noqa: PTH116 - its errors are told when the file is read
            state = (found.st_mtime_ns, found.st_size)
        except OSError:
            state = (0, 0)
        known = self._known.get(path)
        if known is None or known[0] != state:
            known = self._known[path] = (state, _read(name, path))
        return known[1]


def _read(name: str, path: Path) -> Command:
    """Read what is said of a command; of one that cannot be used, why."""
    meaning, hint = "", ""
    try:
        with naming(path):
            front = read_page(path, lenient=True).front
            meaning, hint = _shown(front, "description"), _shown(front, "argument-hint")
    except ConfigError as error:
        meaning = f"cannot be used: {error}"
    action = partial(_send, path)
    return Command(name, meaning or "a text of your own", action, hint, group="own")


def _shown(front: Mapping[str, Any], key: str) -> str:
    """Return a member on one line; `[file]` is a list in YAML, and is meant as it stands."""
    value = front.get(key)
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return " ".join(f"[{one}]" for one in value)
    return front_matter.one_line(front, key)


def _send(path: Path, talk: Talk, rest: str) -> None:
    """Say to the agent what a file says. Raises ConfigError."""
    with naming(path):
        page = read_page(path, lenient=True)
        role = front_matter.text(page.front, "role") or "user"
        if role not in ("user", "system"):
            raise Malformed("role is user or system: who says the text")
        text = expanded(page.body, rest).strip()
        if not text:
            raise Malformed("says nothing: write the text below the front matter")
    if has_shell(text):
        text = f"{text}\n\n[{UNRUN}]"
    if role == "user":
        talk.send(text)
    else:
        act(talk, f"/{path.stem} {rest}", partial(instruct, text=text))


def expanded(body: str, typed: str) -> str:
    r"""Return a text with what was typed in its places; without places it comes last.

    >>> expanded("Fix $1, then $2. ($ARGUMENTS)", "tea 'the pot'")
    "Fix tea, then the pot. (tea 'the pot')"
    >>> expanded("Review.", "all of it"), expanded("It costs $15 or $1.", "")
    ('Review.\n\nall of it', 'It costs $15 or .')
    >>> expanded("Fix $0, then $1.", "tea pot"), expanded("Fix $ARGUMENTS[1].", "tea pot")
    ('Fix tea, then pot.', 'Fix pot.')
    """
    try:
        words = shlex.split(typed)
    except ValueError:  # an apostrophe
        words = typed.split()

    first = 0 if _FROM_ZERO.search(body) else 1

    def place(found: re.Match[str]) -> str:
        if found["word"] == "ARGUMENTS":
            return typed
        at = int(found["at"]) if found["at"] else int(found["word"]) - first
        return words[at] if at < len(words) else ""

    if _PLACE.search(body):
        return _PLACE.sub(place, body)
    return f"{body.rstrip()}\n\n{typed}" if typed else body
