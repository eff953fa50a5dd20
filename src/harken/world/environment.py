"""The environment of programs that agents run: what we have ourselves, without what is secret.

One idea: a variable is secret that says so by its name, or whose value has the shape of a
credential; so is one that leads to somebody who gives credentials out (an agent for keys, a
program that asks for passwords). What is secret is passed on only where the user named it.

It keeps secrets out of what programs print and send. Who runs as the same user and is in no
sandbox finds them elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from harken.core.secrets.redaction import findings

_WORDS = """
auth authorization bearer cookie cookies cred creds credential credentials jwt key keys oauth pass
passphrase passwd password pat pw pwd secret secrets token tokens
"""
_SECRET_WORDS = frozenset(_WORDS.split())
"""Of a name, where it is written in words: `GITHUB_TOKEN`."""
_SECRET_PARTS = re.compile(
    r"api_?key|access_?key|private_?key|askpass|authtoken|connection_?string|credential|passphrase"
    r"|password|passwd|secret|token(?!iz)|webhook|auth_?key|master_?key|sshpass"
    r"|^(?:BW|OP)_SESSION",
    re.IGNORECASE,
)
"""Of a name, however it is written: `PGPASSWORD`."""
_LEADING = frozenset(
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
"""Who gets through to these gets what is secret, or acts as the user."""
_NOT_SECRET = frozenset({"PWD", "OLDPWD"})
_PLAIN_VALUE = re.compile(r"\d{0,6}|true|false|yes|no|on|off", re.IGNORECASE)
"""A setting, whatever it is called: `MAX_TOKENS=4096`, `USE_AUTH=no`."""
_PASSWORD = re.compile(
    r"://[^/?#\s@]*:[^/?#\s@]+@|\b(?:password|pwd|accountkey)=[^;\s]|BEGIN [A-Z ]*PRIVATE KEY",
    re.IGNORECASE,
)
"""A URL with user and password in it, how a database is connected with, a key."""
_WORD = re.compile(r"[^A-Za-z0-9]+")


def visible_variables(
    environ: Mapping[str, str], *, named: Collection[str] = (), hide: Collection[str] = ()
) -> dict[str, str]:
    """Return the variables that a program may have which an agent runs.

    named: secret ones that the user lets through. hide: others that are secret, too.

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
    if name in _LEADING:
        return True
    says_so = _SECRET_PARTS.search(name) or not _SECRET_WORDS.isdisjoint(
        _WORD.split(name.casefold())
    )
    if says_so and name not in _NOT_SECRET and not _PLAIN_VALUE.fullmatch(value):
        return True
    return bool(_PASSWORD.search(value) or findings(value))


def hidden_in(text: str, environ: Mapping[str, str], visible: Mapping[str, str]) -> list[str]:
    """Return the variables that a command mentions and does not get, in the order of their names.

    >>> hidden_in("curl -H $A ${B} $HOME A", {"A": "1", "B": "2", "HOME": "/"}, {"HOME": "/"})
    ['A', 'B']
    """
    mentioned = set(re.findall(r"\$\{?[#!]?(\w+)|\bprintenv\s+(\w+)", text))
    names = {one for pair in mentioned for one in pair if one}
    return sorted(name for name in names if name in environ and name not in visible)
