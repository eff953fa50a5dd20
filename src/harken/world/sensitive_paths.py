"""Sensitive paths: files that decide which programs run later, without a further question.

A file tool must ask before it changes such a file, whatever the permission mode, and a command in
the sandbox cannot change it. Both read the one list here; docs/explanation/permissions.md prints
it. A name in `ANYWHERE` counts in every folder, with all that is below it: a dotfiles repository
is linked into a home, and any folder can be opened in an editor or entered in a shell. A name in
`IN_HOME` is ordinary elsewhere. A Git repository and a Python environment are recognized by
their content.

Files that run only when a user builds or tests a project (Makefile, package.json, conftest.py,
CI workflows) are the code of that project, and are not in the list.
"""

from __future__ import annotations

import os
import posixpath
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

_PROGRAMS = "folder of programs"
_VERSION_CONTROL = "configuration or hook of version control"

ANYWHERE: Mapping[str, str] = MappingProxyType(
    {
        "start-up file of a shell": """
            .antigen .bash_aliases .bash_completion .bash_completion.d .bash_it .bash_login
            .bash_logout .bash_profile .bashrc .config/bash_completion .config/elvish
            .config/fish .config/nushell .config/oh-my-posh .config/powershell .config/sheldon
            .config/starship.toml .config/user-dirs.dirs .config/xonsh .config/zsh .cshrc .elvish
            .fzf .fzf.bash .fzf.zsh .inputrc .iterm2_shell_integration.bash
            .iterm2_shell_integration.fish .iterm2_shell_integration.zsh .kshrc
            .local/share/bash-completion .local/share/fish .local/share/zsh .login .logout .mkshrc
            .oh-my-bash .oh-my-zsh .p10k.zsh .profile .shinit .shrc .tcshrc .xonshrc .zcompdump
            .zgenom .zim .zimrc .zinit .zlogin .zlogout .zplug .zprezto .zpreztorc .zprofile .zsh
            .zshenv .zshrc
        """,
        "start-up file of a login, a desktop or a terminal": """
            .Xdefaults .Xresources .aerospace.toml .asoundrc .byobu .config/alacritty
            .config/autostart .config/autostart-scripts .config/awesome .config/bspwm
            .config/cosmic .config/environment.d .config/foot .config/ghostty .config/hypr
            .config/i3 .config/karabiner .config/kitty .config/labwc .config/lxsession
            .config/mimeapps.list .config/niri .config/openbox .config/plasma-workspace
            .config/qtile .config/river .config/skhd .config/sway .config/sxhkd .config/systemd
            .config/terminator .config/tmux .config/wezterm .config/xfce4 .config/xmonad
            .config/yabai .config/zellij .fluxbox .forward .hammerspoon .i3 .kde .kde4
            .local/share/applications .local/share/dbus-1 .local/share/gnome-shell/extensions
            .local/share/nautilus/scripts .local/share/systemd .mailcap .pam_environment
            .procmailrc .screenrc .skhdrc .tmux .tmux.conf .wezterm.lua .xinitrc .xmonad .xprofile
            .xserverrc .xsession .xsessionrc .yabairc Library/LaunchAgents Library/LaunchDaemons
        """,
        "keys and settings of SSH or GnuPG": ".gnupg .ssh",
        "list of users who may log in": ".k5login .rhosts .shosts",
        _VERSION_CONTROL: """
            .config/git .config/hg .config/jj .config/lazygit .git .git-hooks .gitconfig .githooks
            .hg/hgrc .hgrc .husky .jj/repo/config.toml .jjconfig.toml .lefthook .lefthook.yaml
            .lefthook.yml .overcommit.yml .pre-commit-config.yaml .pre-commit-config.yml
            lefthook-local.yaml lefthook-local.yml lefthook.yaml lefthook.yml
        """,
        "settings of an agent": """
            .agents .aider.conf.yml .amazonq .amp .augment .claude .claude.json .cline .codeium
            .codex .config/Claude .config/amp .config/crush
            .config/github-copilot .config/goose .config/mcp .config/opencode
            .continue .copilot .crush .crush.json .cursor .factory .gemini .github/hooks .goose
            .harken .junie .kilocode .kiro .mcp.json .opencode .openhands .pi .qwen .roo .trae
            .windsurf Library/Application%20Support/Claude crush.json mcp.json opencode.json
            opencode.jsonc
        """,
        "settings of an editor": """
            *.code-workspace *.sublime-project .config/Code .config/Code%20-%20Insiders
            .config/Code-OSS .config/Cursor
            .config/JetBrains .config/VSCodium .config/doom .config/emacs .config/helix
            .config/kak .config/micro .config/nano .config/nvim .config/sublime-text .config/vim
            .config/zed .cursor-server .devcontainer .devcontainer.json .dir-locals-2.el
            .dir-locals.el .doom.d .emacs .emacs.d .emacs.el .exrc .fleet .gvimrc .helix .idea
            .ideavimrc .local.vimrc .local/share/nvim .lvimrc .nanorc .nexrc .nvim.lua .nvimrc
            .spacemacs .spacemacs.d .theia .vim .vimrc .vs .vscode .vscode-insiders .vscode-oss
            .vscode-server .windsurf-server .zed Library/Application%20Support/Code
            Library/Application%20Support/Code%20-%20Insiders
            Library/Application%20Support/Cursor
        """,
        "start-up file of a debugger, an interpreter or a tool": """
            *.pth .Renviron .Rprofile .config/gdb .config/ipython .config/irb .config/lf
            .config/mpv .config/mutt .config/neomutt .config/pry .config/ranger .config/tig
            .config/vifm .config/yazi .curlrc .duckdbrc .erlang .gdbearlyinit .gdbinit .ghci
            .iex.exs .ipython .irbrc .julia/config .jupyter .lessfilter .lesskey .lldbinit
            .mongorc.js .mongoshrc.js .muttrc .ocamlinit .pdbrc .perldb .pryrc .psqlrc .pythonrc
            .pythonrc.py .pythonstartup.py .ripgreprc .sqliterc .subversion .tclshrc .tigrc
            .wgetrc sitecustomize.py usercustomize.py
        """,
        "settings of a package manager": """
            .bunfig.toml .condarc .config/conda .config/pip .config/pypoetry .config/uv .gemrc
            .npmrc .pip .pnpmfile.cjs .pydistutils.cfg .pypirc .yarnrc .yarnrc.yml bunfig.toml
            pip.conf pip.ini
        """,
        "environment of a folder": """
            .autoenv.zsh .config/direnv .config/mise .direnvrc .envrc .mise .mise.local.toml
            .mise.toml .rtx.toml mise.local.toml mise.toml
        """,
        _PROGRAMS: ".local/bin .local/lib",
    }
)
"""Reason -> names that count in every folder.

`*` stands for the beginning of a name, `%20` for a space.
"""
IN_HOME: Mapping[str, str] = MappingProxyType(
    {
        _PROGRAMS: """
            .asdf .bun .cargo .composer .config/composer .deno .dotnet/tools .ghcup .juliaup .krew
            .local/share/fnm .local/share/mise .local/share/pnpm .luarocks .nix-profile .npm-global
            .nvm .opam .poetry .pyenv .rbenv .rustup .rvm .sdkman .volta bin go/bin
        """,
        "settings of a tool that runs programs": """
            .ansible .ansible.cfg .asdfrc .aws .azure .bazelrc .bundle .config/containers
            .config/gcloud .config/gh .config/home-manager .config/nix .config/nixpkgs .docker
            .gradle .kube .local/share/gh .m2 .sbt .terraform.d .terraformrc .vagrant.d
        """,
        "settings of macOS": """
            Library/Preferences Library/Scripts Library/Services Library/Workflows
        """,
    }
)
"""Reason -> names that count in the home of a user."""
OF_SYSTEM = """
/Library/LaunchAgents /Library/LaunchDaemons /bin /boot /etc /lib /lib64 /sbin /usr/bin /usr/lib
/usr/libexec /usr/local/bin /usr/local/lib /usr/local/sbin /usr/sbin /var/spool/at /var/spool/cron
"""
_WORKTREES = frozenset({".claude", ".codex", ".cursor"})
"""Agents that keep checkouts of projects in a folder `worktrees` among their settings."""
_NAMING_VARIABLES = "BASH_ENV ENV GIT_CONFIG_GLOBAL PYTHONSTARTUP ZDOTDIR"
"""Variables that name a start-up file, or the folder of start-up files."""
_XDG = (("XDG_CONFIG_HOME", ".config/"), ("XDG_DATA_HOME", ".local/share/"))
_REPOSITORY_NAMES = """
commondir config config.worktree gitdir head hooks info modules objects packed-refs refs worktrees
"""
_OF_REPOSITORY = frozenset(_REPOSITORY_NAMES.split())
_SHORT_NAME_PATTERN = re.compile(r"git~\d")


@lru_cache(maxsize=4096)
def fold_name(name: str) -> str:
    r"""Return a file name as the most lenient file system compares it.

    Case, composition, invisible characters, and dots and blanks at the end do not count.

    >>> fold_name(".G\u200cIT. "), fold_name("GIT~1")
    ('.git', '.git')
    """
    if not (name.isascii() and name.isprintable()):
        name = unicodedata.normalize("NFKC", name)
        name = "".join(letter for letter in name if unicodedata.category(letter) != "Cf")
    folded = unicodedata.normalize("NFC", name.casefold()).rstrip(". ")
    return ".git" if _SHORT_NAME_PATTERN.fullmatch(folded) else folded


def _iter_names(table: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the names of a table, each with its reason."""
    for reason, names in table.items():
        yield from ((name.replace("%20", " "), reason) for name in names.split())


def _group_by_first_name() -> dict[str, list[tuple[list[str], str]]]:
    """Return the names of `ANYWHERE` by their first component, with the components after it."""
    table: dict[str, list[tuple[list[str], str]]] = {}
    for name, reason in _iter_names(ANYWHERE):
        first, *others = map(fold_name, name.split("/"))
        table.setdefault(first, []).append((others, reason))
    return table


_BY_FIRST_NAME = _group_by_first_name()
_SUFFIXES = {name[1:]: reason for name, reason in _iter_names(ANYWHERE) if name.startswith("*")}


def reason_of(path: str) -> str:
    """Return why a path is sensitive by its names, empty if it is not.

    path: without `..`. The folder above a sensitive one, such as `.config`, is sensitive itself:
    to rename it is to change what is in it.

    >>> reason_of("/home/ann/.bashrc"), reason_of("sub/.GIT/hooks/pre-commit"), reason_of("a.py")
    ('start-up file of a shell', 'configuration or hook of version control', '')
    >>> reason_of(".config/git/config"), reason_of(".config/app/a.toml")
    ('configuration or hook of version control', '')
    """
    names = [fold_name(name) for name in path.split("/")]
    index = 0
    while index < len(names):
        if (
            names[index] in _WORKTREES
            and names[index + 1 : index + 2] == ["worktrees"]
            and names[index + 3 :]
        ):
            index += 3  # The checkout of a project is judged like any other folder.
            continue
        for others, reason in _BY_FIRST_NAME.get(names[index], ()):
            following = names[index + 1 : index + 1 + len(others)]
            is_above = len(following) < len(others) and names[index].startswith(".")
            if following == others or (is_above and following == others[: len(following)]):
                return reason
        index += 1
    return next((why for suffix, why in _SUFFIXES.items() if names[-1].endswith(suffix)), "")


def reason_by_content(path: str) -> str:
    """Return why a path is sensitive because of the files around it, empty if it is not.

    It is if it belongs to a Git repository of any name, also to one that it would complete, or to
    the programs of a Python environment. path: absolute.
    """
    names = path.split("/")
    for end in range(1, len(names)):
        folder, name = "/".join(names[:end]), fold_name(names[end])
        if name in _OF_REPOSITORY and _is_repository(folder, name):
            return _VERSION_CONTROL
        if name in ("bin", "scripts", "pyvenv.cfg") and os.path.lexists(f"{folder}/pyvenv.cfg"):
            return _PROGRAMS
    return ""


def _is_repository(folder: str, new: str) -> bool:
    """Whether Git takes a folder for a repository, once the folder has a new entry.

    A file `commondir` says that objects and references are in another folder.
    """
    complete = (("HEAD", "commondir"), ("HEAD", "objects", "refs"))
    return any(
        all(name.casefold() == new or os.path.lexists(f"{folder}/{name}") for name in names)
        for names in complete
    )


def paths_below(root: Path, homes: Iterable[Path]) -> Iterator[str]:
    """Yield the listed paths of a folder, existing or not; also those of homes that lie in it."""
    yield from (f"{root}/{name}" for name, _ in _iter_names(ANYWHERE) if "*" not in name)
    for home in homes:
        if home.is_relative_to(root):
            yield from map(str, home_paths(home))


def home_paths(home: Path) -> Iterator[Path]:
    """Yield the listed paths of a home, existing or not."""
    for table in (ANYWHERE, IN_HOME):
        yield from (home / name for name, _ in _iter_names(table) if "*" not in name)


def user_paths(environ: Mapping[str, str], homes: Iterable[Path], folder: Path) -> Iterator[Path]:
    """Yield the sensitive paths of a user and of the system, existing or not.

    These are the listed ones of each home, also where variables move them to, and the folders of
    PATH. A folder of programs that contains `folder`, in which the user works, is left out.
    """
    for home in homes:
        yield from home_paths(home)
    for variable, usual in _XDG:
        base = environ.get(variable, "")
        if base.startswith("/"):
            names = (name for name, _ in (*_iter_names(ANYWHERE), *_iter_names(IN_HOME)))
            moved = (name.removeprefix(usual) for name in names if name.startswith(usual))
            yield from (Path(base, name) for name in moved)
    for variable in _NAMING_VARIABLES.split():
        if environ.get(variable, "").startswith("/"):
            yield Path(environ[variable])
    yield from program_folders(environ, folder)
    yield from map(Path, OF_SYSTEM.split())


def program_folders(environ: Mapping[str, str], folder: Path) -> Iterator[Path]:
    """Yield the folders of PATH, without relative ones and those that contain `folder`."""
    for entry in environ.get("PATH", "").split(os.pathsep):
        if entry.startswith("/") and not folder.is_relative_to(os.path.realpath(entry)):
            yield Path(entry)


def real_paths(paths: Iterable[str]) -> Iterator[str]:
    """Yield each path as it is written and, where links lead elsewhere, as they lead it."""
    folders: dict[str, str] = {}
    for path in paths:
        parent, _, name = path.rpartition("/")
        if parent not in folders:
            folders[parent] = os.path.realpath(parent or "/").rstrip("/")
        real = f"{folders[parent]}/{name}"
        yield path
        # Most of them do not exist: a look at the last name alone is faster than `realpath`.
        if real != path or posixpath.islink(real):
            yield os.path.realpath(real)
