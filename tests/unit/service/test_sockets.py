"""The addresses on which the service listens."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

import pytest

from harken.errors import ConfigError
from harken.service.sockets import address_of, listen_at, listen_in

pytestmark = pytest.mark.req("D-07")


@pytest.mark.parametrize("host", ["0.0.0.0", "", "::", "192.0.2.1", "example.org"])
def test_non_loopback_address_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match="--open-to-network"), listen_at(host, 0):
        pass


def test_non_loopback_address_is_allowed_explicitly() -> None:
    with listen_at("0.0.0.0", 0, to_all=True) as listener:
        assert listener.getsockname()[0] == "0.0.0.0"


def test_port_in_use_is_an_error() -> None:
    with listen_at("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        assert address_of(first) == f"http://127.0.0.1:{port}"
        port_error = pytest.raises(ConfigError, match=rf"127\.0\.0\.1:{port} .*--port")
        with port_error, listen_at("127.0.0.1", port):
            pass


def test_socket_is_private_and_removed_at_exit(tmp_path: Path) -> None:
    path = tmp_path / "run" / "s"
    with listen_in(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert not path.exists()


def test_folder_accessible_to_others_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    with pytest.raises(ConfigError, match="chmod 700"), listen_in(tmp_path / "open" / "s"):
        pass


def test_stale_socket_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(folder / "s"))
    with listen_in(folder / "s"):
        with pytest.raises(ConfigError, match="another service"), listen_in(folder / "s"):
            pass
        assert (folder / "s").exists()


def test_regular_file_is_not_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    (folder / "s").write_text("mine")
    with pytest.raises(ConfigError, match="exists and is not a socket"), listen_in(folder / "s"):
        pass
    assert (folder / "s").read_text() == "mine"


def test_too_long_path_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="too long"), listen_in(tmp_path / ("s" * 120)):
        pass
