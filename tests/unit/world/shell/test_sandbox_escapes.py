"""Attempts to escape from the sandbox, all of which fail."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from harken.world.shell.sandbox import SandboxedCommand
from tests.unit.world.shell.sandbox_kit import SECRET, SandboxFolders, as_unprivileged_user

CONNECT = (
    f"{sys.executable} -c 'import socket, sys; s = socket.socket(socket.AF_UNIX); "
    's.connect(sys.argv[1].replace("@", chr(0))); print(s.recv(9))\' '
)


@contextmanager
def listening_socket(address: str) -> Iterator[None]:
    """Start a server outside that sends `come in` to each client."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()

        def answer() -> None:
            try:
                while True:
                    item, _ = server.accept()
                    item.sendall(b"come in")
                    item.close()
            except OSError:
                return

        threading.Thread(target=answer, daemon=True).start()
        yield
        server.shutdown(socket.SHUT_RDWR)


READING = [
    "cat ~/.harken/hooks/guard.md",
    "cat ../user/.harken/hooks/guard.md",
    "ln -s ../user/.harken/hooks h; cat h/guard.md",
    "cat /proc/self/root/$HOME/.harken/hooks/guard.md",
    "cat /proc/1/root/$HOME/.harken/hooks/guard.md",
    "cat /proc/self/cwd/../user/.harken/hooks/guard.md",
    "ln ~/.harken/hooks/guard.md here; cat here",
    "cp -r ~/.harken here; cat here/hooks/*",
    "cat ~/.ssh/id_rsa",
    "tar c ~/.ssh | tar x -O",
    "umount ~/.ssh; cat ~/.ssh/id_rsa",
    "unshare -Ur sh -c 'umount ~/.ssh; cat ~/.ssh/id_rsa'",
    "bwrap --bind / / --dev-bind /dev /dev cat ~/.ssh/id_rsa",
    "cat $KUBECONFIG",
    "cat ../linked/id_rsa",
    "grep -r house ~ /proc/[0-9]*/environ",
]


def test_private_files_are_not_readable(sandbox_folders: SandboxFolders) -> None:
    sandbox_folders.write({"elsewhere/kube": SECRET})
    (sandbox_folders.around / "linked").symlink_to(sandbox_folders.around / "user/.ssh")
    sandbox_folders.environ["KUBECONFIG"] = str(sandbox_folders.around / "elsewhere/kube")
    result = sandbox_folders.run("\n".join(f"({command})" for command in READING))
    assert SECRET not in result
    assert len(result.splitlines()) > len(READING), "each is refused"


def test_shell_history_is_not_readable(sandbox_folders: SandboxFolders) -> None:
    places = [
        ".bash_history",
        ".zsh_history",
        ".zhistory",
        ".sh_history",
        ".local/share/fish/fish_history",
        ".config/nushell/history.txt",
        ".local/share/atuin/history.db",
    ]
    sandbox_folders.write({f"user/{place}": SECRET for place in places})
    assert SECRET not in sandbox_folders.run("cd; cat " + " ".join(places))


CHANGING = [
    "echo x > ../elsewhere/notes",
    "rm -rf ../elsewhere",
    "mv ../elsewhere here",
    "ln ../elsewhere/notes n && echo x > n",
    "ln -s ../elsewhere e; echo x > e/notes",
    "mount -o remount,rw /",
    "unshare -Ur mount -o remount,bind,rw ..",
    "echo x > /proc/self/root$(realpath ../elsewhere)/notes",
    "echo x > /proc/self/cwd/../elsewhere/notes",
    "chmod 777 ../elsewhere ../elsewhere/notes",
    "touch ../elsewhere/notes",
    "mknod d b 8 0",
    "echo x > ~/.bashrc",
    "mkdir -p ~/.config/autostart",
    "echo x > ~/.harken/hooks/guard.md; test -e ~/.harken/hooks/guard.md",
]


def test_files_outside_are_not_writable(sandbox_folders: SandboxFolders) -> None:
    sandbox_folders.write({"elsewhere/notes": "as it was", "user/.bashrc": "as it was"})
    before = list_folder(sandbox_folders.around)
    result = sandbox_folders.run("\n".join(f"({command}) || echo refused" for command in CHANGING))
    assert result.count("refused") >= len(CHANGING)
    assert list_folder(sandbox_folders.around) == before


STEERING = {
    ".harken/hooks/guard.md": SECRET,
    ".harken/config.toml": "",
    ".claude/settings.json": "{}",
    ".mcp.json": "{}",
    ".git/config": "[core]\n",
    ".git/hooks/pre-commit": "#!/bin/sh\n",
    ".git/modules/sub/config": "[core]\n",
    ".git/HEAD": "ref: refs/heads/main\n",
}


@pytest.mark.parametrize(
    "change",
    [
        "echo x > {0}",
        "rm -f {0}",
        "echo x > y && mv -f y {0}",
        "ln {0} y && echo x > y",
        "ln -sf /dev/null {0}",
        "mv $(dirname {0}) away",
        "mv $(dirname $(dirname {0})) away",
        "cp -r $(dirname {0}) y && rm -rf $(dirname {0}) && mv y $(dirname {0})",
        "sed -i s/a/b/ {0}",
        "unshare -Ur sh -c 'umount {0}; umount $(dirname {0}); echo x > {0}'",
        "mount --bind /dev/null {0}",
        "chmod 777 {0}",
    ],
)
def test_control_files_are_not_writable(sandbox_folders: SandboxFolders, change: str) -> None:
    sandbox_folders.write({f"work/{file}": text for file, text in STEERING.items()})
    files = [sandbox_folders.work / name for name in STEERING if not name.endswith("HEAD")]
    before = [(file.read_text(), file.stat().st_ino, file.stat().st_mode) for file in files]
    tries = "\n".join(f"({change.format(file)})" for file in files)
    assert len(sandbox_folders.run(tries).splitlines()) >= len(files), "each is refused"
    assert [(file.read_text(), file.stat().st_ino, file.stat().st_mode) for file in files] == before


def test_repository_is_usable(sandbox_folders: SandboxFolders) -> None:
    git = "git -c user.name=Ann -c user.email=ann@example.org"
    assert sandbox_folders.run("git init -q && echo a > a && git add a").startswith("exit code 0")
    assert (
        sandbox_folders.run(f"{git} commit -qm one && git log --format=%s")
        == "exit code 0 (in the sandbox)\none\n"
    )
    result = sandbox_folders.run("git config core.hooksPath /tmp/x")
    assert "not what decides which programs run later" in result


@pytest.mark.parametrize(
    "make",
    [
        "mkdir -p .harken/hooks && echo x > .harken/hooks/guard.md",
        "ln -s ../elsewhere .harken",
        "mkdir .claude && echo {} > .claude/settings.json",
        "echo {} > .mcp.json",
    ],
)
def test_created_control_files_are_moved_aside(sandbox_folders: SandboxFolders, make: str) -> None:
    result = sandbox_folders.run(make)
    [created] = sandbox_folders.work.iterdir()
    assert created.name.endswith(".made-by-a-command")
    assert "it was renamed to" in result
    sandbox_folders.run(make)
    assert len(list(sandbox_folders.work.iterdir())) == 2, (
        "the second one does not take the first one's name"
    )


def test_created_control_files_are_moved_aside_from_a_read_only_folder() -> None:
    with as_unprivileged_user() as folder:
        places = {str(folder / name): None for name in (".claude", ".harken")}
        for place in places:
            Path(place).mkdir(mode=0o000)
        folder.chmod(0o555)
        assert SandboxedCommand([], {}, places).rename_protected_paths() == list(places)
        assert sorted(path.name for path in folder.iterdir()) == [
            ".claude.made-by-a-command",
            ".harken.made-by-a-command",
        ]


def test_killed_command_leaves_no_control_files(sandbox_folders: SandboxFolders) -> None:
    with pytest.raises(Exception, match=r"renamed to \.mcp\.json\.made-by-a-command"):
        sandbox_folders.run("echo {} > .mcp.json; sleep 60", 0.5)
    assert not (sandbox_folders.work / ".mcp.json").exists()


def test_repository_cannot_be_redirected_to_another_configuration(
    sandbox_folders: SandboxFolders,
) -> None:
    sandbox_folders.write({f"work/{item}": text for item, text in STEERING.items()})
    sandbox_folders.run("mkdir evil; echo ../evil > .git/commondir; echo x > .git/config.worktree")
    assert not (sandbox_folders.work / ".git/commondir").exists()
    assert not (sandbox_folders.work / ".git/config.worktree").exists()


def test_symlink_in_place_of_a_control_file_is_not_followed(
    sandbox_folders: SandboxFolders,
) -> None:
    sandbox_folders.write({"work/shared/settings.json": "{}"})
    (sandbox_folders.work / ".claude").symlink_to("shared")
    result = sandbox_folders.run(
        "echo x > .claude/settings.json; rm .claude; ln -s ../elsewhere .claude"
    )
    assert (sandbox_folders.work / "shared/settings.json").read_text() == "{}"
    assert not (sandbox_folders.work / ".claude").exists()
    assert "renamed to .claude.made-by-a-command" in result


def test_login_scripts_in_the_home_folder_are_not_writable(sandbox_folders: SandboxFolders) -> None:
    sandbox_folders.write({"user/.bashrc": "", "user/.config/gh/hosts.yml": SECRET})
    sandbox_folders.wanted["folder"] = sandbox_folders.around / "user"
    shell = sandbox_folders.sandbox()
    assert shell.folder == sandbox_folders.around / "user"
    for command in ("echo x >> ~/.bashrc", "mv ~/.config ~/.c", "cat ~/.config/gh/hosts.yml"):
        assert not sandbox_folders.run(command).startswith("exit code 0"), command
    sandbox_folders.run("mkdir ~/.aws; echo x > ~/.aws/config")
    assert not (sandbox_folders.around / "user/.aws").exists()


def test_harken_home_as_working_folder_is_empty(sandbox_folders: SandboxFolders) -> None:
    sandbox_folders.wanted["folder"] = sandbox_folders.home
    assert "guard" not in sandbox_folders.run("ls -aR ~/.harken")


def test_trusted_project_below_the_folder_is_not_writable(sandbox_folders: SandboxFolders) -> None:
    sandbox_folders.write({"work/sub/.harken/config.toml": "as it was"})
    sandbox_folders.wanted["steering"] = [sandbox_folders.work / "sub/.harken"]
    sandbox_folders.run("echo x > sub/.harken/config.toml; mv sub other; mkdir -p sub/.harken")
    assert (sandbox_folders.work / "sub/.harken/config.toml").read_text() == "as it was"


def test_code_of_harken_is_not_writable(sandbox_folders: SandboxFolders) -> None:
    """If it is below the folder, as in a virtual environment of the project."""
    import harken

    package = Path(harken.__file__).parent
    sandbox_folders.wanted["folder"] = package.parent
    result = sandbox_folders.run(f"touch -c {package}/agents/base.py {package}/errors.py")
    assert result.count("Read-only file system") == 2


def test_unix_sockets_outside_are_not_reachable(sandbox_folders: SandboxFolders) -> None:
    places = ("elsewhere/door", "user/door", "tmp/door", "user/.harken/door", "work/../door")
    with ExitStack() as open_doors:
        for where in places:
            open_doors.enter_context(listening_socket(str(sandbox_folders.around / where)))
        result = sandbox_folders.run(
            "\n".join(CONNECT + str(sandbox_folders.around / where) for where in places)
        )
    assert "come in" not in result
    assert result.count("Error") == len(places)


def test_abstract_unix_sockets_outside_are_not_reachable(sandbox_folders: SandboxFolders) -> None:
    name = f"harken-test-{os.getpid()}"
    with listening_socket(f"\0{name}"):
        assert "Connection refused" in sandbox_folders.run(CONNECT + f"@{name}")


def test_commit_socket_of_the_agent_is_reachable(sandbox_folders: SandboxFolders) -> None:
    """The caller sets a variable with its path in Harken's home."""
    path = str(sandbox_folders.home / "1.sock")
    with listening_socket(path):
        assert "come in" in sandbox_folders.run(CONNECT + "$ASK", ASK=path)
        assert "come in" not in sandbox_folders.run(CONNECT + path)


def test_processes_outside_are_neither_visible_nor_signalled(
    sandbox_folders: SandboxFolders,
) -> None:
    with subprocess.Popen(["sleep", "60"]) as outside:
        result = sandbox_folders.run(
            f"ls -d /proc/[0-9]* | wc -l; kill {outside.pid}; pkill sleep; true"
        )
        assert outside.poll() is None
        outside.kill()
    assert int(result.splitlines()[1]) < 10


def test_command_has_no_terminal(sandbox_folders: SandboxFolders) -> None:
    assert not sandbox_folders.run("exec 5<>/dev/tty").startswith("exit code 0")
    assert "not a tty" in sandbox_folders.run("tty")


def test_command_has_no_open_files_except_its_output(sandbox_folders: SandboxFolders) -> None:
    listing = sandbox_folders.run(
        f"{sys.executable} -c 'import os; print(os.listdir(\"/proc/self/fd\"))'"
    )
    assert listing == "exit code 0 (in the sandbox)\n['0', '1', '2', '3']\n", (
        "3 is the folder that is listed"
    )


def test_command_has_no_capabilities_of_its_user(sandbox_folders: SandboxFolders) -> None:
    status = sandbox_folders.run("grep -E 'Cap|NoNewPrivs' /proc/self/status")
    assert status.count("0000000000000000") == 5
    assert "NoNewPrivs:\t1" in status


@pytest.mark.parametrize(
    "path",
    [
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/vm/swappiness",
        "/proc/sysrq-trigger",
        "/proc/sys/kernel/modprobe",
    ],
)
def test_kernel_settings_are_not_writable(sandbox_folders: SandboxFolders, path: str) -> None:
    """Root could write them even in its own namespace without capabilities."""
    assert not sandbox_folders.run(f"test -e {path} && : >> {path}").startswith("exit code 0")


@pytest.mark.parametrize(
    "command", ["unshare -Ur true", "unshare -n true", "bwrap --ro-bind / / true", "chroot . true"]
)
def test_command_creates_no_namespaces(sandbox_folders: SandboxFolders, command: str) -> None:
    if not sandbox_folders.sandbox().options:
        pytest.skip("this bubblewrap cannot forbid it")
    assert not sandbox_folders.run(command).startswith("exit code 0")


def test_exit_status_cannot_be_forged(sandbox_folders: SandboxFolders) -> None:
    """The stdin of the command is not the pipe of the status."""
    assert sandbox_folders.run("echo 0 >&0; echo 0 > /proc/1/fd/0; exit 7").startswith(
        "exit code 7"
    )


def test_private_variables_are_not_in_the_sandbox_process(sandbox_folders: SandboxFolders) -> None:
    sandbox_folders.environ |= {"GITHUB_TOKEN": SECRET, "SSH_AUTH_SOCK": "/run/agent"}
    result = sandbox_folders.run(
        "cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n'; env; echo $GITHUB_TOKEN"
    )
    assert SECRET not in result
    assert "/run/agent" not in result
    assert "not passed to commands, because it may be secret: GITHUB_TOKEN" in result


def list_folder(folder: Path) -> dict[str, tuple[int, str]]:
    """Return the entries of a folder except those of the agent and of Harken."""
    collected = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if not name.startswith(("work/", "user/.harken/outputs")) and name != "user/.harken":
            text = path.read_text() if path.is_file() else ""
            collected[name] = (path.stat().st_mode, text)
    return collected
