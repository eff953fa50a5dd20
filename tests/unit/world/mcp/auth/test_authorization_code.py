"""OAuth authorization code login with real servers and real redirects."""

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
"""The path of the protected resource metadata."""


@pytest.fixture
def guarded_server() -> Iterator[ProtectedServer]:
    with serve_protected() as result:
        yield result


def server_config(url: str, **options: Any) -> McpServerConfig:
    return McpServerConfig(name="g", url=url, timeout_s=10, **options)


def token_store(folder: Path) -> Logins:
    return Logins(folder / "logins.json")


async def complete_login(
    server: McpServerConfig, folder: Path, show: Callable[[str], Any] = visit, wait_s: float = 10
) -> Login:
    async with Callback(server.oauth.callback_port) as callback:
        return await log_in(server, token_store(folder), callback, show, wait_s=wait_s)


def test_login_gives_access_and_its_absence_is_explained(
    tmp_path: Path, guarded_server: ProtectedServer
) -> None:
    async def scene() -> None:
        server = server_config(guarded_server.url)
        async with open_mcp_stage(tmp_path, server, logins=token_store(tmp_path).file) as harness:
            [line] = harness.notices
            assert line.endswith("is unavailable: it needs a login: `harken mcp login g`")
            [described] = harness.mcp.describe()
            assert (described.state, described.needs_login) == ("failed", True)
            login = await complete_login(server, tmp_path)
            assert (login.scope, login.place) == ("read", server.url.removesuffix("/mcp"))  # type: ignore[union-attr]
            await harness.world.wait_ready()  # As before the next model call.
            async with asyncio.timeout(10):
                while GREET not in harness.world.tools:
                    await asyncio.sleep(0.01)
            assert await harness.text(GREET, name="Ann") == "Hello Ann"
            assert not harness.mcp.describe()[0].needs_login

    run(scene())


def test_login_required_during_a_session_keeps_the_connection(
    tmp_path: Path, guarded_server: ProtectedServer
) -> None:
    async def scene() -> None:
        server = server_config(guarded_server.url)
        await complete_login(server, tmp_path)
        async with open_mcp_stage(tmp_path, server, logins=token_store(tmp_path).file) as harness:
            assert await harness.text(GREET, name="Ann") == "Hello Ann"
            guarded_server.auth_server.access_tokens.clear()
            guarded_server.auth_server.refresh_tokens.clear()
            failed = await harness.failure(GREET, name="Bob")
            assert failed.endswith("it needs a login: `harken mcp login g`")
            [described] = harness.mcp.describe()
            assert (described.state, described.needs_login) == ("open", True)
            await complete_login(server, tmp_path)  # In another terminal.
            assert await harness.text(GREET, name="Bob") == "Hello Bob"
            assert harness.notices == []

    run(scene())


def test_expired_token_is_refreshed_also_by_another_process(
    tmp_path: Path, guarded_server: ProtectedServer
) -> None:
    async def scene() -> None:
        server, logins = server_config(guarded_server.url), token_store(tmp_path)
        before = await complete_login(server, tmp_path)
        async with (
            open_mcp_stage(tmp_path, server, logins=logins.file) as harness,
            open_mcp_stage(tmp_path, server, logins=logins.file) as second,
        ):
            guarded_server.auth_server.expire_access_tokens()
            calls = [
                server.text(GREET, name="Ann") for server in (harness, second) for _ in range(3)
            ]
            assert set(await asyncio.gather(*calls)) == {"Hello Ann"}
            assert (
                guarded_server.auth_server.refresh_count == 1
            )  # A refresh token can be used once.
        after = logins.get(server)
        assert after is not None
        assert after.access_token != before.access_token
        logins.put(server, replace(after, expires_at_s=time.time() + 1))
        async with open_mcp_stage(tmp_path, server, logins=logins.file) as harness:
            assert await harness.text(GREET, name="Ann") == "Hello Ann"
            assert guarded_server.auth_server.refresh_count == 2

    run(scene())


def test_token_endpoint_may_be_temporarily_unavailable(
    tmp_path: Path, guarded_server: ProtectedServer
) -> None:
    async def scene() -> None:
        server, logins = server_config(guarded_server.url), token_store(tmp_path)
        login = await complete_login(server, tmp_path)
        async with open_mcp_stage(tmp_path, server, logins=logins.file) as harness:
            guarded_server.auth_server.expire_access_tokens()
            with ServedApp(make_json_app({"/token": (503, "s3cret")})) as ill:
                logins.put(server, replace(login, token_url=f"{ill}/token"))
                failed = await harness.failure(GREET, name="Ann")
            assert failed.endswith("does not get: its token cannot be refreshed now (HTTP 503)")
            assert "cannot be renewed now (ConnectError)" in await harness.failure(
                GREET, name="Ann"
            )
            logins.put(server, login)
            assert await harness.text(GREET, name="Ann") == "Hello Ann"

    run(scene())


def test_tokens_readable_by_other_users_are_not_used(
    tmp_path: Path, guarded_server: ProtectedServer
) -> None:
    async def scene() -> None:
        server, logins = server_config(guarded_server.url), token_store(tmp_path)
        await complete_login(server, tmp_path)
        logins.file.chmod(0o644)
        async with open_mcp_stage(tmp_path, server, logins=logins.file) as harness:
            assert (
                "other users can read the tokens in it: remove it, and log in again"
                in harness.notices[-1]
            )

    run(scene())


def test_same_name_at_another_address_gets_no_token(
    tmp_path: Path, guarded_server: ProtectedServer
) -> None:
    async def scene(evil: Loopback) -> None:
        await complete_login(server_config(guarded_server.url), tmp_path)
        stolen = server_config(f"{evil.url}/mcp", start_timeout_s=5)
        async with open_mcp_stage(tmp_path, stolen, logins=token_store(tmp_path).file) as harness:
            assert "needs a login" in harness.notices[-1]
        assert evil.requests
        assert all("authorization" not in headers for _, headers, _ in evil.requests)

    with serve_loopback(Loopback(status=401)) as evil:
        run(scene(evil))


def test_redirect_to_another_host_carries_neither_token_nor_header(
    tmp_path: Path, guarded_server: ProtectedServer
) -> None:
    async def scene(evil: Loopback, first: Loopback) -> None:
        server, logins = server_config(f"{first.url}/mcp", start_timeout_s=5), token_store(tmp_path)
        login = await complete_login(server_config(guarded_server.url), tmp_path)
        logins.put(server, login)
        with_header = replace(server, name="h", headers={"x-key": "s3cret"})
        async with open_mcp_stage(tmp_path, server, with_header, logins=logins.file) as harness:
            assert "not followed" in " ".join(harness.notices)
        assert any(login.access_token in str(headers) for _, headers, _ in first.requests)
        assert evil.requests == []

    with serve_loopback() as evil:
        target = {"location": f"{evil.url}/mcp"}
        with serve_loopback(Loopback(status=307, headers=target)) as first:
            run(scene(evil, first))


def test_additional_scope_is_requested_at_the_next_login(
    tmp_path: Path, guarded_server: ProtectedServer
) -> None:
    async def scene(picky: Loopback) -> None:
        server, logins = server_config(f"{picky.url}/mcp"), token_store(tmp_path)
        login = await complete_login(server_config(guarded_server.url), tmp_path)
        logins.put(server, login)
        async with open_mcp_stage(tmp_path, server, logins=logins.file) as harness:
            assert "it requires more permissions than the login has" in harness.notices[-1]
            assert harness.mcp.describe()[0].needs_login
        pid_file = logins.get(server)
        assert pid_file is not None
        logins.put(server_config(guarded_server.url), pid_file)
        repeated = await complete_login(server_config(guarded_server.url), tmp_path)
        assert (repeated.scope, repeated.challenge) == ("read write", "")

    wants = {"www-authenticate": 'Bearer error="insufficient_scope", scope="write"'}
    with serve_loopback(Loopback(status=403, headers=wants)) as picky:
        run(scene(picky))


def test_login_requests_the_configured_scope(
    tmp_path: Path, guarded_server: ProtectedServer
) -> None:
    server = server_config(guarded_server.url, oauth=OAuthTable(scope="read write"))
    assert run(complete_login(server, tmp_path)).scope == "read write"


def test_insufficient_scope_is_reported(tmp_path: Path) -> None:
    async def scene(url: str) -> None:
        async with open_mcp_stage(
            tmp_path, server_config(url), logins=token_store(tmp_path).file
        ) as harness:
            assert "HTTP 403: the login does not permit this" in harness.notices[-1]

    with serve_loopback(Loopback(status=403)) as description:
        run(scene(description.url))


def test_configured_headers_take_precedence_over_a_login(
    tmp_path: Path, guarded_server: ProtectedServer
) -> None:
    async def scene() -> None:
        server = server_config(guarded_server.url)
        await complete_login(server, tmp_path)
        custom = replace(server, headers={"Authorization": "Bearer ${T}"})
        async with open_mcp_stage(
            tmp_path, custom, environ={"T": "x"}, logins=token_store(tmp_path).file
        ) as here:
            assert "set an authorization header in `headers`" in here.notices[-1]

    run(scene())


def test_logout_revokes_the_tokens(tmp_path: Path, guarded_server: ProtectedServer) -> None:
    async def scene() -> None:
        server, logins = server_config(guarded_server.url), token_store(tmp_path)
        await complete_login(server, tmp_path)
        assert [deleted.name for deleted in await log_out(logins, "g")] == ["g"]
        assert guarded_server.auth_server.access_tokens == {}
        assert logins.get(server) is None

    run(scene())


def test_login_error_is_one_line_without_control_characters(tmp_path: Path) -> None:
    async def scene(url: str) -> None:
        with pytest.raises(ConfigError) as caught:
            await complete_login(server_config(url), tmp_path)
        assert str(caught.value).startswith("the login was refused (access_denied: not ")
        assert "\x1b" not in str(caught.value)
        assert not token_store(tmp_path).file.exists()

    with serve_protected(AuthorizationServer(is_refusing=True)) as guarded_server:
        run(scene(guarded_server.url))


def test_login_times_out_without_a_user(tmp_path: Path, guarded_server: ProtectedServer) -> None:
    async def scene() -> None:
        with pytest.raises(ConfigError, match=r"no login within 0\.2 s"):
            await complete_login(server_config(guarded_server.url), tmp_path, lambda _: None, 0.2)

    run(scene())


def test_client_id_is_used_where_registration_is_unavailable(tmp_path: Path) -> None:
    async def scene(guarded_server: ProtectedServer) -> None:
        with pytest.raises(ConfigError, match="set your client_id"):
            await complete_login(server_config(guarded_server.url), tmp_path)
        with serve_protected() as second:
            await complete_login(server_config(second.url), tmp_path)
            [expected] = second.auth_server.clients.values()
        client = expected.model_copy(update={"token_endpoint_auth_method": "client_secret_basic"})
        assert client.redirect_uris
        guarded_server.auth_server.clients[client.client_id] = client
        who = OAuthTable(
            client_id=client.client_id,
            client_secret=client.client_secret or "",
            callback_port=client.redirect_uris[0].port or 0,
        )
        server = server_config(guarded_server.url, oauth=who)
        assert (await complete_login(server, tmp_path)).method == "client_secret_basic"
        guarded_server.auth_server.expire_access_tokens()
        async with open_mcp_stage(tmp_path, server, logins=token_store(tmp_path).file) as harness:
            assert await harness.text(GREET, name="Ann") == "Hello Ann"

    with serve_protected(registers=False) as guarded_server:
        run(scene(guarded_server))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Loopback(status=200), "it requires no login"),
        (Loopback(status=404), "it requires no login"),
        (Loopback(status=401), "it offers no login: set an authorization header"),
        (Loopback(status=401, body=b"x" * (2 << 20)), "is too large"),
    ],
)
def test_server_without_login_is_reported(tmp_path: Path, answer: Loopback, why: str) -> None:
    async def scene(url: str) -> None:
        with pytest.raises(ConfigError, match=why):
            await complete_login(server_config(url), tmp_path)

    with serve_loopback(answer) as description:
        run(scene(description.url))
    request_body = [
        path for path, _, body in description.requests if body and "client_name" in body
    ]
    assert answer.status == 401 or request_body == []  # No unnecessary registration is sent.


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
def test_authorization_url_is_checked_before_it_is_opened(
    tmp_path: Path, leads_to: str, why: str
) -> None:
    async def scene(url: str) -> None:
        with pytest.raises(ConfigError) as caught:
            await complete_login(server_config(url), tmp_path)
        assert why in str(caught.value)

    wants = {"www-authenticate": f'Bearer resource_metadata="{leads_to}"'}
    with serve_loopback(Loopback(status=401, headers=wants)) as description:
        run(scene(description.url))
    assert len(description.requests) == 1


def redirect_back(address: str) -> None:
    """Act as a browser that is redirected back at once with a code."""
    request = dict(parse_qsl(urlsplit(address).query))
    visit(f"{request['redirect_uri']}?code=s3cret-code&state={request['state']}")


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
        ({"/token": (200, {**GIVEN, "access_token": "s3cret\nx: y"})}, "not a valid header value"),
        (
            {"/token": (200, {**GIVEN, "expires_in": 10**400})},
            "violates the protocol",
        ),
        ({"/token": (200, GIVEN)}, "it rejects the token that was just issued for it"),
    ],
)
def test_secrets_never_appear_in_messages(
    tmp_path: Path, answers: dict[str, tuple[int, Any]], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Malformed responses: the SDK repeats them in its errors and its log."""
    instructions = {"/register": (201, ME), "/token": (200, GIVEN), **answers}
    caplog.set_level("DEBUG")
    with ServedApp(make_json_app(instructions)) as base:
        metadata = {name: f"{base}/{name.partition('_')[0]}" for name in NAMES}
        metadata["registration_endpoint"] = f"{base}/register"
        instructions["/.well-known/oauth-authorization-server"] = (
            200,
            {"issuer": base, **metadata},
        )
        with pytest.raises(ConfigError) as caught:
            run(complete_login(server_config(f"{base}/mcp"), tmp_path, redirect_back))
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "s3cret" not in str(caught.value) + caplog.text
    assert not token_store(tmp_path).file.exists()


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
def test_secret_is_not_sent_over_plain_http(address: str, server_url: str) -> None:
    with pytest.raises(ConfigError, match="a login needs https"):
        check_place(address, server_url)


def test_secret_is_sent_over_https_or_loopback_only() -> None:
    check_place("https://login.example/token", "https://a.example/mcp")
    check_place("http://127.0.0.1:1/token", "http://localhost:2/mcp")


def test_slow_response_times_out(tmp_path: Path) -> None:
    async def scene(base: str) -> None:
        async with Callback() as callback:
            with pytest.raises(ConfigError, match="cannot be reached"):
                await log_in(
                    server_config(f"{base}/mcp"),
                    token_store(tmp_path),
                    callback,
                    visit,
                    request_s=0.5,
                )
        with pytest.raises(ConfigError, match="cannot be renewed now"):
            await post_form(Login(name="g", place=base), f"{base}{WHERE}", {}, within_s=0.5)

    with ServedApp(make_endless_app(WHERE)) as base:
        run(scene(base))


def test_token_is_bound_to_one_server_even_after_a_rejection(tmp_path: Path) -> None:
    server = server_config("https://a.example/mcp")
    token_store(tmp_path).put(
        server, Login(name="g", place="https://a.example", access_token="s3cret")
    )

    async def scene() -> None:
        flow = Bearer(server, token_store(tmp_path)).async_auth_flow(
            httpx2.Request("POST", "https://b.example/mcp")
        )
        request = await anext(flow)
        assert "authorization" not in request.headers
        with pytest.raises(StopAsyncIteration):
            await flow.asend(httpx2.Response(401, content=b"", request=request))

    run(scene())


def test_token_without_expiry_is_stored(tmp_path: Path) -> None:
    token = OAuthToken(access_token="s3cret", expires_in=10**400)
    login = with_token(Login(name="g", place="https://a.example"), token, 5.0)
    token_store(tmp_path).put(server_config("https://a.example/mcp"), login)
    assert token_store(tmp_path).get(server_config("https://a.example/mcp")) == login


def test_unusual_scope_characters_do_not_prevent_a_login(
    tmp_path: Path, guarded_server: ProtectedServer
) -> None:
    server = server_config(guarded_server.url)
    challenge = 'Bearer error="insufficient_scope", error_description="é"'
    token_store(tmp_path).put(server, Login(name="g", place="", challenge=challenge))
    assert run(complete_login(server, tmp_path)).access_token
