"""The identity of recordings: from options, the environment, and git.

An option takes precedence over its variable. The principal is otherwise the identity of git in the
working folder.
"""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import msgspec

from harken.context.checkpoint import SEPARATOR, CommitIdentity
from harken.core.secrets.redaction import Credentials
from harken.errors import ConfigError

_VARIABLES = {
    "principal": "HARKEN_PRINCIPAL",
    "template": "HARKEN_TEMPLATE",
    "ticket": "HARKEN_TICKET",
    "thread": "HARKEN_THREAD",
}
"""Option -> its environment variable."""
IDENTITY_FILE = "identity.json"
"""The file with the identity of a run of the proxy."""
_GIT_TIMEOUT_S = 5.0


def load_identity(
    options: Mapping[str, str | None],
    environ: Mapping[str, str],
    *,
    git_folder: Path | None = None,
    is_local: bool = True,
) -> CommitIdentity:
    """Return the identity of a recording. Raises ConfigError for an invalid principal.

    options: `principal`, `template`, `ticket` and `thread` of the command line. None: not set.
    git_folder: the folder whose git identity is the default principal. None: git is not asked.
    is_local: whether the session runs on this machine.
    """
    values = {
        name: environ.get(variable) if options.get(name) is None else options[name]
        for name, variable in _VARIABLES.items()
    }
    principal = values["principal"]
    if principal is None and git_folder is not None:
        principal = read_git_identity(git_folder, environ)
    try:
        return CommitIdentity(
            principal=(principal or "").strip(),
            template=values["template"] or "",
            machine=platform.node() if is_local else "",
            ticket_id=values["ticket"] or "",
            thread_id=values["thread"] or "",
        )
    except ValueError as error:
        raise ConfigError(str(error)) from None


def load_chat_identity(
    options: Mapping[str, str | None], environ: Mapping[str, str], folder: Path
) -> CommitIdentity:
    """Return the identity of a chat. As `load_identity`, with the login as the last resort."""
    identity = load_identity(options, environ, git_folder=folder)
    return replace(identity, principal=identity.principal or Path.home().name)


def read_git_identity(folder: Path, environ: Mapping[str, str]) -> str:
    """Return git's `user.email` in a folder, else its `user.name`, else an empty text."""
    command = ["git", "config", "--null", "--get-regexp", r"^user\.(name|email)$"]
    try:
        result = subprocess.run(
            command,
            cwd=folder,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_GIT_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):  # git is not installed, or does not answer
        return ""
    lines = result.stdout.decode("utf-8", "replace").split("\0")
    values = dict(line.split("\n", 1) for line in lines if "\n" in line)
    identity = values.get("user.email", "").strip() or values.get("user.name", "").strip()
    return identity.replace(SEPARATOR, "_")


def write_identity(folder: Path, identity: CommitIdentity, redact: Credentials | None) -> None:
    """Write the identity of a run of the proxy to its folder. Raises OSError."""
    data = msgspec.json.encode(identity)
    data = data if redact is None else redact.replace_in_bytes(data)
    (folder / IDENTITY_FILE).write_bytes(data)


def read_identity(folder: Path) -> CommitIdentity:
    """Return the identity of a run of the proxy. It is empty if it was not written completely."""
    try:
        return msgspec.json.decode((folder / IDENTITY_FILE).read_bytes(), type=CommitIdentity)
    except (OSError, msgspec.DecodeError):
        return CommitIdentity(machine=platform.node())
