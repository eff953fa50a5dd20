"""The file with logins: whose they are, who can read it, and what is never shown."""

from __future__ import annotations

import asyncio
import fcntl
from pathlib import Path

import pytest

from harken.errors import ConfigError
from harken.world.mcp.auth.token_store import Login, Logins, login_key
from harken.world.mcp.server_config import McpServerConfig

DOCS = McpServerConfig(name="docs", url="https://a.example/mcp")
LOGIN = Login(
    name="docs",
    place="https://a.example",
    client_secret="s3cret-client",
    access_token="s3cret-access",
    refresh_token="s3cret-refresh",
)


def test_a_login_belongs_to_name_and_address_together(tmp_path: Path) -> None:
    logins = Logins(tmp_path / "logins.json")
    assert logins.get(DOCS) is None
    logins.put(DOCS, LOGIN)
    assert logins.get(DOCS) == LOGIN
    assert logins.get(McpServerConfig(name="docs", url="https://evil.example/mcp")) is None
    assert logins.get(McpServerConfig(name="docs", url="https://a.example/mcp/..")) is None
    assert logins.get(McpServerConfig(name="other", url=DOCS.url)) is None


def test_only_its_owner_can_read_the_file(tmp_path: Path) -> None:
    logins = Logins(tmp_path / "home" / "logins.json")
    logins.put(DOCS, LOGIN)
    files = [*logins.file.parent.iterdir()]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert logins.file.parent.stat().st_mode & 0o077 == 0
    logins.file.chmod(0o640)
    with pytest.raises(ConfigError, match="other users can read the tokens in it"):
        logins.get(DOCS)


def test_a_link_is_no_file_of_logins(tmp_path: Path) -> None:
    Logins(tmp_path / "real.json").put(DOCS, LOGIN)
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    with pytest.raises(ConfigError, match="read failed"):
        Logins(tmp_path / "link.json").get(DOCS)


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff", b'{"version": 1, "logins": {"x": 5}}'])
def test_a_damaged_file_is_said_and_left_as_it_is(tmp_path: Path, data: bytes) -> None:
    logins = Logins(tmp_path / "logins.json")
    logins.file.touch(mode=0o600)
    logins.file.write_bytes(data)
    with pytest.raises(ConfigError, match="damaged; remove it, and log in again"):
        logins.put(DOCS, LOGIN)
    assert logins.file.read_bytes() == data


def test_who_logs_out_is_forgotten_at_all_addresses_of_that_name(tmp_path: Path) -> None:
    logins = Logins(tmp_path / "logins.json")
    logins.put(DOCS, LOGIN)
    logins.put(McpServerConfig(name="docs", url="https://b.example"), LOGIN)
    assert logins.remove("docs") == [LOGIN, LOGIN]
    assert logins.remove("docs") == []
    assert b"s3cret" not in logins.file.read_bytes()


def test_no_secret_of_a_login_is_shown() -> None:
    assert "s3cret" not in repr(LOGIN)


def test_a_token_is_renewed_by_one_at_a_time(tmp_path: Path) -> None:
    logins = Logins(tmp_path / "logins.json")
    inside: list[int] = []

    async def renew() -> None:
        async with logins.lock_renewal(DOCS):
            inside.append(1)
            assert len(inside) == 1
            await asyncio.sleep(0.01)
            inside.pop()

    async def scene() -> None:
        await asyncio.gather(*(renew() for _ in range(4)))

    asyncio.run(scene())


def test_another_program_that_holds_the_file_is_not_waited_for_without_end(tmp_path: Path) -> None:
    logins = Logins(tmp_path / "logins.json", lock_timeout_s=0.2)

    async def renew() -> None:
        async with logins.lock_renewal(DOCS):
            raise AssertionError

    with (tmp_path / "logins.json.lock").open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(ConfigError, match="locked by another process for too long"):
            logins.put(DOCS, LOGIN)
    with (tmp_path / f"logins.json.{login_key(DOCS)[:12]}.lock").open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(ConfigError, match="another process is refreshing"):
            asyncio.run(renew())
    assert logins.by_key() == {}
