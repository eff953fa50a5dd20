"""`harken mcp login` and `logout`: what a person sees, and where nothing secret is left."""

from __future__ import annotations

import json
import os
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from tests.cli.kit import HARKEN, Cli, Ran, start
from tests.mcp_auth_server import ProtectedServer, serve_protected
from tests.mcp_client_credentials_server import CLIENT_ID, SECRET, ClientCredentialsServer

BROWSER = """\
import sys, urllib.request
print("noise of a browser")
urllib.request.urlopen(sys.argv[1], timeout=20).read()
"""
SCRIPT = """\
rules:
  - pattern: "^Greet"
    calls: [{mcp__g__greet: {name: Ann}}]
  - pattern: no tool|not
    answer: There is none.
  - pattern: Hello Ann
    answer: It is done.
  - pattern: harken mcp login
    answer: You have to log in.
"""


@pytest.fixture(scope="module")
def there() -> Iterator[ProtectedServer]:
    with serve_protected() as found:
        yield found


@pytest.fixture
def home(cli: Cli, there: ProtectedServer) -> Path:
    cli.home.mkdir(exist_ok=True)
    (cli.home / "config.toml").write_text(f'[mcp.servers.g]\nurl = "{there.url}"\n')
    return cli.home


def browser(folder: Path) -> dict[str, str]:
    """Return an environment with a browser that goes where it is sent, and agrees."""
    file = folder / "browser.py"
    file.write_text(BROWSER)
    return {"BROWSER": f"{sys.executable} {file} %s"}


def chat(cli: Cli, folder: Path) -> Ran:
    script = folder / "greet.yaml"
    script.write_text(SCRIPT)
    options = ("--permission", "all", "-p", "Greet!")
    return cli.ok("chat", "--model", f"scripted:{script}", *options)


def written(folder: Path) -> dict[Path, bytes]:
    """Return all that is in a folder, whole."""
    return {
        Path(where) / name: (Path(where) / name).read_bytes()
        for where, _, names in os.walk(folder)
        for name in names
    }


def test_a_login_is_used_in_a_chat_and_its_secrets_stand_in_one_file_alone(
    cli: Cli, home: Path, there: ProtectedServer, tmp_path: Path
) -> None:
    listed = cli("mcp")
    assert (listed.code, listed.out.split("\n")[0]) == (1, "g  needs login")
    assert listed.out.endswith("it needs a login: `harken mcp login g`\n")
    ran = start(home, "mcp", "login", "g", "--timeout", "20s", **browser(tmp_path))
    out, err = ran.stdout.decode(), ran.stderr.decode()
    assert ran.returncode == 0, err
    assert f"Logged in: g ({there.url.removesuffix('/mcp')}), which may: read." in out
    assert "Open this URL to log in (within 20 s):" in err
    assert cli.ok("mcp").out.startswith("g  ready\n")
    assert chat(cli, tmp_path).out == "It is done.\n"
    there.auth_server.expire_access_tokens()  # so that it is renewed
    assert chat(cli, tmp_path).out == "It is done.\n"
    shown = f"{out}{err}{cli.ok('mcp', '--json').out}{cli.ok('mcp', 'test', 'g').out}"
    assert len(there.auth_server.secrets) >= 6
    for secret in there.auth_server.secrets:
        assert secret not in shown
        holders = {file.name for file, data in written(tmp_path).items() if secret.encode() in data}
        assert holders <= {"mcp-logins.json"}
    file = home / "mcp-logins.json"
    assert file.stat().st_mode & 0o777 == 0o600
    assert there.auth_server.secrets[-1] in file.read_text()


def test_who_logs_out_has_to_log_in_again(
    cli: Cli, home: Path, there: ProtectedServer, tmp_path: Path
) -> None:
    ran = start(home, "mcp", "login", "g", "--json", **browser(tmp_path))
    assert json.loads(ran.stdout)["state"] == "logged_in"
    assert cli.ok("mcp", "logout", "g").out.startswith("Logged out: g (http://127.0.0.1:")
    assert cli.refused("mcp", "logout", "g") == "login 'g' not found"
    tried = cli("mcp", "test", "g")
    assert (tried.code, tried.out.split("\n")[0]) == (1, "g  needs login")
    assert "it needs a login: `harken mcp login g`" in chat(cli, tmp_path).err


def test_what_cannot_be_logged_in_at_is_said(cli: Cli, there: ProtectedServer) -> None:
    cli.home.mkdir()
    (cli.home / "config.toml").write_text(
        '[mcp.servers.prog]\ncommand = "cat"\n'
        '[mcp.servers.key]\nurl = "https://a.example/mcp"\n'
        'headers = { Authorization = "Bearer ${K}" }\n'
        '[mcp.servers.open]\nurl = "http://a.example/mcp"\n'
        f'[mcp.servers.g]\nurl = "{there.url}"\n'
    )
    refused = {name: cli.refused("mcp", "login", name) for name in ("x", "prog", "key", "open")}
    assert refused == {
        "x": "MCP server 'x' not found; existing MCP servers: prog, key, open, g",
        "prog": "prog is a program and has no login; use `env` for its credentials",
        "key": "key: no login is needed: `headers` has Authorization",
        "open": "open: a login needs https, and http://a.example is not",
    }
    assert not (cli.home / "mcp-logins.json").exists()
    ran = cli("mcp", "login", "g", "--no-browser", "--timeout", "1s")
    assert ran.code == 2
    assert ran.err.endswith("harken: g: no login within 1 s\n")


def test_where_the_browser_is_elsewhere_its_last_address_is_pasted(
    home: Path, there: ProtectedServer
) -> None:
    environment = {**os.environ, "HARKEN_HOME": str(home), "TERM": "dumb"}
    harken = pexpect.spawn(
        str(HARKEN),
        ["mcp", "login", "g", "--no-browser"],
        env=environment,
        timeout=30,
        encoding="utf-8",
        dimensions=(24, 4000),
    )
    harken.expect(r"  (http://\S+)\r\n")
    assert isinstance(harken.match, re.Match)
    address = harken.match.group(1)
    harken.expect("paste the last URL")
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.build_opener(Stays).open(address, timeout=20)
    harken.sendline("http://127.0.0.1/callback?code=x&state=wrong")
    harken.expect("This is not the redirect URL of this login")
    caught.value.close()
    harken.sendline(caught.value.headers["location"])
    harken.expect("Logged in: g")
    harken.expect(pexpect.EOF)
    harken.close()
    assert harken.exitstatus == 0


class Stays(urllib.request.HTTPRedirectHandler):
    """A browser on another machine: what it is sent to is not there."""

    def redirect_request(self, *_: object) -> None:
        return None


def test_a_program_needs_no_login_and_what_it_has_is_shown_and_kept_nowhere(
    cli: Cli, tmp_path: Path
) -> None:
    office = ClientCredentialsServer()
    with serve_protected(office) as there:
        cli.home.mkdir()
        (cli.home / "config.toml").write_text(
            f'[mcp.servers.g]\nurl = "{there.url}"\noauth = {{ grant = "client_credentials", '
            f'client_id = "{CLIENT_ID}", client_secret = "${{CI}}", issuer = "{office.base}" }}\n'
        )
        unset = cli("mcp")
        cli.environ["CI"] = SECRET
        assert cli.ok("mcp", "login", "g").out == (
            "g needs no login: it uses client credentials from `oauth`.\n"
        )
        assert cli.ok("mcp", "login", "g", "--json").json["state"] == "no_login_needed"
        listed = [cli.ok("mcp"), cli.ok("mcp", "--json"), cli.ok("mcp", "test", "g")]
        assert listed[0].out.startswith("g  ready\n")
        assert chat(cli, tmp_path).out == "It is done.\n"
        office.status = 401
        listed += [refused := cli("mcp"), cli("mcp", "test", "g")]
    assert "it needs the variable CI, which is not set" in unset.out
    assert refused.code == 1
    assert ("it needs a token: it issued no token (HTTP 401") in refused.out
    assert ("check the `oauth` settings with the authorization server, or change it") in refused.out
    assert len(office.token_requests) == 6
    for secret in [SECRET, *office.secrets]:
        assert not any(secret in f"{ran.out}{ran.err}" for ran in listed)
        assert not any(secret.encode() in data for data in written(tmp_path).values())
