r"""Home folders in texts: replace their paths by `~`, which does not name the user.

The folders are recognized by the places where systems put them: `/home/NAME`, `/Users/NAME`,
`C:\Users\NAME`, also as Git Bash and WSL write these, in a URL, in JSON, and in the names of
folders that Claude Code derives from paths (`-home-NAME-project`). A name alone is not replaced.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

HOME = "~"
_SLASH = r"(?:\\{0,8}/|%2[Ff])"
_BACKSLASH = r"\\{1,8}"
_NAME = r"\w(?:[\w.@+-]*\w)?"
_SPACED_NAME = r"\w[\w.-]*(?: \w[\w.-]*){0,2}"
_NO_USERS = r"(?!(?:Shared|Public|All Users|Default|linuxbrew)\b)"
"""Folders beside those of users."""
_DRIVE = rf"(?:(?:{_SLASH}mnt)?{_SLASH}[a-z](?={_SLASH}[Uu]sers))?"
_PATTERN = re.compile(
    rf"(?:(?<![\w.~-])|(?=%)){_DRIVE}{_SLASH}(?:home|[Uu]sers){_SLASH}{_NO_USERS}(?P<unix>{_NAME})"
    rf"|(?<!\w)[A-Za-z]:{_BACKSLASH}[Uu]sers{_BACKSLASH}{_NO_USERS}"
    rf"(?P<windows>{_SPACED_NAME}(?=\\)|{_NAME})"
    rf"|(?<!\w)[A-Za-z]:/[Uu]sers/{_NO_USERS}(?P<drive>{_NAME})"
)
_HINTS = ("home", "sers")
_ENCODED_NAME = re.compile(r"[^A-Za-z0-9]")


class HomeFolders:
    """Replaces the paths of home folders in texts, and counts the folders."""

    def __init__(self, own: Iterable[str] = ()) -> None:
        """`own`: home folders of this machine, which may be in other places."""
        self._own = [folder for folder in own if len(folder) > 1]
        pattern = "|".join(
            rf"(?<![\w.~/-]){re.escape(folder).replace('/', _SLASH)}(?![\w.-])"
            for folder in self._own
        )
        self._own_pattern = re.compile(pattern) if pattern else None
        self._names: set[str] = set()
        self._folders: set[str] = set()

    @property
    def count(self) -> int:
        """The number of different folders that were replaced."""
        return len(self._folders)

    def replace(self, text: str) -> str:
        """Return a text with `~` in place of home folders.

        >>> HomeFolders().replace("cat /home/ann/notes.txt, then /home")
        'cat ~/notes.txt, then /home'
        """
        if self._own_pattern is not None:
            text = self._own_pattern.sub(self._replace_own, text)
        if any(hint in text for hint in _HINTS):
            text = _PATTERN.sub(self._replace_match, text)
            text = self._replace_encoded(text)
        return text

    def _replace_own(self, match: re.Match[str]) -> str:
        self._folders.add(match[0])
        return HOME

    def _replace_match(self, match: re.Match[str]) -> str:
        name = match["unix"] or match["windows"] or match["drive"]
        self._names.add(_ENCODED_NAME.sub("-", name))
        self._folders.add(name)
        return HOME

    def _replace_encoded(self, text: str) -> str:
        """Replace `-home-NAME` and `-Users-NAME`. A name with a hyphen is known from its path."""
        if "-home-" not in text and "-Users-" not in text:
            return text
        names = [*map(re.escape, sorted(self._names, key=len, reverse=True)), "[A-Za-z0-9_]+"]
        pattern = rf"(?<![\w-])-(?:home|Users)-(?P<name>{'|'.join(names)})(?![A-Za-z0-9_])"
        return re.sub(pattern, self._replace_encoded_match, text)

    def _replace_encoded_match(self, match: re.Match[str]) -> str:
        self._folders.add(match["name"])
        return HOME
