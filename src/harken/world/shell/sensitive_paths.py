"""Private paths, which the sandbox hides, and the sensitive paths of a folder.

Private paths contain credentials, or sockets of programs with credentials: a command sees nothing
there. Sensitive paths decide which programs run later: a command can read them, but neither change
nor create them.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from harken.world.sensitive_paths import paths_below

_IN_HOME = """
.1password .ICEauthority .Xauthority .age .android/adbkey .ash_history .aws .azure .bash_history
.bitcoin .boto .cache/huggingface/token .cargo/credentials .cargo/credentials.toml .claude
.claude.json .codex .composer/auth.json .config/1Password .config/Bitwarden .config/BraveSoftware
.config/Signal .config/Slack .config/anthropic .config/chromium .config/composer/auth.json
.config/configstore .config/containers .config/discord .config/doctl .config/gcloud .config/gh
.config/git/credentials .config/github-copilot .config/glab-cli .config/google-chrome .config/hcloud
.config/heroku .config/hub .config/microsoft-edge .config/netlify .config/ngrok
.config/nushell/history.sqlite3 .config/nushell/history.txt .config/op .config/openai
.config/pip/pip.conf .config/pypoetry/auth.toml .config/rclone .config/solana .config/sops
.config/stripe .copilot .databrickscfg .docker .dropbox .ethereum .fly .gem/credentials .gemini
.git-credentials .gnupg .gradle/gradle.properties .gsutil .harken .histfile .huggingface
.irb_history .kaggle .kube .local/share/atuin .local/share/com.vercel.cli
.local/share/fish/fish_history .local/share/keyrings .local/share/kwalletd .local/share/opencode
.local/share/uv/credentials .m2/settings-security.xml .m2/settings.xml .minio .mksh_history .mozilla
.my.cnf .mylogin.cnf .mysql_history .netrc .ngrok2 .node_repl_history .npmrc .nuget .oci .openai
.password-store .pgpass .pi .pip/pip.conf .pki .psql_history .pypirc .python_history .qwen .railway
.rediscli_history .s3cfg .sh_history .sqlite_history .ssh .supabase .terraform.d .thunderbird
.vault-token .wrangler .yarnrc.yml .zhistory .zsh_history _netrc
"""
_SYSTEM_PATHS = """
/etc/NetworkManager/system-connections /etc/gshadow /etc/gshadow- /etc/krb5.keytab
/etc/kubernetes /etc/letsencrypt /etc/openvpn /etc/rancher /etc/shadow /etc/shadow- /etc/ssh
/etc/ssl/private /etc/sudoers /etc/sudoers.d /etc/wireguard /run /var/lib/docker /var/lib/kubelet
/var/run /var/spool/cron
"""
_CREDENTIAL_VARIABLES = """
AWS_CONFIG_FILE AWS_SHARED_CREDENTIALS_FILE AWS_WEB_IDENTITY_TOKEN_FILE AZURE_CONFIG_DIR
CLOUDSDK_CONFIG DOCKER_CONFIG GH_CONFIG_DIR GNUPGHOME GOOGLE_APPLICATION_CREDENTIALS KUBECONFIG
NETRC NPM_CONFIG_USERCONFIG PASSWORD_STORE_DIR PGPASSFILE SSH_AUTH_SOCK VAULT_TOKEN_PATH XAUTHORITY
XDG_RUNTIME_DIR npm_config_userconfig
"""
"""Variables that contain paths of credentials."""
NEEDED = ("/run/current-system", "/run/opengl-driver")
"""Hidden paths that programs need, on NixOS."""
NAMES = ("/run/systemd/resolve",)
"""Hidden paths that name resolution needs."""
_ACCESS_LIST = "system.posix_acl_access"
"""The attribute of a folder with access rights of further users."""
_GIT_FILES = ("config", "config.worktree", "commondir", "hooks")
"""The files of a repository that name programs for git to run, or redirect to another folder."""


def private_places(homes: Iterable[Path]) -> Iterator[str]:
    """Yield the paths of credentials, whether they exist or not.

    homes: the homes of the user.
    """
    yield from _SYSTEM_PATHS.split()
    yield from (f"{home}/{name}" for home in homes for name in _IN_HOME.split())


def pointed_places(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the paths of credentials in variables, whether they exist or not.

    >>> list(pointed_places({"KUBECONFIG": "/srv/kube", "NETRC": "here"}))
    ['/srv/kube']
    """
    paths = [
        path
        for name in _CREDENTIAL_VARIABLES.split()
        for path in environ.get(name, "").split(os.pathsep)
    ]
    for variable, usual in (("XDG_CONFIG_HOME", ".config/"), ("XDG_DATA_HOME", ".local/share/")):
        if environ.get(variable):
            names = (name for name in _IN_HOME.split() if name.startswith(usual))
            paths += (f"{environ[variable]}/{name.removeprefix(usual)}" for name in names)
    yield from (path for path in paths if path.startswith("/"))


def other_homes(homes: Sequence[Path]) -> Iterator[str]:
    """Yield the folders that contain homes of other users."""
    if any(home not in homes for home in _list_children(Path("/home"))):
        yield "/home"
    if Path("/root") not in homes:
        yield "/root"


def sensitive_places(root: Path, homes: Iterable[Path]) -> Iterator[str]:
    """Yield the sensitive paths of a writable folder, existing or not.

    For the folder's own `.git`, and for a bare repository, these are the configuration and the
    hooks; the other files hold commits. A folder cannot be made a bare repository; a `.git` can be
    created, see `new_repository`. Folders below are not searched: what a command creates there
    belongs to the agent.
    """
    git = root / ".git"
    is_pointer = git.is_symlink() or git.is_file()
    listed_paths = paths_below(root, homes)
    yield from (path for path in listed_paths if is_pointer or path != str(git))
    yield from _iter_git_files(git)
    if (root / "HEAD").is_file() and (root / "objects").is_dir():
        yield from _iter_git_files(root)
    elif os.path.lexists(root / "HEAD"):
        yield from (f"{root}/{name}" for name in ("commondir", "objects"))
    else:
        yield f"{root}/HEAD"


def _iter_git_files(folder: Path) -> Iterator[str]:
    if not folder.is_dir():
        return
    yield from (f"{folder}/{name}" for name in _GIT_FILES)
    for inner in ("modules", "worktrees"):
        yield from (
            f"{child}/{name}" for child in _list_children(folder / inner) for name in _GIT_FILES
        )


def _list_children(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def foreign_sockets(listed: str) -> Iterator[str]:
    r"""Yield the paths of listening sockets.

    listed: the content of `/proc/net/unix`.

    >>> row = "0000: 00000002 00000000 00010000 0001 01 1234 /srv/db sock\n"
    >>> list(foreign_sockets("Num RefCount Protocol Flags Type St Inode Path\n" + row))
    ['/srv/db sock']
    """
    for line in listed.splitlines():
        match = re.fullmatch(r"\S+: \S+ \S+ (\S+) (\S+) \S+ +\d+ (/.*)", line)
        if match and (match[1] == "00010000" or match[2] == "0002"):
            yield match[3]


def is_socket(path: str) -> bool:
    """Whether a path is a socket."""
    try:
        return stat.S_ISSOCK(Path(path).stat().st_mode)
    except (OSError, ValueError):
        return False


def is_reachable(path: str) -> bool:
    """Whether a command in the sandbox can enter the folders above a path.

    Root can access private folders of other users. In the sandbox it has no capabilities, so it
    cannot, and mounting there would fail.
    """
    if os.geteuid() != 0:
        return True
    groups = {os.getegid(), *os.getgroups()}
    for folder in Path(path).parents:
        try:
            status, attributes = folder.stat(), os.listxattr(folder)
        except OSError:  # The folder has gone, or has no attributes, so it is mounted over.
            continue
        bit = stat.S_IXGRP if status.st_gid in groups else stat.S_IXOTH
        is_open = status.st_uid == 0 or bool(status.st_mode & bit)
        if not is_open and _ACCESS_LIST not in attributes:
            return False
    return True
