"""Private places, which a command in the sandbox does not see, and the sensitive paths of a folder.

Private places hold credentials, or a socket of a program that has them: a command sees nothing
there. Sensitive paths decide which programs run later: a command can read them, and neither change
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
_OF_THE_SYSTEM = """
/etc/NetworkManager/system-connections /etc/gshadow /etc/gshadow- /etc/krb5.keytab
/etc/kubernetes /etc/letsencrypt /etc/openvpn /etc/rancher /etc/shadow /etc/shadow- /etc/ssh
/etc/ssl/private /etc/sudoers /etc/sudoers.d /etc/wireguard /run /var/lib/docker /var/lib/kubelet
/var/run /var/spool/cron
"""
_LEADING = """
AWS_CONFIG_FILE AWS_SHARED_CREDENTIALS_FILE AWS_WEB_IDENTITY_TOKEN_FILE AZURE_CONFIG_DIR
CLOUDSDK_CONFIG DOCKER_CONFIG GH_CONFIG_DIR GNUPGHOME GOOGLE_APPLICATION_CREDENTIALS KUBECONFIG
NETRC NPM_CONFIG_USERCONFIG PASSWORD_STORE_DIR PGPASSFILE SSH_AUTH_SOCK VAULT_TOKEN_PATH XAUTHORITY
XDG_RUNTIME_DIR npm_config_userconfig
"""
"""Variables that say where credentials are."""
NEEDED = ("/run/current-system", "/run/opengl-driver")
"""Of what is out of reach, what programs need: on NixOS they are there."""
NAMES = ("/run/systemd/resolve",)
"""What is needed to find machines by their names, too."""
_ACCESS_LIST = "system.posix_acl_access"
"""The attribute of a folder that lets in further users."""
_OF_GIT = ("config", "config.worktree", "commondir", "hooks")
"""Of a repository: what says which programs git runs, or that another folder says it."""


def private_places(homes: Iterable[Path]) -> Iterator[str]:
    """Yield the paths, whether anything is there or not, that hold credentials.

    homes: the user's.
    """
    yield from _OF_THE_SYSTEM.split()
    yield from (f"{home}/{name}" for home in homes for name in _IN_HOME.split())


def pointed_places(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the paths, whether anything is there or not, where variables say that credentials are.

    >>> list(pointed_places({"KUBECONFIG": "/srv/kube", "NETRC": "here"}))
    ['/srv/kube']
    """
    found = [path for name in _LEADING.split() for path in environ.get(name, "").split(os.pathsep)]
    for variable, usual in (("XDG_CONFIG_HOME", ".config/"), ("XDG_DATA_HOME", ".local/share/")):
        if environ.get(variable):
            inside = (name for name in _IN_HOME.split() if name.startswith(usual))
            found += (f"{environ[variable]}/{name.removeprefix(usual)}" for name in inside)
    yield from (path for path in found if path.startswith("/"))


def other_homes(homes: Sequence[Path]) -> Iterator[str]:
    """Yield the folders in which other users have their homes, or are at home."""
    if any(one not in homes for one in _inside(Path("/home"))):
        yield "/home"
    if Path("/root") not in homes:
        yield "/root"


def sensitive_places(root: Path, homes: Iterable[Path]) -> Iterator[str]:
    """Yield the sensitive paths of a writable folder, existing or not.

    Of the folder's own `.git`, and of a bare repository, these are the configuration and the
    hooks: the rest is where commits go. A folder that is no bare repository cannot be made one; a
    `.git` can, see `new_repository`. Folders below are not searched: what a command makes there is
    the agent's own.
    """
    git = root / ".git"
    is_pointer = git.is_symlink() or git.is_file()
    listed = paths_below(root, homes)
    yield from (path for path in listed if is_pointer or path != str(git))
    yield from _repository(git)
    if (root / "HEAD").is_file() and (root / "objects").is_dir():
        yield from _repository(root)
    elif os.path.lexists(root / "HEAD"):
        yield from (f"{root}/{name}" for name in ("commondir", "objects"))
    else:
        yield f"{root}/HEAD"


def _repository(folder: Path) -> Iterator[str]:
    if not folder.is_dir():
        return
    yield from (f"{folder}/{name}" for name in _OF_GIT)
    for inner in ("modules", "worktrees"):
        yield from (f"{one}/{name}" for one in _inside(folder / inner) for name in _OF_GIT)


def _inside(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def foreign_sockets(listed: str) -> Iterator[str]:
    r"""Yield the paths of sockets at which somebody answers.

    listed: what is in `/proc/net/unix`.

    >>> row = "0000: 00000002 00000000 00010000 0001 01 1234 /srv/db sock\n"
    >>> list(foreign_sockets("Num RefCount Protocol Flags Type St Inode Path\n" + row))
    ['/srv/db sock']
    """
    for line in listed.splitlines():
        found = re.fullmatch(r"\S+: \S+ \S+ (\S+) (\S+) \S+ +\d+ (/.*)", line)
        if found and (found[1] == "00010000" or found[2] == "0002"):
            yield found[3]


def is_socket(path: str) -> bool:
    """Whether there is a socket at a path."""
    try:
        return stat.S_ISSOCK(Path(path).stat().st_mode)
    except (OSError, ValueError):
        return False


def is_reachable(path: str) -> bool:
    """Whether a command in the sandbox can enter the folders of a path that was found.

    Root looks into the private folders of other users. In the sandbox it has no capabilities:
    it cannot, and nothing can be mounted there.
    """
    if os.geteuid() != 0:
        return True
    groups = {os.getegid(), *os.getgroups()}
    for folder in Path(path).parents:
        try:
            status, attributes = folder.stat(), os.listxattr(folder)
        except OSError:  # it has gone meanwhile, or has no attributes: then it is mounted over
            continue
        bit = stat.S_IXGRP if status.st_gid in groups else stat.S_IXOTH
        is_open = status.st_uid == 0 or bool(status.st_mode & bit)
        if not is_open and _ACCESS_LIST not in attributes:
            return False
    return True
