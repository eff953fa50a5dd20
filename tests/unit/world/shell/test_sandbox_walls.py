"""The ways out of the sandbox that one can think of: none is one."""

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
from tests.unit.world.shell.boxing import SECRET, Box, without_power

CONNECT = (
    f"{sys.executable} -c 'import socket, sys; s = socket.socket(socket.AF_UNIX); "
    's.connect(sys.argv[1].replace("@", chr(0))); print(s.recv(9))\' '
)


@contextmanager
def door(address: str) -> Iterator[None]:
    """Let a program outside say `come in` to whoever connects."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()

        def answer() -> None:
            try:
                while True:
                    one, _ = server.accept()
                    one.sendall(b"come in")
                    one.close()
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


def test_what_is_private_is_not_read(box: Box) -> None:
    box.write({"elsewhere/kube": SECRET})
    (box.around / "linked").symlink_to(box.around / "user/.ssh")
    box.environ["KUBECONFIG"] = str(box.around / "elsewhere/kube")
    result = box.run("\n".join(f"({command})" for command in READING))
    assert SECRET not in result
    assert len(result.splitlines()) > len(READING), "each is refused"


def test_what_was_typed_into_a_shell_is_not_read(box: Box) -> None:
    places = [
        ".bash_history",
        ".zsh_history",
        ".zhistory",
        ".sh_history",
        ".local/share/fish/fish_history",
        ".config/nushell/history.txt",
        ".local/share/atuin/history.db",
    ]
    box.write({f"user/{place}": SECRET for place in places})
    assert SECRET not in box.run("cd; cat " + " ".join(places))


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


def test_what_is_outside_is_not_changed(box: Box) -> None:
    box.write({"elsewhere/notes": "as it was", "user/.bashrc": "as it was"})
    before = seen(box.around)
    result = box.run("\n".join(f"({command}) || echo refused" for command in CHANGING))
    assert result.count("refused") >= len(CHANGING)
    assert seen(box.around) == before


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
def test_what_steers_is_not_changed(box: Box, change: str) -> None:
    box.write({f"work/{one}": text for one, text in STEERING.items()})
    files = [box.work / name for name in STEERING if not name.endswith("HEAD")]
    before = [(one.read_text(), one.stat().st_ino, one.stat().st_mode) for one in files]
    tries = "\n".join(f"({change.format(one)})" for one in files)
    assert len(box.run(tries).splitlines()) >= len(files), "each is refused"
    assert [(one.read_text(), one.stat().st_ino, one.stat().st_mode) for one in files] == before


def test_a_repository_can_be_worked_in_all_the_same(box: Box) -> None:
    git = "git -c user.name=Ann -c user.email=ann@example.org"
    assert box.run("git init -q && echo a > a && git add a").startswith("exit code 0")
    assert (
        box.run(f"{git} commit -qm one && git log --format=%s")
        == "exit code 0 (in the sandbox)\none\n"
    )
    result = box.run("git config core.hooksPath /tmp/x")
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
def test_what_would_steer_is_put_aside_where_a_command_made_it(box: Box, make: str) -> None:
    result = box.run(make)
    [made] = box.work.iterdir()
    assert made.name.endswith(".made-by-a-command")
    assert "it was renamed to" in result
    box.run(make)
    assert len(list(box.work.iterdir())) == 2, "the second one does not take the first one's name"


def test_what_would_steer_is_put_aside_also_from_a_folder_that_is_kept_from_writing() -> None:
    with without_power() as folder:
        places = {str(folder / name): None for name in (".claude", ".harken")}
        for place in places:
            Path(place).mkdir(mode=0o000)
        folder.chmod(0o555)
        assert SandboxedCommand([], {}, places).rename_protected_paths() == list(places)
        assert sorted(one.name for one in folder.iterdir()) == [
            ".claude.made-by-a-command",
            ".harken.made-by-a-command",
        ]


def test_a_command_that_is_ended_leaves_nothing_that_steers(box: Box) -> None:
    with pytest.raises(Exception, match=r"renamed to \.mcp\.json\.made-by-a-command"):
        box.run("echo {} > .mcp.json; sleep 60", 0.5)
    assert not (box.work / ".mcp.json").exists()


def test_a_repository_is_not_led_to_another_configuration(box: Box) -> None:
    box.write({f"work/{one}": text for one, text in STEERING.items()})
    box.run("mkdir evil; echo ../evil > .git/commondir; echo x > .git/config.worktree")
    assert not (box.work / ".git/commondir").exists()
    assert not (box.work / ".git/config.worktree").exists()


def test_a_link_in_the_place_of_what_steers_is_not_led_elsewhere(box: Box) -> None:
    box.write({"work/shared/settings.json": "{}"})
    (box.work / ".claude").symlink_to("shared")
    result = box.run("echo x > .claude/settings.json; rm .claude; ln -s ../elsewhere .claude")
    assert (box.work / "shared/settings.json").read_text() == "{}"
    assert not (box.work / ".claude").exists()
    assert "renamed to .claude.made-by-a-command" in result


def test_in_the_home_of_the_user_what_runs_at_the_next_login_is_not_changed(box: Box) -> None:
    box.write({"user/.bashrc": "", "user/.config/gh/hosts.yml": SECRET})
    box.wanted["folder"] = box.around / "user"
    shell = box.sandbox()
    assert shell.folder == box.around / "user"
    for command in ("echo x >> ~/.bashrc", "mv ~/.config ~/.c", "cat ~/.config/gh/hosts.yml"):
        assert not box.run(command).startswith("exit code 0"), command
    box.run("mkdir ~/.aws; echo x > ~/.aws/config")
    assert not (box.around / "user/.aws").exists()


def test_the_home_of_harken_as_working_folder_is_empty(box: Box) -> None:
    box.wanted["folder"] = box.home
    assert "guard" not in box.run("ls -aR ~/.harken")


def test_a_trusted_project_below_the_folder_is_not_changed(box: Box) -> None:
    box.write({"work/sub/.harken/config.toml": "as it was"})
    box.wanted["steering"] = [box.work / "sub/.harken"]
    box.run("echo x > sub/.harken/config.toml; mv sub other; mkdir -p sub/.harken")
    assert (box.work / "sub/.harken/config.toml").read_text() == "as it was"


def test_the_code_that_watches_is_not_changed(box: Box) -> None:
    """Where it lies below the folder, as in an environment of the project."""
    import harken

    package = Path(harken.__file__).parent
    box.wanted["folder"] = package.parent
    result = box.run(f"touch -c {package}/agents/base.py {package}/errors.py")
    assert result.count("Read-only file system") == 2


def test_no_program_outside_is_reached_by_its_socket(box: Box) -> None:
    places = ("elsewhere/door", "user/door", "tmp/door", "user/.harken/door", "work/../door")
    with ExitStack() as open_doors:
        for where in places:
            open_doors.enter_context(door(str(box.around / where)))
        result = box.run("\n".join(CONNECT + str(box.around / where) for where in places))
    assert "come in" not in result
    assert result.count("Error") == len(places)


def test_no_program_outside_is_reached_by_a_socket_without_a_path(box: Box) -> None:
    name = f"harken-test-{os.getpid()}"
    with door(f"\0{name}"):
        assert "Connection refused" in box.run(CONNECT + f"@{name}")


def test_the_socket_that_tells_its_agents_commit_is_reached(box: Box) -> None:
    """It is named by a variable that the caller adds, and lies in Harken's home."""
    path = str(box.home / "1.sock")
    with door(path):
        assert "come in" in box.run(CONNECT + "$ASK", ASK=path)
        assert "come in" not in box.run(CONNECT + path)


def test_no_process_outside_is_seen_or_signalled(box: Box) -> None:
    with subprocess.Popen(["sleep", "60"]) as outside:
        result = box.run(f"ls -d /proc/[0-9]* | wc -l; kill {outside.pid}; pkill sleep; true")
        assert outside.poll() is None
        outside.kill()
    assert int(result.splitlines()[1]) < 10


def test_a_command_has_no_terminal(box: Box) -> None:
    assert not box.run("exec 5<>/dev/tty").startswith("exit code 0")
    assert "not a tty" in box.run("tty")


def test_a_command_has_no_open_file_but_its_output(box: Box) -> None:
    listed = box.run(f"{sys.executable} -c 'import os; print(os.listdir(\"/proc/self/fd\"))'")
    assert listed == "exit code 0 (in the sandbox)\n['0', '1', '2', '3']\n", (
        "3 is the folder that is listed"
    )


def test_a_command_has_no_power_that_its_user_has(box: Box) -> None:
    status = box.run("grep -E 'Cap|NoNewPrivs' /proc/self/status")
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
def test_what_holds_for_the_machine_is_not_changed(box: Box, path: str) -> None:
    """Root may write there, also in a namespace of its own and without capabilities."""
    assert not box.run(f"test -e {path} && : >> {path}").startswith("exit code 0")


@pytest.mark.parametrize(
    "command", ["unshare -Ur true", "unshare -n true", "bwrap --ro-bind / / true", "chroot . true"]
)
def test_a_command_makes_no_world_of_its_own(box: Box, command: str) -> None:
    if not box.sandbox().options:
        pytest.skip("this bubblewrap cannot forbid it")
    assert not box.run(command).startswith("exit code 0")


def test_how_a_command_ended_is_said_by_nobody_else(box: Box) -> None:
    """Its stdin is not the line on which that is said."""
    assert box.run("echo 0 >&0; echo 0 > /proc/1/fd/0; exit 7").startswith("exit code 7")


def test_private_variables_are_not_found_in_what_runs_the_command(box: Box) -> None:
    box.environ |= {"GITHUB_TOKEN": SECRET, "SSH_AUTH_SOCK": "/run/agent"}
    result = box.run(
        "cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n'; env; echo $GITHUB_TOKEN"
    )
    assert SECRET not in result
    assert "/run/agent" not in result
    assert "not passed to commands, because it may be secret: GITHUB_TOKEN" in result


def seen(folder: Path) -> dict[str, tuple[int, str]]:
    """Return what is in a folder, but for what is the agent's or Harken's own record."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if not name.startswith(("work/", "user/.harken/outputs")) and name != "user/.harken":
            text = path.read_text() if path.is_file() else ""
            found[name] = (path.stat().st_mode, text)
    return found
