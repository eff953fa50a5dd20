"""The environment of programs that agents run: inherited variables without secrets.

A variable is secret if its name says so or its value has the shape of a credential. So is a
variable that gives access to a provider of credentials (a key agent, a program that asks for
passwords). Secret variables are passed on only if the user named them.

This keeps secrets out of the output and requests of programs. A process of the same user without a
sandbox can find them elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from harken.core.secrets.redaction import find_credentials

_WORDS = """
auth authorization bearer cookie cookies cred creds credential credentials jwt key keys oauth pass
passphrase passwd password pat pw pwd secret secrets token tokens
"""
_SECRET_WORDS = frozenset(_WORDS.split())
"""Words of a secret name, in names that consist of words: `GITHUB_TOKEN`."""
_SECRET_PART_PATTERN = re.compile(
    r"api_?key|access_?key|private_?key|askpass|authtoken|connection_?string|credential|passphrase"
    r"|password|passwd|secret|token(?!iz)|webhook|auth_?key|master_?key|sshpass"
    r"|^(?:BW|OP)_SESSION",
    re.IGNORECASE,
)
"""Parts of a secret name, in any spelling: `PGPASSWORD`."""
_CREDENTIAL_ACCESS = frozenset(
    {
        "DBUS_SESSION_BUS_ADDRESS",
        "GNOME_KEYRING_CONTROL",
        "GPG_AGENT_INFO",
        "KRB5CCNAME",
        "SSH_AGENT_PID",
        "VSCODE_GIT_ASKPASS_MAIN",
        "VSCODE_GIT_ASKPASS_NODE",
        "VSCODE_GIT_IPC_HANDLE",
        "VSCODE_IPC_HOOK_CLI",
        "XAUTHORITY",
    }
)
"""Variables that lead to a service which hands out secrets or acts as the user."""
_NOT_SECRET = frozenset({"PWD", "OLDPWD"})
_PLAIN_VALUE_PATTERN = re.compile(r"\d{0,6}|true|false|yes|no|on|off", re.IGNORECASE)
"""Values of ordinary settings, whatever their name: `MAX_TOKENS=4096`, `USE_AUTH=no`."""
_PASSWORD_PATTERN = re.compile(
    r"://[^/?#\s@]*:[^/?#\s@]+@|\b(?:password|pwd|accountkey)=[^;\s]|BEGIN [A-Z ]*PRIVATE KEY",
    re.IGNORECASE,
)
"""A URL with user and password, a connection string of a database, or a private key."""
_SEPARATOR_PATTERN = re.compile(r"[^A-Za-z0-9]+")


def visible_variables(
    environ: Mapping[str, str], *, named: Collection[str] = (), hide: Collection[str] = ()
) -> dict[str, str]:
    """Return the variables that a program of an agent may have.

    named: secret variables that the user lets through. hide: further variables to treat as secret.

    >>> visible_variables(
    ...     {"HOME": "/home/ann", "GITHUB_TOKEN": "x1", "NPM_TOKEN": "y2"}, named=["NPM_TOKEN"]
    ... )
    {'HOME': '/home/ann', 'NPM_TOKEN': 'y2'}
    """
    return {
        name: value
        for name, value in environ.items()
        if name in named or not (name in hide or is_secret(name, value))
    }


def is_secret(name: str, value: str) -> bool:
    """Whether a variable looks like a credential.

    >>> is_secret("PGPASSWORD", "x1"), is_secret("DATABASE_URL", "postgres://ann:x1@db/app")
    (True, True)
    >>> is_secret("GIT_AUTHOR_NAME", "Ann"), is_secret("MAX_TOKENS", "4096")
    (False, False)
    """
    if name in _CREDENTIAL_ACCESS:
        return True
    has_secret_name = _SECRET_PART_PATTERN.search(name) or not _SECRET_WORDS.isdisjoint(
        _SEPARATOR_PATTERN.split(name.casefold())
    )
    if has_secret_name and name not in _NOT_SECRET and not _PLAIN_VALUE_PATTERN.fullmatch(value):
        return True
    return bool(_PASSWORD_PATTERN.search(value) or find_credentials(value))


def find_hidden_variables(
    text: str, environ: Mapping[str, str], visible: Mapping[str, str]
) -> list[str]:
    """Return the variables that a command mentions and does not get, sorted by name.

    >>> find_hidden_variables(
    ...     "curl -H $A ${B} $HOME A", {"A": "1", "B": "2", "HOME": "/"}, {"HOME": "/"}
    ... )
    ['A', 'B']
    """
    mentioned = set(re.findall(r"\$\{?[#!]?(\w+)|\bprintenv\s+(\w+)", text))
    names = {name for pair in mentioned for name in pair if name}
    return sorted(name for name in names if name in environ and name not in visible)
