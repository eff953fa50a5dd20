"""Edits of files that decide which programs run later are asked for, whatever the mode.

In `edits` mode with the home as working folder, `write` created `.bashrc`, `.ssh/authorized_keys`,
a systemd unit and `.local/bin/git` without a question, and in any folder `.envrc`, `.husky/*` and
the hooks of a bare repository: the permissions knew four names. Now one list with content checks is
used by the permissions and by the sandbox, and only a rule that names such a path allows it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from harken.world.files.root import Root
from harken.world.files.tools import file_tools
from harken.world.permissions.mode import Mode
from harken.world.permissions.permissions import PermissionRequest, Permissions
from harken.world.permissions.rules import PermissionRules
from tests.unit.world.shell.sandbox_kit import SandboxFolders, sandbox_folders

__all__ = ["sandbox_folders"]
DOCUMENT = Path(__file__).parents[2] / "docs/explanation/permissions.md"

LISTED = """
.bashrc .profile .zshrc .zshenv .config/fish/config.fish .kshrc .bash_aliases .inputrc .tmux.conf
.xinitrc .ssh/authorized_keys .ssh/config .gitconfig .config/git/config
.config/systemd/user/a.service .config/autostart/a.desktop .config/environment.d/a.conf
.local/bin/git .local/lib/python3.11/site-packages/usercustomize.py .vimrc .vim/plugin/a.vim
.config/nvim/init.lua .emacs.d/init.el .gdbinit .crontab/../.profile .pam_environment
Library/LaunchAgents/a.plist .direnvrc .config/mise/config.toml
.codex/config.toml .gemini/settings.json .cursor/mcp.json opencode.json .vscode/tasks.json .envrc
.husky/pre-commit .claude/settings.json .mcp.json .harken/config.toml .copilot/config.json
.rhosts .k5login .forward .zcompdump .xmonad/xmonad.hs .config/Claude/claude_desktop_config.json
.config/xfce4/helpers.rc .config/user-dirs.dirs .vs/tasks.vs.json a.sublime-project .ripgreprc
.idea/workspace.xml .devcontainer/devcontainer.json .npmrc .yarnrc.yml pip.conf sitecustomize.py
a.pth .pre-commit-config.yaml mise.toml lefthook.yml a.code-workspace .exrc .git/hooks/pre-commit
"""
DISGUISED = [
    "src/../.bashrc",
    "./sub/.//.ssh/../.ssh/authorized_keys",
    ".BASHRC",
    ".Config/Git/config",
    ".g\u200cit/config",
    ".GI\u017f/../.Git/config",
    "GIT~1/config",
    ".bashrc ",
    "links/authorized_keys",
    "links",
    "dotfile",
    "shared/settings.json",
    "/proc/self/cwd/.bashrc",
    ".config",
    ".ssh",
]
ORDINARY = """
src/a.py Makefile package.json pyproject.toml conftest.py tests/test_a.py .github/workflows/ci.yml
Dockerfile AGENTS.md CLAUDE.md .gitignore .gitattributes .env .editorconfig build.rs setup.py
bin/tool.sh hooks/use-state.ts src/config src/refs/objects/HEAD .config/app/settings.toml docs/git.md
.cargo/config.toml .claude/worktrees/one/src/a.py justfile .eslintrc.js .github/a Library/a.txt
"""


def decided(path: str, folder: Path, mode: Mode, allow: Sequence[str] = ()) -> str:
    """Return what becomes of a `write`."""
    [write] = [one for one in file_tools(Root(folder)) if one.name == "write"]
    wish = PermissionRequest(write, {"path": path, "content": "x"}, ["main"], folder)
    return Permissions(mode, PermissionRules.parse(allow=allow)).decide(wish).kind


def asked(paths: Sequence[str], folder: Path) -> list[str]:
    """Return the paths for which both modes ask."""
    modes: tuple[Mode, ...] = ("edits", "all")
    return [path for path in paths if {decided(path, folder, one) for one in modes} == {"ask"}]


def test_each_kind_of_start_up_file_is_asked_for(tmp_path: Path) -> None:
    listed = LISTED.split()
    assert asked(listed, tmp_path) == listed
    deeper = [f"packages/one/{path}" for path in listed]
    assert asked(deeper, tmp_path) == deeper
    spaced = [
        ".config/Code - Insiders/User/settings.json",
        "Library/Application Support/Code/User/tasks.json",
        "Library/Application Support/Claude/claude_desktop_config.json",
    ]
    assert asked(spaced, tmp_path) == spaced


def test_a_disguised_path_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (".ssh", "shared", "src", "sub"):
        (tmp_path / name).mkdir()
    (tmp_path / "links").symlink_to(".ssh")
    (tmp_path / "dotfile").symlink_to(".profile")
    (tmp_path / ".claude").symlink_to("shared")
    assert asked(DISGUISED, tmp_path) == DISGUISED


def test_the_code_of_a_project_is_written_without_a_question(tmp_path: Path) -> None:
    modes: tuple[Mode, ...] = ("edits", "all")
    for mode in modes:
        kinds = {path: decided(path, tmp_path, mode) for path in ORDINARY.split()}
        assert kinds == dict.fromkeys(kinds, "free")


def test_a_bare_repository_of_any_name_is_recognized_by_its_content(tmp_path: Path) -> None:
    """Also by the write that completes it; a checkout in it stays the code of a project."""
    for name in ("HEAD", "objects", "refs"):
        (tmp_path / "deep/fixture" / name).mkdir(parents=True)
    inside = ["config", "hooks/pre-commit", "worktrees/one/gitdir", "CONFIG", "info/attributes"]
    assert asked([f"deep/fixture/{name}" for name in inside], tmp_path) == [
        f"deep/fixture/{name}" for name in inside
    ]
    assert decided("deep/fixture/main/src/a.py", tmp_path, "edits") == "free"
    (tmp_path / "half/objects").mkdir(parents=True)
    (tmp_path / "half/HEAD").touch()
    assert decided("half/config", tmp_path, "edits") == "free"
    assert decided("half/refs/x", tmp_path, "edits") == "ask"


def test_a_repository_that_is_put_together_from_two_folders_is_recognized(tmp_path: Path) -> None:
    """`HEAD` and `commondir` were written without a question, and `git status` ran a program.

    Git also takes a folder for a repository whose objects, references and configuration are where
    its `commondir` says, in a folder of any name. Now the write that completes it is asked for.
    """
    for name in ("objects", "refs"):
        (tmp_path / "common" / name).mkdir(parents=True)
    (tmp_path / "one").mkdir()
    assert decided("one/commondir", tmp_path, "edits") == "free"
    (tmp_path / "one/commondir").write_text("../common\n")
    assert asked(["one/HEAD"], tmp_path) == ["one/HEAD"]
    (tmp_path / "two").mkdir()
    (tmp_path / "two/HEAD").touch()
    inside = ["two/commondir"]
    assert asked(inside, tmp_path) == inside
    (tmp_path / "two/commondir").touch()
    inside += ["two/config.worktree", "two/HEAD"]
    assert asked(inside, tmp_path) == inside


def test_the_programs_of_a_python_environment_are_recognized(tmp_path: Path) -> None:
    (tmp_path / "env/bin").mkdir(parents=True)
    (tmp_path / "env/pyvenv.cfg").touch()
    assert decided("env/bin/git", tmp_path, "edits") == "ask"
    assert decided("bin/git", tmp_path, "edits") == "free"


def test_a_rule_allows_such_a_path_only_by_its_name(tmp_path: Path) -> None:
    """A rule accepted for an ordinary file, such as `write(**)`, was a yes to a Git hook."""
    for broad in ("write", "write(**)", "write(.*)", "write(*)", "write(.*/**)"):
        assert decided("a.py", tmp_path, "ask", [broad, "write(a.py)"]) == "free"
        for path in (".bashrc", ".git/hooks/pre-commit"):
            assert decided(path, tmp_path, "edits", [broad]) == "ask"
    for naming in ("write(.git/**)", "write(**/.git/hooks/*)", "write(.git/hooks/pre-commit)"):
        assert decided(".git/hooks/pre-commit", tmp_path, "ask", [naming]) == "free"
        assert decided(".bashrc", tmp_path, "ask", [naming]) == "ask"


def test_the_home_and_the_folders_of_path_are_known_by_their_place(tmp_path: Path) -> None:
    from harken.world.sensitive_paths import user_paths

    home = tmp_path / "ann"
    tools, config = tmp_path / "tools", tmp_path / "settings"
    environ = {"PATH": f"/usr/bin:{tools}:.", "XDG_CONFIG_HOME": str(config)}
    (home / "dotfiles").mkdir(parents=True)
    (home / "dotfiles/shell").touch()
    (home / ".bashrc").symlink_to("dotfiles/shell")
    permissions = Permissions(
        "all", sensitive_paths=[*user_paths(environ, [home], tmp_path / "work")]
    )
    [write] = [one for one in file_tools(Root(tmp_path)) if one.name == "write"]

    def kind(path: Path | str) -> str:
        wish = PermissionRequest(write, {"path": str(path), "content": ""}, ["main"], tmp_path)
        return permissions.decide(wish).kind

    for path in ("bin/git", "go/bin/x", ".cargo/config.toml", ".docker/config.json", "bin"):
        assert kind(home / path) == "ask", path
    assert kind(home / "dotfiles/shell") == "ask", "a start-up file is linked to it"
    assert kind(config / "git/config") == "ask"
    assert kind(tools / "git") == "ask"
    assert kind("/etc/cron.d/x") == "ask"
    assert kind(home / "project/bin/tool.sh") == "free"


def test_the_question_says_why(tmp_path: Path) -> None:
    from harken.world.permissions.subjects import PathSubject

    assert PathSubject(".bashrc", tmp_path).sensitivity() == "start-up file of a shell"


def test_the_documentation_states_the_list() -> None:
    from harken.world.sensitive_paths import ANYWHERE, IN_HOME, OF_SYSTEM

    text = DOCUMENT.read_text("utf-8")
    table = text.partition("<!-- sensitive paths -->")[2].partition("<!-- end -->")[0]
    names = [*ANYWHERE.values(), *IN_HOME.values(), OF_SYSTEM]
    listed = sorted(name.replace("%20", " ") for one in names for name in one.split())
    assert sorted(re.findall(r"`([^`]+)`", table)) == listed
    for reason in (*ANYWHERE, *IN_HOME):
        assert f"| {reason} |" in table


def test_a_command_in_the_sandbox_neither_changes_nor_makes_them(
    sandbox_folders: SandboxFolders,
) -> None:
    """The same list: what exists cannot be written, what a command makes is put aside."""
    existing = [".envrc", ".husky/pre-commit", ".vscode/tasks.json", ".codex/config.toml"]
    sandbox_folders.write({f"work/{name}": "as it was" for name in existing})
    new = [".bashrc", ".gemini/settings.json", "opencode.json", "sitecustomize.py"]
    result = sandbox_folders.run(
        "\n".join(f"mkdir -p $(dirname {one}); echo x > {one}" for one in existing + new)
    )
    assert [(sandbox_folders.work / name).read_text() for name in existing] == ["as it was"] * len(
        existing
    )
    assert not [name for name in new if os.path.lexists(sandbox_folders.work / name)]
    assert result.count("it was renamed to") == len(new)


def test_a_folder_of_path_below_the_working_folder_is_not_changed_in_the_sandbox(
    sandbox_folders: SandboxFolders,
) -> None:
    """But the programs of a project's own environment are."""
    sandbox_folders.write(
        {"work/tools/git": "as it was", "work/.venv/bin/black": "", "work/.venv/pyvenv.cfg": ""}
    )
    folders = f"{sandbox_folders.work}/tools:{sandbox_folders.work}/.venv/bin"
    sandbox_folders.environ["PATH"] = f"{folders}:{os.environ['PATH']}"
    sandbox_folders.run("echo x > tools/git; echo x > tools/ls; echo x > .venv/bin/black")
    assert (sandbox_folders.work / "tools/git").read_text() == "as it was"
    assert not (sandbox_folders.work / "tools/ls").exists()
    assert (sandbox_folders.work / ".venv/bin/black").read_text() == "x\n"
