"""New Git repositories: the allowed content of a `.git` that a command in the sandbox creates.

Git runs programs from the configuration and hooks of a repository, also for `git status`, which
many shell prompts run in each folder. In an existing repository both are read-only. A command may
create a repository if both stay as `git init` and `git clone` write them.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

_MAX_BYTES = 64 * 1024
_SWITCHES = (
    "autocrlf bare eol filemode ignorecase logallrefupdates precomposeunicode "
    "repositoryformatversion symlinks"
)
_SECTION_PATTERN = re.compile(
    r"\[(core|extensions|user|remote|branch)(?: \"[\w./-]*\")?\]", re.ASCII | re.IGNORECASE
)
_SAFE_SETTING_PATTERN = re.compile(
    rf"core\.(?:{_SWITCHES.replace(' ', '|')})=\w*"
    r"|extensions\.(?:objectformat|refstorage)=\w+"
    r"|user\.(?:name|email)=[^\\\"]*"
    r"|remote\.(?:url|pushurl)=(?:(?:https?|ssh|git)://|[\w.-]+@[\w.-]+:|[./])[^\s\\\"]*"
    r"|remote\.fetch=\+?refs/[^\s\\\"]*"
    r"|branch\.(?:remote=[\w.-]+|merge=refs/[^\s\\\"]*)",
    re.ASCII | re.IGNORECASE,
)


def unsafe_parts(git: Path) -> Iterator[str]:
    """Yield the paths of a new `.git` that could make Git run a program.

    A pointer to another folder is itself unsafe.
    """
    if git.is_symlink() or git.is_file():
        yield str(git)
        return
    for name in ("config.worktree", "commondir"):
        if os.path.lexists(git / name):
            yield str(git / name)
    if os.path.lexists(git / "hooks") and not _has_samples_only(git / "hooks"):
        yield str(git / "hooks")
    if os.path.lexists(git / "config") and not _is_ordinary(git / "config"):
        yield str(git / "config")


def _has_samples_only(hooks: Path) -> bool:
    """Whether a folder contains only the sample hooks of Git."""
    try:
        names = os.listdir(hooks)  # noqa: PTH208 - names, not paths
    except OSError:
        return False
    return not hooks.is_symlink() and all(name.endswith(".sample") for name in names)


def _is_ordinary(config: Path) -> bool:
    """Whether a file contains only settings that cannot run a program."""
    try:
        status = config.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_BYTES:
            return False
        text = config.read_text("utf-8")
    except (OSError, ValueError):
        return False
    section = ""
    for line in text.split("\n"):
        stripped = line.strip()
        if not stripped:
            continue
        if section_match := _SECTION_PATTERN.fullmatch(stripped):
            section = section_match[1]
            continue
        key, _, value = stripped.partition("=")
        if not _SAFE_SETTING_PATTERN.fullmatch(f"{section}.{key.strip()}={value.strip()}"):
            return False
    return True
