"""Processes of `harken` that need not import it: a server that has done so forks them.

`start` and `run` are `subprocess.Popen` and `subprocess.run` for a command that starts with `HARKEN`,
or with `python -m tests.`: a program of the tests. The process has its own id, exit code, signals, environment, folder and streams. Only the import of
the commands is not repeated, which takes most of the time of a short command. What a server cannot
do starts `harken` itself, as does `HARKEN_TEST_FORKS=0` (`make test-full`). A test of imports, of
the start, or of a terminal starts `HARKEN` itself.
"""

from __future__ import annotations

import atexit
import os
import select
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from subprocess import CompletedProcess, Popen, TimeoutExpired
from typing import Any

from tests.forks.request import receive_status, request_process

HARKEN = Path(sys.executable).with_name("harken")
ROOT = Path(__file__).parents[2]
MAX_REQUEST_BYTES = 100_000
IS_FORKING = sys.platform == "linux" and os.environ.get("HARKEN_TEST_FORKS") != "0"
_ENVIRON = dict(os.environ)
"""The environment before any test."""
_LOCK = threading.Lock()
"""Tests start processes in several threads."""
_READ_AT_START = ("PYTHON", "LC_", "LANG")
"""Prefixes of variables that Python reads when it starts."""
_OPTIONS = {"stdin", "stdout", "stderr", "cwd", "env", "text", "encoding", "errors", "bufsize"}
"""Options of `subprocess.Popen` that a forked process can have."""


def start_server(*modules: str) -> str:
    """Start a fork server for the tests in this process, once; return the path of its socket."""
    with _LOCK:
        return _start_server(*modules)


@cache
def _start_server(*modules: str) -> str:
    folder = tempfile.TemporaryDirectory(prefix="harken-", dir="/tmp", ignore_cleanup_errors=True)
    path = f"{folder.name}/forks"
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", "tests.forks.server", path, *modules]
    server = Popen(command, stdin=pipe, stdout=pipe, cwd=ROOT, env=_ENVIRON)
    assert server.stdin is not None
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    atexit.register(folder.cleanup)
    atexit.register(server.wait)
    atexit.register(server.stdin.close)  # This comes first. Then the server ends.
    return path


def write_command(folder: Path) -> Path:
    """Write a `harken` for a shell or a client, which asks the server; return its path."""
    if not IS_FORKING:
        return HARKEN
    return _write_script(folder / "harken", f'exec {_format_request(start_server())} "$@"')


def write_python(folder: Path, module: str) -> None:
    """Write a `python` for a shell: a forked `python -m MODULE` runs a program of a file or text."""
    if IS_FORKING:
        request = _format_request(start_server(module))
        _write_script(
            folder / "python",
            f'case "$1" in -c | [!-]*) exec {request} "$@";; esac; exec {sys.executable} "$@"',
        )


def _format_request(path: str) -> str:
    return f"{sys.executable} -ISs {Path(__file__).with_name('request.py')} {path}"


def _write_script(path: Path, line: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
    return path


class _ForkedProcess(Popen[Any]):
    """A `subprocess.Popen` whose process is a child of the fork server."""

    def _execute_child(self, *values: Any) -> None:
        """Start the process. `values`: the parameters of this method of `subprocess.Popen`."""
        command, cwd, env, pipes = (values[0], *values[5:7], values[10:16])
        is_program = str(command[0]) == sys.executable
        stdin, _, _, stdout, _, stderr = pipes
        self._connection, self.pid = request_process(
            start_server(*map(str, command[2:3])) if is_program else start_server(),
            [str(word) for word in command[3 if is_program else 1 :]],
            str(Path.cwd() if cwd is None else cwd),
            {name: str(value) for name, value in (os.environ if env is None else env).items()},
            [own if own != -1 else number for number, own in enumerate((stdin, stdout, stderr))],
        )
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None and select.select([self._connection], [], [], 0)[0]:
            self.returncode = receive_status(self._connection)
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        if self.returncode is None and not select.select([self._connection], [], [], timeout)[0]:
            assert timeout is not None
            raise TimeoutExpired(self.args, timeout)
        self._internal_poll()
        return self.returncode


def start(command: Sequence[str | Path], **options: Any) -> Popen[Any]:
    """Start a process, with the options of `subprocess.Popen`. `harken` is forked where it can be."""
    return (_ForkedProcess if _can_fork(command, options) else Popen)(command, **options)


def run(
    command: Sequence[str | Path],
    *,
    input: bytes | str | None = None,  # as subprocess.run calls it
    capture_output: bool = False,
    timeout: float | None = None,
    check: bool = False,
    **options: Any,
) -> CompletedProcess[Any]:
    """Run a process until it ends, with the options of `subprocess.run`."""
    if input is not None:
        options["stdin"] = subprocess.PIPE
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with start(command, **options) as process:
        try:
            out, err = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    ran = CompletedProcess(process.args, process.returncode, out, err)
    if check:
        ran.check_returncode()
    return ran


def _can_fork(command: Sequence[str | Path], options: Mapping[str, Any]) -> bool:
    """Whether a forked process equals a started one, for all that the options say."""
    is_program = command[:2] == [sys.executable, "-m"] and str(command[2]).startswith("tests.")
    if not (IS_FORKING and (is_program or command[0] in (HARKEN, str(HARKEN)))):
        return False
    if not options.keys() <= _OPTIONS:
        return False
    env: Mapping[str, str] = os.environ if options.get("env") is None else options["env"]
    names = {name for name in env.keys() | _ENVIRON.keys() if env.get(name) != _ENVIRON.get(name)}
    size = sum(len(str(text)) for text in (*command, *env, *env.values()))
    return size < MAX_REQUEST_BYTES and not any(name.startswith(_READ_AT_START) for name in names)
