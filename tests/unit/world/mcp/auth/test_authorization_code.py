"""Logging in at a server, and using it as who logged in: real servers, real redirects."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
from mcp.shared.auth import OAuthToken

from harken.errors import ConfigError
from harken.world.mcp.auth.authorization_code import log_in, log_out
from harken.world.mcp.auth.bearer import Bearer, post_form, with_token
from harken.world.mcp.auth.oauth_requests import check_place
from harken.world.mcp.auth.redirect_server import Callback
from harken.world.mcp.auth.token_store import Login, Logins
from harken.world.mcp.server_config import McpServerConfig, OAuthTable
from tests.loopback_kit import Loopback, serve_loopback
from tests.mcp_auth_server import AuthorizationServer, ProtectedServer, serve_protected, visit
from tests.mcp_http import ServedApp, make_endless_app, make_json_app
from tests.mcp_kit import open_mcp_stage, run

GREET = "mcp__g__greet"
WHERE = "/.well-known/oauth-protected-resource/mcp"
"""Where a server says first who logs people in."""


@pytest.fixture
def there() -> Iterator[ProtectedServer]:
    with serve_protected() as found:
        yield found


def server(url: str, **more: Any) -> McpServerConfig:
    return McpServerConfig(name="g", url=url, timeout_s=10, **more)


def kept(folder: Path) -> Logins:
    return Logins(folder / "logins.json")


async def logged_in(
    one: McpServerConfig, folder: Path, show: Callable[[str], Any] = visit, wait_s: float = 10
) -> Login:
    async with Callback(one.oauth.callback_port) as callback:
        return await log_in(one, kept(folder), callback, show, wait_s=wait_s)


def test_a_login_lets_in_and_without_one_it_is_said_how_to_have_one(
    tmp_path: Path, there: ProtectedServer
) -> None:
    async def scene() -> None:
        one = server(there.url)
        async with open_mcp_stage(tmp_path, one, logins=kept(tmp_path).file) as here:
            [line] = here.notices
            assert line.endswith("is unavailable: it needs a login: `harken mcp login g`")
            [described] = here.mcp.describe()
            assert (described.state, described.needs_login) == ("failed", True)
            login = await logged_in(one, tmp_path)
            assert (login.scope, login.place) == ("read", one.url.removesuffix("/mcp"))  # type: ignore[union-attr]
            await here.world.wait_ready()  # as before the next question to the model
            async with asyncio.timeout(10):
                while GREET not in here.world.tools:
                    await asyncio.sleep(0.01)
            assert await here.text(GREET, name="Ann") == "Hello Ann"
            assert not here.mcp.describe()[0].needs_login

    run(scene())


def test_a_server_that_wants_a_login_in_the_middle_keeps_its_connection(
    tmp_path: Path, there: ProtectedServer
) -> None:
    async def scene() -> None:
        one = server(there.url)
        await logged_in(one, tmp_path)
        async with open_mcp_stage(tmp_path, one, logins=kept(tmp_path).file) as here:
            assert await here.text(GREET, name="Ann") == "Hello Ann"
            there.auth_server.access_tokens.clear()
            there.auth_server.refresh_tokens.clear()
            failed = await here.failure(GREET, name="Bob")
            assert failed.endswith("it needs a login: `harken mcp login g`")
            [described] = here.mcp.describe()
            assert (described.state, described.needs_login) == ("open", True)
            await logged_in(one, tmp_path)  # in another terminal
            assert await here.text(GREET, name="Bob") == "Hello Bob"
            assert here.notices == []

    run(scene())


def test_a_token_that_ended_is_renewed_also_by_another_process_of_ours(
    tmp_path: Path, there: ProtectedServer
) -> None:
    async def scene() -> None:
        one, logins = server(there.url), kept(tmp_path)
        before = await logged_in(one, tmp_path)
        async with (
            open_mcp_stage(tmp_path, one, logins=logins.file) as here,
            open_mcp_stage(tmp_path, one, logins=logins.file) as other,
        ):
            there.auth_server.expire_access_tokens()
            calls = [one.text(GREET, name="Ann") for one in (here, other) for _ in range(3)]
            assert set(await asyncio.gather(*calls)) == {"Hello Ann"}
            assert there.auth_server.refresh_count == 1  # a token to renew with can be used once
        after = logins.get(one)
        assert after is not None
        assert after.access_token != before.access_token
        logins.put(one, replace(after, expires_at_s=time.time() + 1))
        async with open_mcp_stage(tmp_path, one, logins=logins.file) as here:
            assert await here.text(GREET, name="Ann") == "Hello Ann"
            assert there.auth_server.refresh_count == 2

    run(scene())


def test_who_gives_tokens_may_be_away_for_a_while(tmp_path: Path, there: ProtectedServer) -> None:
    async def scene() -> None:
        one, logins = server(there.url), kept(tmp_path)
        login = await logged_in(one, tmp_path)
        async with open_mcp_stage(tmp_path, one, logins=logins.file) as here:
            there.auth_server.expire_access_tokens()
            with ServedApp(make_json_app({"/token": (503, "s3cret")})) as ill:
                logins.put(one, replace(login, token_url=f"{ill}/token"))
                failed = await here.failure(GREET, name="Ann")
            assert failed.endswith("does not get: its token cannot be refreshed now (HTTP 503)")
            assert "cannot be renewed now (ConnectError)" in await here.failure(GREET, name="Ann")
            logins.put(one, login)
            assert await here.text(GREET, name="Ann") == "Hello Ann"

    run(scene())


def test_tokens_that_others_can_read_are_not_used(tmp_path: Path, there: ProtectedServer) -> None:
    async def scene() -> None:
        one, logins = server(there.url), kept(tmp_path)
        await logged_in(one, tmp_path)
        logins.file.chmod(0o644)
        async with open_mcp_stage(tmp_path, one, logins=logins.file) as here:
            assert (
                "other users can read the tokens in it: remove it, and log in again"
                in here.notices[-1]
            )

    run(scene())


def test_the_same_name_at_another_address_gets_no_token(
    tmp_path: Path, there: ProtectedServer
) -> None:
    async def scene(evil: Loopback) -> None:
        await logged_in(server(there.url), tmp_path)
        stolen = server(f"{evil.url}/mcp", start_timeout_s=5)
        async with open_mcp_stage(tmp_path, stolen, logins=kept(tmp_path).file) as here:
            assert "needs a login" in here.notices[-1]
        assert evil.requests
        assert all("authorization" not in headers for _, headers, _ in evil.requests)

    with serve_loopback(Loopback(status=401)) as evil:
        run(scene(evil))


def test_a_redirect_elsewhere_takes_neither_token_nor_header_along(
    tmp_path: Path, there: ProtectedServer
) -> None:
    async def scene(evil: Loopback, first: Loopback) -> None:
        one, logins = server(f"{first.url}/mcp", start_timeout_s=5), kept(tmp_path)
        login = await logged_in(server(there.url), tmp_path)
        logins.put(one, login)
        with_header = replace(one, name="h", headers={"x-key": "s3cret"})
        async with open_mcp_stage(tmp_path, one, with_header, logins=logins.file) as here:
            assert "not followed" in " ".join(here.notices)
        assert any(login.access_token in str(headers) for _, headers, _ in first.requests)
        assert evil.requests == []

    with serve_loopback() as evil:
        target = {"location": f"{evil.url}/mcp"}
        with serve_loopback(Loopback(status=307, headers=target)) as first:
            run(scene(evil, first))


def test_what_a_server_wants_beyond_the_login_is_asked_for_at_the_next_one(
    tmp_path: Path, there: ProtectedServer
) -> None:
    async def scene(picky: Loopback) -> None:
        one, logins = server(f"{picky.url}/mcp"), kept(tmp_path)
        login = await logged_in(server(there.url), tmp_path)
        logins.put(one, login)
        async with open_mcp_stage(tmp_path, one, logins=logins.file) as here:
            assert "it requires more permissions than the login has" in here.notices[-1]
            assert here.mcp.describe()[0].needs_login
        noted = logins.get(one)
        assert noted is not None
        logins.put(server(there.url), noted)
        again = await logged_in(server(there.url), tmp_path)
        assert (again.scope, again.challenge) == ("read write", "")

    wants = {"www-authenticate": 'Bearer error="insufficient_scope", scope="write"'}
    with serve_loopback(Loopback(status=403, headers=wants)) as picky:
        run(scene(picky))


def test_a_login_asks_for_what_the_person_says(tmp_path: Path, there: ProtectedServer) -> None:
    one = server(there.url, oauth=OAuthTable(scope="read write"))
    assert run(logged_in(one, tmp_path)).scope == "read write"


def test_who_may_not_do_something_is_told_so(tmp_path: Path) -> None:
    async def scene(url: str) -> None:
        async with open_mcp_stage(tmp_path, server(url), logins=kept(tmp_path).file) as here:
            assert "HTTP 403: the login does not permit this" in here.notices[-1]

    with serve_loopback(Loopback(status=403)) as told:
        run(scene(told.url))


def test_own_headers_count_before_a_login(tmp_path: Path, there: ProtectedServer) -> None:
    async def scene() -> None:
        one = server(there.url)
        await logged_in(one, tmp_path)
        own = replace(one, headers={"Authorization": "Bearer ${T}"})
        async with open_mcp_stage(
            tmp_path, own, environ={"T": "x"}, logins=kept(tmp_path).file
        ) as here:
            assert "set an authorization header in `headers`" in here.notices[-1]

    run(scene())


def test_who_logs_out_gives_the_tokens_back(tmp_path: Path, there: ProtectedServer) -> None:
    async def scene() -> None:
        one, logins = server(there.url), kept(tmp_path)
        await logged_in(one, tmp_path)
        assert [gone.name for gone in await log_out(logins, "g")] == ["g"]
        assert there.auth_server.access_tokens == {}
        assert logins.get(one) is None

    run(scene())


def test_a_refusal_is_one_line_that_harms_no_terminal(tmp_path: Path) -> None:
    async def scene(url: str) -> None:
        with pytest.raises(ConfigError) as caught:
            await logged_in(server(url), tmp_path)
        assert str(caught.value).startswith("the login was refused (access_denied: not ")
        assert "\x1b" not in str(caught.value)
        assert not kept(tmp_path).file.exists()

    with serve_protected(AuthorizationServer(is_refusing=True)) as there:
        run(scene(there.url))


def test_nobody_who_logs_in_is_waited_for_without_end(
    tmp_path: Path, there: ProtectedServer
) -> None:
    async def scene() -> None:
        with pytest.raises(ConfigError, match=r"no login within 0\.2 s"):
            await logged_in(server(there.url), tmp_path, lambda _: None, 0.2)

    run(scene())


def test_where_nobody_can_register_a_client_id_helps(tmp_path: Path) -> None:
    async def scene(there: ProtectedServer) -> None:
        with pytest.raises(ConfigError, match="set your client_id"):
            await logged_in(server(there.url), tmp_path)
        with serve_protected() as other:
            await logged_in(server(other.url), tmp_path)
            [known] = other.auth_server.clients.values()
        client = known.model_copy(update={"token_endpoint_auth_method": "client_secret_basic"})
        assert client.redirect_uris
        there.auth_server.clients[client.client_id] = client
        who = OAuthTable(
            client_id=client.client_id,
            client_secret=client.client_secret or "",
            callback_port=client.redirect_uris[0].port or 0,
        )
        one = server(there.url, oauth=who)
        assert (await logged_in(one, tmp_path)).method == "client_secret_basic"
        there.auth_server.expire_access_tokens()
        async with open_mcp_stage(tmp_path, one, logins=kept(tmp_path).file) as here:
            assert await here.text(GREET, name="Ann") == "Hello Ann"

    with serve_protected(registers=False) as there:
        run(scene(there))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Loopback(status=200), "it requires no login"),
        (Loopback(status=404), "it requires no login"),
        (Loopback(status=401), "it offers no login: set an authorization header"),
        (Loopback(status=401, body=b"x" * (2 << 20)), "more than anybody can use"),
    ],
)
def test_where_there_is_no_login_that_is_said(tmp_path: Path, answer: Loopback, why: str) -> None:
    async def scene(url: str) -> None:
        with pytest.raises(ConfigError, match=why):
            await logged_in(server(url), tmp_path)

    with serve_loopback(answer) as told:
        run(scene(told.url))
    sent = [path for path, _, body in told.requests if body and "client_name" in body]
    assert answer.status == 401 or sent == []  # nobody is registered who need not be


@pytest.mark.parametrize(
    ("leads_to", "why"),
    [
        ("http://[", "a login needs https"),
        ("http://a:b:c/", "violates the protocol"),
        ("javascript:alert(1)", "a login needs https"),
        ("/etc/passwd", "a login needs https"),
        ("http://169.254.169.254/latest", "a login needs https, and http://169.254.169.254 is not"),
    ],
)
def test_where_a_server_leads_a_login_to_is_looked_at_first(
    tmp_path: Path, leads_to: str, why: str
) -> None:
    async def scene(url: str) -> None:
        with pytest.raises(ConfigError) as caught:
            await logged_in(server(url), tmp_path)
        assert why in str(caught.value)

    wants = {"www-authenticate": f'Bearer resource_metadata="{leads_to}"'}
    with serve_loopback(Loopback(status=401, headers=wants)) as told:
        run(scene(told.url))
    assert len(told.requests) == 1


def come_back(address: str) -> None:
    """Be a browser that is sent back at once, with a code."""
    asked = dict(parse_qsl(urlsplit(address).query))
    visit(f"{asked['redirect_uri']}?code=s3cret-code&state={asked['state']}")


NAMES = ("authorization_endpoint", "token_endpoint", "registration_endpoint")
ME = {"client_id": "me", "client_secret": "s3cret", "token_endpoint_auth_method": "none"}
GIVEN = {"access_token": "s3cret", "token_type": "Bearer"}


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ({"/register": (500, ME)}, "the client registration failed (HTTP 500)"),
        ({"/register": (200, {**ME, "grant_types": 5})}, "the client registration failed"),
        ({"/token": (400, {"error": "invalid_grant", "x": "s3cret"})}, "HTTP 400, invalid_grant"),
        ({"/token": (200, {**GIVEN, "token_type": "s3cret-kind"})}, "it issued no token"),
        ({"/token": (200, {**GIVEN, "expires_in": "s3cret"})}, "it issued no token"),
        ({"/token": (200, {**GIVEN, "access_token": "s3cret\nx: y"})}, "that cannot be sent"),
        (
            {"/token": (200, {**GIVEN, "expires_in": 10**400})},
            "violates the protocol",
        ),
        ({"/token": (200, GIVEN)}, "it rejects the token that was just issued for it"),
    ],
)
def test_what_holds_a_secret_never_stands_in_a_message(
    tmp_path: Path, answers: dict[str, tuple[int, Any]], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Answers that are nearly right: the SDK repeats them in its errors, and in what it logs."""
    told = {"/register": (201, ME), "/token": (200, GIVEN), **answers}
    caplog.set_level("DEBUG")
    with ServedApp(make_json_app(told)) as base:
        metadata = {name: f"{base}/{name.partition('_')[0]}" for name in NAMES}
        metadata["registration_endpoint"] = f"{base}/register"
        told["/.well-known/oauth-authorization-server"] = (200, {"issuer": base, **metadata})
        with pytest.raises(ConfigError) as caught:
            run(logged_in(server(f"{base}/mcp"), tmp_path, come_back))
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "s3cret" not in str(caught.value) + caplog.text
    assert not kept(tmp_path).file.exists()


@pytest.mark.parametrize(
    ("address", "server_url"),
    [
        ("http://a.example/mcp", "http://a.example/mcp"),
        ("http://localhost/token", "https://a.example/mcp"),
        ("http://169.254.169.254/", "https://a.example/mcp"),
        ("ftp://127.0.0.1/", "http://127.0.0.1/mcp"),
        ("file:///etc/passwd", "https://a.example/mcp"),
        ("https://me@a.example/", "https://a.example/mcp"),
        ("https://[", "https://a.example/mcp"),
        ("", "https://a.example/mcp"),
    ],
)
def test_no_secret_goes_to_where_others_can_read_it(address: str, server_url: str) -> None:
    with pytest.raises(ConfigError, match="a login needs https"):
        check_place(address, server_url)


def test_a_secret_goes_over_https_or_stays_on_this_machine() -> None:
    check_place("https://login.example/token", "https://a.example/mcp")
    check_place("http://127.0.0.1:1/token", "http://localhost:2/mcp")


def test_who_answers_byte_by_byte_is_not_waited_for_without_end(tmp_path: Path) -> None:
    async def scene(base: str) -> None:
        async with Callback() as callback:
            with pytest.raises(ConfigError, match="cannot be reached"):
                await log_in(server(f"{base}/mcp"), kept(tmp_path), callback, visit, request_s=0.5)
        with pytest.raises(ConfigError, match="cannot be renewed now"):
            await post_form(Login(name="g", place=base), f"{base}{WHERE}", {}, within_s=0.5)

    with ServedApp(make_endless_app(WHERE)) as base:
        run(scene(base))


def test_a_token_is_for_one_place_also_where_another_refuses(tmp_path: Path) -> None:
    one = server("https://a.example/mcp")
    kept(tmp_path).put(one, Login(name="g", place="https://a.example", access_token="s3cret"))

    async def scene() -> None:
        flow = Bearer(one, kept(tmp_path)).async_auth_flow(
            httpx2.Request("POST", "https://b.example/mcp")
        )
        asked = await anext(flow)
        assert "authorization" not in asked.headers
        with pytest.raises(StopAsyncIteration):
            await flow.asend(httpx2.Response(401, content=b"", request=asked))

    run(scene())


def test_a_token_that_lasts_for_ever_is_kept(tmp_path: Path) -> None:
    token = OAuthToken(access_token="s3cret", expires_in=10**400)
    login = with_token(Login(name="g", place="https://a.example"), token, 5.0)
    kept(tmp_path).put(server("https://a.example/mcp"), login)
    assert kept(tmp_path).get(server("https://a.example/mcp")) == login


def test_what_a_server_wanted_in_odd_letters_is_no_obstacle_to_a_login(
    tmp_path: Path, there: ProtectedServer
) -> None:
    one = server(there.url)
    challenge = 'Bearer error="insufficient_scope", error_description="é"'
    kept(tmp_path).put(one, Login(name="g", place="", challenge=challenge))
    assert run(logged_in(one, tmp_path)).access_token
