"""A socket in a private folder of another user does not keep root from having a sandbox.

Each socket at which a program listens is mounted over. Root sees also those in private folders of
other users (a mail server has some), but cannot mount there, so that there was no sandbox at all.
Now a socket that no command can reach is left out.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from harken.world.shell.sensitive_paths import is_reachable
from tests.unit.world.shell.sandbox_kit import SandboxFolders, sandbox_folders

__all__ = ["sandbox_folders"]


def test_a_path_in_a_folder_of_ones_own_is_reachable(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    assert is_reachable(str(closed / "a.sock"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root sees into folders of other users")
def test_root_has_a_sandbox_beside_private_sockets_of_others(
    sandbox_folders: SandboxFolders,
) -> None:
    with TemporaryDirectory(prefix="s-") as name, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{name}/a.sock")
        listener.listen()
        os.chown(name, 54321, 54321)
        assert not is_reachable(f"{name}/a.sock")
        assert sandbox_folders.run("true").startswith("exit code 0 (in the sandbox)")
        os.chown(name, 0, 0)
        assert is_reachable(f"{name}/a.sock")
