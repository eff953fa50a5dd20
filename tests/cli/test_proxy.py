"""`harken proxy`, as processes: what passes becomes sessions, whoever is killed meanwhile."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from harken.cli.commands.proxy.upstreams import build_client_environment, build_upstreams
from harken.core.events import LlmResponse
from harken.errors import ConfigError
from harken.recording.rebuild import RequestRebuilder
from harken.session.log.reader import iter_events
from tests.cli.kit import Cli, start
from tests.forks import processes
from tests.forks.processes import HARKEN
from tests.proxy_kit import KEY, PATHS, Address, run_provider, wait_for

VENDORS = {"anthropic": "https://api.anthropic.com", "openai": "https://api.openai.com/v1",
           "gemini": "https://generativelanguage.googleapis.com"}  # fmt: skip
SERVER, TOKEN = "http://127.0.0.1:8421", "t" * 43


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with run_provider() as url:
        yield url


class Proxy:
    """A proxy that runs, and the lines that it has printed."""

    def __init__(self, home: Path, process: subprocess.Popen[str]) -> None:
        self.home, self.process = home, process
        self.first: dict[str, Any] = self.line()
        self.address = Address(self.first["addresses"]["anthropic"])

    def line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        text = self.process.stdout.readline()
        assert text, self.process.communicate()
        found: dict[str, Any] = json.loads(text)
        return found

    def until(self, key: str) -> dict[str, Any]:
        """Return the next line that has this."""
        while key not in (line := self.line()):
            pass
        return line

    def end(self, how: signal.Signals = signal.SIGINT) -> dict[str, Any]:
        """End it; return its last line."""
        self.process.send_signal(how)
        out, err = self.process.communicate(timeout=60)
        assert (self.process.returncode, err) == (0, "")
        last: dict[str, Any] = json.loads(out.splitlines()[-1])
        return last

    def ask(self, *said: str, **wish: Any) -> bytes:
        return self.address.request("/v1/messages", body(*said), **wish).body

    def logs(self) -> list[Path]:
        return sorted((self.home / "sessions").glob("*.jsonl"))

    def responses(self) -> list[LlmResponse]:
        found = [event for log in self.logs() for event in iter_events(log)]
        return [event for event in found if isinstance(event, LlmResponse)]


def body(*said: str) -> bytes:
    roles = ("user", "assistant")
    messages = [{"role": roles[n % 2], "content": text} for n, text in enumerate(said)]
    return json.dumps({"model": "fake", "max_tokens": 9, "messages": messages}).encode()


@contextmanager
def proxy(home: Path, url: str, *options: str) -> Iterator[Proxy]:
    command: list[str | Path] = [HARKEN, "proxy", "--home", home, "--json",
               "--port", "0", "--upstream", f"anthropic={url}", *options]  # fmt: skip
    with processes.start(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Proxy(home, process)
        finally:
            if process.poll() is None:
                process.kill()


def kept(home: Path) -> list[bytes]:
    return [path.read_bytes() for path in home.rglob("*") if path.is_file()]


def test_what_passes_becomes_a_session_that_everything_works_on(url: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    with proxy(home, url) as running:
        assert running.first["variables"]["ANTHROPIC_BASE_URL"] == running.address.url
        running.ask("What is on the fire?")
        first = running.until("session")
        answer = "The kettle is on the fire and whistles "
        running.ask("What is on the fire?", answer, "And now?")
        assert running.until("session")["session"] == first["session"]
        shown = start(home, "view", first["session"], "timeline")
        assert b"And now?" in shown.stdout, shown.stderr
        summary = running.end()
    assert summary == {"calls": 2, "recorded": 2, "sessions": [first["session"]],
                       "unrecorded": {}, "complete": True}  # fmt: skip
    assert first["said"] == "The kettle is on the fire and whistles"
    for command in (["sessions"], ["search", "kettle"], ["ctx", "log"]):
        assert b"kettle" in start(home, *command).stdout.replace(b"What is on the fire", b"kettle")
    assert not any((home / "proxy").iterdir())
    assert stat.S_IMODE((home / "proxy.token").stat().st_mode) == 0o600


def test_no_credential_is_in_anything_that_is_kept(url: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    with proxy(home, url) as running:
        path = f"/v1/messages?beta=true&key={KEY}"
        headers = {"x-api-key": KEY, "Cookie": f"a={KEY}", "User-Agent": f"x/1 {KEY}"}
        running.address.request(path, body("Hi"), headers=headers)
        running.ask("Go on", pieces=100, each_ms=1000, cut=1)  # the spool is there meanwhile
        running.until("session")
        assert not any(KEY.encode() in data for data in kept(home))
        running.end()
    assert len(running.logs()) == 2
    assert not any(KEY.encode() in data for data in kept(home))
    assert any(b"/v1/messages?beta=true" in data for data in kept(home))


def test_a_proxy_that_is_killed_leaves_a_record_that_says_so(url: str, tmp_path: Path) -> None:
    with proxy(tmp_path, url) as running:
        running.ask("Whole")
        with running.address.raw() as raw:
            path, data = urlsplit(running.address.url).path, body("Half")
            raw.sendall(
                f"POST {path}/v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n"
                'X-Fake: {"pieces": 50, "each_ms": 100}\r\n\r\n'.encode()
                + data
            )
            raw.recv(1000)
            running.until("session")
            wait_for(lambda: b"Half" in b"".join(kept(tmp_path)))
            running.process.kill()
            running.process.wait()
            assert raw.recv(100_000) is not None
    wait_for(lambda: not any((tmp_path / "proxy").iterdir()))
    errors = sorted(str(response.error) for response in running.responses())
    assert errors == ["None", "the proxy was ended"]


def test_what_a_killed_recorder_has_not_recorded_is_recorded_by_the_next(
    url: str, tmp_path: Path
) -> None:
    with proxy(tmp_path, url) as running:
        running.ask("One")
        running.until("session")
        (pid,) = children(running.process.pid)
        os.kill(pid, signal.SIGSTOP)
        running.ask("Two")
        os.kill(pid, signal.SIGKILL)
        told = running.until("told")["told"]
        assert told == "the recorder has ended and is started again: signal 9"
        running.ask("Three")
        summary = running.end()
    assert summary["calls"] == 3
    assert len(running.responses()) == 3


def test_both_killed_at_once_lose_nothing_that_was_written(url: str, tmp_path: Path) -> None:
    with proxy(tmp_path, url) as running:
        running.ask("One")
        running.until("session")
        (pid,) = children(running.process.pid)
        os.kill(pid, signal.SIGSTOP)
        running.ask("Two")
        wait_for(lambda: b"Two" in b"".join(kept(tmp_path)))
        os.kill(pid, signal.SIGKILL)
        running.process.kill()
        running.process.wait()
    with proxy(tmp_path, url) as running:
        running.until("session")
        assert running.end()["calls"] == 0
    assert [one.error for one in running.responses()] == [None, None]
    assert not any((tmp_path / "proxy").iterdir())


def children(pid: int) -> list[int]:
    wait_for(lambda: _children(pid))
    return _children(pid)


def _children(pid: int) -> list[int]:
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    return [int(word) for word in listed.stdout.split()]


def test_a_log_that_cannot_be_written_is_told_and_the_traffic_goes_on(
    url: str, tmp_path: Path
) -> None:
    with proxy(tmp_path, url) as running:
        answer = running.ask("One")
        running.until("session")
        (tmp_path / "sessions").rename(tmp_path / "away")
        (tmp_path / "sessions").write_text("in the way")
        assert running.ask("Two") == answer
        assert running.until("told")["told"].startswith("calls are not being recorded: ")
        assert running.ask("Three") == answer
        (tmp_path / "sessions").unlink()
        (tmp_path / "away").rename(tmp_path / "sessions")
        assert running.until("told")["told"] == "calls are being recorded again"
        summary = running.end()
    assert (summary["recorded"], summary["unrecorded"]) == (3, {})
    assert len(running.responses()) == 3


BODIES: dict[str, Any] = {
    "anthropic": json.loads(body("Hi")),
    "openai-chat": {"model": "m", "messages": [{"role": "user", "content": "Hi, Chat"}]},
    "openai-responses": {"model": "m", "input": [{"role": "user", "content": "Hi, you"}]},
    "gemini": {"contents": [{"role": "user", "parts": [{"text": "Hi, Gemini"}]}]},
}


def test_the_recorded_request_is_the_one_on_the_wire(url: str, tmp_path: Path) -> None:
    with proxy(tmp_path, url) as running:
        for protocol, sent in BODIES.items():
            running.address.request(PATHS[protocol], json.dumps(sent).encode())
        assert running.end()["recorded"] == len(BODIES)
    rebuilt = []
    for log in running.logs():
        rebuilder = RequestRebuilder(iter_events(log))
        rebuilt += [rebuilder.body(request) for request in rebuilder.requests]
    assert as_json(rebuilt) == as_json(BODIES.values())
    assert [one.error for one in running.responses()] == [None] * len(BODIES)


def as_json(bodies: Iterable[Any]) -> list[str]:
    return sorted(json.dumps(one, sort_keys=True) for one in bodies)


def test_a_command_is_run_with_the_addresses_and_ends_the_proxy(url: str, tmp_path: Path) -> None:
    code = (
        "import os, urllib.request as u\n"
        "address = os.environ['ANTHROPIC_BASE_URL']\n"
        "asked = u.Request(address + '/v1/messages', data=" + repr(body("Hi")) + ")\n"
        "print(len(u.urlopen(asked).read()) > 100)\n"
        "raise SystemExit(7)\n"
    )
    done = start(
        tmp_path, "proxy", "--upstream", f"anthropic={url}", "--", sys.executable, "-c", code
    )
    assert (done.returncode, done.stdout) == (7, b"True\n")
    assert done.stderr.startswith(b"harken: 1 call of 1 recorded in 1 session: rec-")


def test_what_cannot_be_run_is_said(tmp_path: Path) -> None:
    done = start(tmp_path, "proxy", "--", str(tmp_path / "nothing"))
    assert done.returncode == 127
    assert done.stderr.endswith(b"nothing: No such file or directory\n")


def test_it_stops_when_nobody_asks_any_more(tmp_path: Path) -> None:
    done = start(tmp_path, "proxy", "--port", "0", "--idle-timeout", "0.1s", "--no-token")
    assert done.returncode == 0
    assert b"export OPENAI_BASE_URL=http://127.0.0.1:" in done.stdout


def test_codex_is_told_by_an_option_and_others_by_their_environment() -> None:
    addresses = {name: f"{SERVER}/{name}" for name in VENDORS}
    words, environ = build_client_environment(
        ["/bin/codex", "exec", "Hi"], {"NO_PROXY": "a"}, addresses
    )
    assert words == ["/bin/codex", "-c", f'openai_base_url="{SERVER}/openai"', "exec", "Hi"]
    assert environ["GOOGLE_GEMINI_BASE_URL"] == f"{SERVER}/gemini"
    assert environ["NO_PROXY"] == "a,127.0.0.1"
    assert build_client_environment(["claude"], {}, addresses)[0] == ["claude"]


def test_the_servers_are_those_named_else_those_of_the_environment_else_the_vendors() -> None:
    environ = {"OPENAI_BASE_URL": "http://gate.example/v1", "ANTHROPIC_BASE_URL": " "}
    found = build_upstreams(["local=http://127.0.0.1:11434/v1/"], environ, SERVER, TOKEN).by_name
    assert {name: one.url for name, one in found.items()} == {
        **VENDORS, "openai": "http://gate.example/v1", "local": "http://127.0.0.1:11434/v1"
    }  # fmt: skip


def test_the_proxy_never_asks_itself() -> None:
    own = f"http://127.0.0.1:9/{TOKEN}/anthropic"  # left in a shell by an earlier one
    environ = {"ANTHROPIC_BASE_URL": own, "OPENAI_BASE_URL": f"{SERVER}/openai"}
    found = build_upstreams([], environ, SERVER, TOKEN).by_name
    assert {name: one.url for name, one in found.items()} == VENDORS
    with pytest.raises(ConfigError, match="this is the proxy itself"):
        build_upstreams([f"anthropic={SERVER}"], {}, SERVER, TOKEN)


def test_the_proxy_of_the_network_is_asked_where_the_environment_says_so() -> None:
    environ = {"HTTPS_PROXY": "http://gate:3128", "NO_PROXY": "localhost,.openai.com"}
    found = build_upstreams(["local=https://127.0.0.1:1"], environ, SERVER, TOKEN).by_name
    assert {name: one.proxy for name, one in found.items()} == {
        "anthropic": "http://gate:3128", "openai": None, "gemini": "http://gate:3128", "local": None
    }  # fmt: skip
    with pytest.raises(ConfigError, match="only http:// URLs of network proxies"):
        build_upstreams([], {"https_proxy": "socks5://gate:1"}, SERVER, TOKEN)


@pytest.mark.parametrize(
    ("upstream", "said"),
    [
        ("anthropic", "--upstream needs NAME=URL"),
        ("anthropic=ftp://x", "not the address of a server"),
        ("anthropic=https://user:pw@x", "not the address of a server"),
        ("anthropic=http://x:99999999", "not the address of a server"),
        ("a/b=https://x", "is not a valid provider name"),
    ],
)
def test_what_is_no_server_is_refused_in_one_line(cli: Cli, upstream: str, said: str) -> None:
    told = cli.refused("proxy", "--port", "0", "--upstream", upstream)
    assert said in told
    assert "user:pw" not in told


def test_a_port_that_is_taken_is_refused_in_one_line(cli: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert "choose another --port" in cli.refused("proxy", "--port", port)
