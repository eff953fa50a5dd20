"""`harken ui`, as a process of its own."""

from __future__ import annotations

import hmac
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.cli.kit import HARKEN, Cli
from tests.forks import processes


@contextmanager
def showing(home: Path, *arguments: str, **environment: str) -> Iterator[tuple[Popen[str], str]]:
    """Run `harken ui` as a process; yield it, and the link that it prints."""
    with processes.start(
        [HARKEN, "ui", "--home", home, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    ) as process:
        try:
            assert process.stdout is not None
            link = process.stdout.readline().strip()
            assert link, process.communicate()
            yield process, link
        finally:
            if process.poll() is None:
                process.kill()


def token_of(link: str) -> str:
    return parse_qs(urlsplit(link).fragment)["token"][0]


def ask(link: str) -> int:
    """Return the status of a request with the token of a link."""
    headers = {"Authorization": f"Bearer {token_of(link)}"}
    base = link.partition("/#")[0]
    return httpx.get(f"{base}/api/about", headers=headers, trust_env=False).status_code


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_a_link_and_serves_until_a_signal(demo: Cli, how: signal.Signals) -> None:
    with showing(demo.home, "demo", "--no-open", "--port", "0") as (process, link):
        parts = urlsplit(link)
        assert (parts.hostname, parts.query) == ("127.0.0.1", "")
        assert parse_qs(parts.fragment)["session"] == ["demo"]
        assert ask(link) == 200
        with httpx.stream(
            "GET",
            f"http://{parts.netloc}/api/sessions/demo/follow",
            headers={"Authorization": f"Bearer {token_of(link)}"},
            trust_env=False,
        ) as stream:
            next(stream.iter_lines())
            process.send_signal(how)
            out, err = process.communicate(timeout=20)  # A page that follows holds nothing up.
    assert (process.returncode, out, err) == (0, "", "")


def test_each_start_has_its_own_token_which_is_in_no_file(demo: Cli) -> None:
    links: list[str] = []
    for _ in range(2):
        with showing(demo.home, "--no-open", "--port", "0") as (_, link):
            links.append(link)
            assert (len(token_of(link)) >= 43, ask(link)) == (True, 200)
            assert ask(link.replace(token_of(link), "x" * 43)) == 401
            assert ask(link.replace(token_of(link), token_of(links[0]))) == (
                200 if link == links[0] else 401
            )
            files = [path for path in demo.home.rglob("*") if path.is_file()]
            assert [path for path in files if token_of(link).encode() in path.read_bytes()] == []
    assert token_of(links[0]) != token_of(links[1])


def test_the_server_proves_that_it_has_the_token(demo: Cli) -> None:
    nonce = "0123456789abcdef" * 4
    with showing(demo.home, "--no-open", "--port", "0") as (_, link):
        base, key = link.partition("/#")[0], token_of(link).encode()
        with httpx.Client(base_url=base, trust_env=False) as client:
            proof = client.get("/api/proof", params={"nonce": nonce}).json()["proof"]
            for invalid in ("", nonce[1:], nonce + "0", nonce.upper(), f"{nonce}\n"):
                assert client.get("/api/proof", params={"nonce": invalid}).status_code == 422
    assert proof == hmac.digest(key, b"harken ui proof:" + nonce.encode(), "sha256").hex()


def test_the_next_free_port_is_used_if_the_default_one_is_taken(demo: Cli) -> None:
    with (
        showing(demo.home, "--no-open") as (_, first),
        showing(demo.home, "--no-open") as (
            _,
            second,
        ),
    ):
        ports = [urlsplit(link).port for link in (first, second)]
        assert ports[0] != ports[1]
        assert (ask(first), ask(second)) == (200, 200)


def test_a_chosen_port_that_is_taken_is_an_error(demo: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refusal = demo.refused("ui", "--port", port)
        assert f"cannot listen on 127.0.0.1:{port}" in refusal
        assert "choose another --port" in refusal
        assert "--host" not in refusal  # `ui` has no such option.


def test_an_unknown_session_is_an_error_in_one_line(demo: Cli) -> None:
    assert "session or commit 'none' not found" in demo.refused("ui", "none", "--no-open")
    elsewhere = Path("elsewhere.jsonl")
    elsewhere.write_bytes((demo.home / "sessions" / "demo.jsonl").read_bytes())
    message = demo.refused("ui", str(elsewhere), "--no-open")
    assert "not a session of this home" in message
    assert " import elsewhere.jsonl" in message


def test_the_browser_is_opened_if_there_is_a_display(demo: Cli, tmp_path: Path) -> None:
    opened, browser = tmp_path / "opened", tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf "%s\\n" "$1" > {opened}\n')
    browser.chmod(0o700)
    with showing(demo.home, "--port", "0", BROWSER=str(browser), DISPLAY=":9") as (process, link):
        deadline = time.monotonic() + 10
        while not opened.exists() or not opened.read_text().endswith("\n"):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        argument = urlsplit(opened.read_text().strip())
        redirect = Path(argument.path)
        # Other users can read the arguments of processes, so the link is in a private file.
        assert (argument.scheme, token_of(link) in opened.read_text()) == ("file", False)
        assert redirect.stat().st_mode & 0o777 == 0o600
        assert f"url={link}" in redirect.read_text()
        assert ask(link) == 200
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=20)
        assert not redirect.exists()
    opened.unlink()
    environment = {"BROWSER": str(browser), "DISPLAY": "", "WAYLAND_DISPLAY": ""}
    with showing(demo.home, "--port", "0", **environment) as (_, link):
        assert ask(link) == 200
    assert not opened.exists()


def test_the_demo_ends_by_naming_it(cli: Cli) -> None:
    assert cli.ok("demo").out.splitlines()[-1].endswith("harken ui demo")
