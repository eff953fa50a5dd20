"""A command in the sandbox cannot leave a file with a set-user-id or set-group-id bit.

A command wrote a program and ran `chmod u+s` on it; started as root it left a program with the
rights of root for every user of the machine, long after the sandbox had ended: `nosuid` holds only
inside. Now a seccomp filter refuses every system call that sets such a bit.
"""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from tests.unit.world.shell.sandbox_kit import SandboxFolders, sandbox_folders

__all__ = ["sandbox_folders"]

PYTHON = r"""
import ctypes, mmap, os, platform, subprocess, sys, tarfile, zipfile
libc = ctypes.CDLL(None, use_errno=True)
MODE = int(sys.argv[1], 8)

def by_number(number, *arguments):
    if libc.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

def by_openat2(name):
    how = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, MODE, 0)
    by_number(437, -100, name.encode(), how, ctypes.sizeof(how))

def by_old_call(name):
    '''The `chmod` of 32-bit programs, which 64-bit ones can make, too.'''
    open(name, "w").close()
    if platform.machine() != "x86_64":
        return
    child = os.fork()
    if child == 0:  # a kernel without these calls ends it
        area = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40, 7)
        address = ctypes.addressof(ctypes.c_char.from_buffer(area))
        text = name.encode() + b"\0"
        code = b"\x53\xb8\x0f\0\0\0\xbb" + (address + 64).to_bytes(4, "little")
        code += b"\xb9" + MODE.to_bytes(4, "little") + b"\xcd\x80\x5b\xc3"
        area[:len(code)] = code
        area[64:64 + len(text)] = text
        ctypes.CFUNCTYPE(ctypes.c_int)(address)()
        os._exit(0)
    os.waitpid(child, 0)

def by_temporary_file(name):
    file = os.open(".", os.O_TMPFILE | os.O_WRONLY, MODE)
    os.link(f"/proc/self/fd/{file}", name, src_dir_fd=None)

def made(name):
    open(name, "w").close()
    return name

def by_tar(name):
    with tarfile.open(name + ".tar", "w") as archive:
        entry = tarfile.TarInfo(name)
        entry.mode = MODE
        archive.addfile(entry)
    subprocess.run(["tar", "-xpf", name + ".tar"], stderr=subprocess.DEVNULL)

def by_descriptor(name):
    file = os.open(name, os.O_CREAT | os.O_RDWR, 0o755)
    os.fchmod(file, MODE)

WAYS = {
    "chmod": lambda name: os.chmod(made(name), MODE),
    "fchmod": by_descriptor,
    "fchmodat": lambda name: os.chmod(made(name), MODE, dir_fd=os.open(".", os.O_RDONLY)),
    "fchmodat2": lambda name: by_number(452, -100, made(name).encode(), MODE, 0),
    "open": lambda name: os.open(name, os.O_CREAT | os.O_WRONLY, MODE),
    "openat2": by_openat2,
    "mknod": lambda name: os.mknod(name, 0o100000 | MODE),
    "tmpfile": by_temporary_file,
    "tar": by_tar,
    "install": lambda name: subprocess.run(["install", "-m", oct(MODE)[2:], "/bin/true", name]),
    "symbolic": lambda name: subprocess.run(["chmod", "ug+s", made(name)]),
    "32 bits": by_old_call,
    "x32": lambda name: by_number(0x40000000 | 90, made(name).encode(), MODE),
    "other name": lambda name: (os.chmod(made("first"), MODE), os.rename("first", name)),
    "io_uring": lambda name: by_number(425, 1, ctypes.create_string_buffer(120)) or made("ring"),
}
os.umask(0)
for way, do in WAYS.items():
    try:
        do("by-" + way.replace(" ", "-"))
    except OSError as error:
        print(way, "refused:", error.strerror)
"""


def set_id_files(folder: Path) -> list[str]:
    """Return the files below a folder that have a set-user-id or set-group-id bit."""
    bits = stat.S_ISUID | stat.S_ISGID
    return sorted(one.name for one in folder.rglob("*") if one.lstat().st_mode & bits)


@pytest.mark.parametrize("mode", ["4755", "2755", "6711"])
def test_no_way_to_set_the_bit_leaves_one(sandbox_folders: SandboxFolders, mode: str) -> None:
    (sandbox_folders.around / "elsewhere").mkdir(exist_ok=True)
    sandbox_folders.wanted["allowed"] = [sandbox_folders.around / "elsewhere"]
    sandbox_folders.write({"work/ways.py": PYTHON})
    folders = ("$PWD", str(sandbox_folders.around / "elsewhere"), "$TMPDIR")
    ways = sandbox_folders.work / "ways.py"
    result = sandbox_folders.run(
        "\n".join(f"(cd {one} && {sys.executable} {ways} {mode}) 2>&1" for one in folders)
    )
    assert "chmod refused: Operation not permitted" in result
    assert not (sandbox_folders.work / "ring").exists()
    assert set_id_files(sandbox_folders.around) == []


def test_a_bit_that_was_there_does_not_stay_on_other_content(
    sandbox_folders: SandboxFolders,
) -> None:
    tool = sandbox_folders.work / "tool"
    tool.write_text("as it was")
    tool.chmod(0o6755)
    sandbox_folders.run("echo other > tool; ln tool linked; cp -p tool copied; mv tool moved")
    assert set_id_files(sandbox_folders.around) == []


def test_ordinary_modes_are_set_as_before(sandbox_folders: SandboxFolders) -> None:
    result = sandbox_folders.run(
        "umask 022; echo > a; chmod 755 a; mkdir -m 1777 b; install -m 640 a c; chmod u+x,g-w c\n"
        "tar cf t.tar a c && mkdir d && tar -xpf t.tar -C d && stat -c %a a b c d/a d/c"
    )
    assert result == "exit code 0 (in the sandbox)\n755\n1777\n740\n755\n740\n"


def test_the_result_says_why_it_is_refused(sandbox_folders: SandboxFolders) -> None:
    result = sandbox_folders.run("echo > a; chmod u+s a")
    assert "no file with a set-user-id" in result.splitlines()[-1]


def test_the_filter_is_not_changed_by_a_command(sandbox_folders: SandboxFolders) -> None:
    sandbox_folders.run("true")
    [file] = (sandbox_folders.home / "outputs/one").glob("*.bpf")
    before = file.read_bytes()
    sandbox_folders.run(f"echo x > {file}; rm -f {file}")
    assert file.read_bytes() == before
    file.chmod(0o600)
    file.write_bytes(b"")
    assert "Operation not permitted" in sandbox_folders.run("echo > a; chmod u+s a 2>&1")
