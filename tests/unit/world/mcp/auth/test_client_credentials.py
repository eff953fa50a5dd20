"""OAuth client credentials: tokens for a program without a user, with real servers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from harken.errors import ConfigError
from harken.world.mcp.auth.client_credentials import PAUSE_S, ProgramBearer, token_for
from harken.world.mcp.connection import McpConnection
from harken.world.mcp.host import McpHost
from harken.world.mcp.server_config import McpServerConfig, OAuthTable
from harken.world.result import ToolError
from tests.loopback_kit import Loopback, serve_loopback
from tests.mcp_auth_server import ProtectedServer, serve_protected
from tests.mcp_client_credentials_server import CLIENT_ID, SECRET, ClientCredentialsServer, new_key
from tests.mcp_http import ServedApp, make_endless_app, make_json_app
from tests.mcp_kit import open_mcp_stage, run

GREET = "mcp__g__greet"


@pytest.fixture
def office() -> ClientCredentialsServer:
    return ClientCredentialsServer()


@pytest.fixture
def guarded_server(office: ClientCredentialsServer) -> Iterator[ProtectedServer]:
    with serve_protected(office) as result:
        yield result


def server_config(guarded_server: ProtectedServer, **options: Any) -> McpServerConfig:
    who = {
        "client_id": CLIENT_ID,
        "client_secret": SECRET,
        "issuer": guarded_server.auth_server.base,
        **options,
    }
    return McpServerConfig(
        name="g", url=guarded_server.url, oauth=program_credentials(**who), timeout_s=10
    )


def program_credentials(**options: Any) -> OAuthTable:
    return OAuthTable(grant="client_credentials", **options)


def test_client_secret_gives_access_and_no_secret_is_stored(
    tmp_path: Path,
    guarded_server: ProtectedServer,
    office: ClientCredentialsServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG")

    async def scene() -> None:
        logins = tmp_path / "logins.json"
        server = server_config(guarded_server, client_id="${WHO}", client_secret="${SECRET}")
        environ = {"WHO": CLIENT_ID, "SECRET": SECRET}
        async with open_mcp_stage(tmp_path, server, logins=logins, environ=environ) as harness:
            assert await harness.text(GREET, name="Ann") == "Hello Ann"
            assert harness.notices == []
        assert not logins.exists()
        assert SECRET not in repr(server.with_resolved_variables(environ))

    run(scene())
    [request] = office.token_requests
    assert (request["grant_type"], request["resource"]) == (
        "client_credentials",
        guarded_server.url,
    )
    assert not any(
        secret in caplog.text for secret in [SECRET, request["authorization"], *office.secrets]
    )


@pytest.mark.parametrize("algorithm", ["ES256", "RS256", "EdDSA"])
@pytest.mark.parametrize("newline", ["\n", "\\n"])
def test_signed_assertion_gives_access(tmp_path: Path, algorithm: str, newline: str) -> None:
    key = new_key(algorithm)
    pem = key.private.replace("\n", newline)

    async def scene(guarded_server: ProtectedServer) -> None:
        members = {"client_secret": "", "private_key": "${KEY}", "signing_algorithm": algorithm}
        async with open_mcp_stage(
            tmp_path, server_config(guarded_server, **members), environ={"KEY": pem}
        ) as here:
            assert await here.text(GREET, name="Ann") == "Hello Ann"

    office = ClientCredentialsServer(key=key)
    with serve_protected(office) as guarded_server:
        run(scene(guarded_server))
    assert office.token_requests[0]["authorization"] == ""


def test_rejected_token_is_renewed_once_for_all_callers(
    tmp_path: Path, guarded_server: ProtectedServer, office: ClientCredentialsServer
) -> None:
    async def scene() -> None:
        async with open_mcp_stage(tmp_path, server_config(guarded_server)) as harness:
            office.expire_access_tokens()
            calls = [harness.text(GREET, name="Ann") for _ in range(5)]
            assert set(await asyncio.gather(*calls)) == {"Hello Ann"}
            assert len(office.token_requests) == 2

    run(scene())


def test_expired_token_is_not_sent(
    guarded_server: ProtectedServer, office: ClientCredentialsServer
) -> None:
    office.token_s, now_s = 10, 1000.0

    async def scene() -> None:
        nonlocal now_s
        bearer = ProgramBearer(server_config(guarded_server), lambda: now_s)
        async with httpx2.AsyncClient(auth=bearer) as client:
            for at_s, tokens in [(1000, 1), (1009, 1), (1011, 2), (1012, 2)]:
                now_s = at_s
                await client.post(guarded_server.url)
                assert len(office.token_requests) == tokens

    run(scene())


def test_secret_is_sent_only_to_the_configured_address(
    tmp_path: Path, guarded_server: ProtectedServer, office: ClientCredentialsServer
) -> None:
    async def scene() -> None:
        async with open_mcp_stage(tmp_path, server_config(guarded_server, issuer="")) as harness:
            assert harness.notices[-1].endswith(
                f"it needs a token: {office.base}/ is its "
                "authorization server: if the secret is for that server, set it as "
                "issuer in `oauth`"
            )
            assert not harness.mcp.describe()[0].needs_login
        with pytest.raises(ConfigError, match="is its authorization server"):
            await token_for(server_config(guarded_server, issuer="https://login.example/tenant"))

    run(scene())
    assert office.token_requests == []


def test_configured_scope_is_requested(
    tmp_path: Path, guarded_server: ProtectedServer, office: ClientCredentialsServer
) -> None:
    run(token_for(server_config(guarded_server, scope="read write")))
    run(token_for(server_config(guarded_server)))
    assert [request["scope"] for request in office.token_requests] == ["read write", "read"]


def test_token_failure_is_a_result_and_keeps_the_connection(
    tmp_path: Path, guarded_server: ProtectedServer, office: ClientCredentialsServer
) -> None:
    async def scene() -> None:
        async with open_mcp_stage(tmp_path, server_config(guarded_server)) as harness:
            before, office.access_tokens = office.access_tokens, {}
            office.status = 503
            assert (await harness.failure(GREET, name="Ann")).endswith(
                "it needs a token: it issued no token (HTTP 503, temporarily_unavailable)"
            )
            office.access_tokens = before
            assert await harness.text(GREET, name="Ann") == "Hello Ann"
            assert harness.notices == []

    run(scene())


def test_failed_token_endpoint_is_not_called_again_at_once(
    guarded_server: ProtectedServer, office: ClientCredentialsServer
) -> None:
    office.status, now_s = 503, 1000.0

    async def scene() -> None:
        nonlocal now_s
        bearer = ProgramBearer(server_config(guarded_server), lambda: now_s)
        async with httpx2.AsyncClient(auth=bearer) as client:
            await asyncio.gather(*[client.post(guarded_server.url) for _ in range(3)])
            assert len(office.token_requests) == 1
            assert bearer.required_action.endswith("(HTTP 503, temporarily_unavailable)")
            office.status, now_s = 200, now_s + PAUSE_S
            assert (await client.post(guarded_server.url)).status_code != 401
            assert (len(office.token_requests), bearer.required_action) == (2, "")

    run(scene())


def test_wrong_secret_is_reported_without_its_value(
    tmp_path: Path, guarded_server: ProtectedServer
) -> None:
    with pytest.raises(ConfigError) as caught:
        run(token_for(server_config(guarded_server, client_secret="wr0ng")))
    assert str(caught.value) == "it issued no token (HTTP 401, invalid_client)"


def test_secret_is_sent_in_the_form_where_basic_auth_is_unsupported(
    guarded_server: ProtectedServer, office: ClientCredentialsServer
) -> None:
    office.auth_method = "client_secret_post"
    assert run(token_for(server_config(guarded_server))).access_token in office.access_tokens


def test_server_without_token_is_not_restarted_at_once(
    tmp_path: Path, guarded_server: ProtectedServer, office: ClientCredentialsServer
) -> None:
    async def scene() -> None:
        server, around = (
            server_config(guarded_server, client_secret="wr0ng"),
            McpHost(folder=tmp_path),
        )
        connection = McpConnection(server, around, changed=lambda: None)
        with pytest.raises(ToolError, match="invalid_client"):
            await connection.open()
        with pytest.raises(ToolError, match="it is not restarted within"):
            await connection.open()
        await connection.close()

    run(scene())
    assert len(office.token_requests) == 1


WRONG_KEYS: dict[str, Callable[[], str]] = {
    "no key": lambda: "n0nsense",
    "of another kind": lambda: new_key("EdDSA").private,
    "public": lambda: new_key("ES256").public,
    "cut off": lambda: new_key("ES256").private[:80],
    "with a password": lambda: new_key("ES256", password="pw").private,
}


@pytest.mark.parametrize("kind", WRONG_KEYS)
def test_invalid_key_is_reported_without_its_value(
    guarded_server: ProtectedServer, kind: str
) -> None:
    key = WRONG_KEYS[kind]()
    members = {"client_secret": "", "private_key": key, "signing_algorithm": "ES256"}
    with pytest.raises(ConfigError) as caught:
        run(token_for(server_config(guarded_server, **members)))
    assert str(caught.value) == "private_key is not a key for ES256: pass a PEM without a password"


@pytest.mark.parametrize(
    ("url", "members", "why"),
    [
        ("http://a.example/mcp", {}, "needs https, and http://a.example is not"),
        ("https://a.example", {"issuer": "http://b.example"}, "and http://b.example is not"),
        ("https://a.example", {"issuer": "http://localhost"}, "and http://localhost is not"),
        ("https://a.example", {"client_secret": ""}, "the variables that its `oauth` names are"),
    ],
)
def test_secret_is_not_sent_over_plain_http(url: str, members: dict[str, str], why: str) -> None:
    who = program_credentials(**{"client_id": CLIENT_ID, "client_secret": SECRET, **members})
    with pytest.raises(ConfigError, match=why):
        run(token_for(McpServerConfig(name="g", url=url, oauth=who)))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((200, {"access_token": SECRET, "token_type": "s3cret"}), "it issued no token"),
        (
            (200, {"access_token": f"{SECRET}\nx: y", "token_type": "Bearer"}),
            "not a valid header value",
        ),
        ((200, {"access_token": "s3cret", "token_type": "Bearer"}), "rejects the token"),
        ((302, SECRET), "it issued no token (HTTP 302)"),
        ((200, SECRET), "it issued no token"),
    ],
)
def test_token_responses_never_appear_in_messages(
    answer: tuple[int, Any], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    instructions: dict[str, tuple[int, Any]] = {"/token": answer}
    with ServedApp(make_json_app(instructions)) as base:
        result = {"issuer": base, "token_endpoint": f"{base}/token"}
        result["authorization_endpoint"] = f"{base}/authorize"
        instructions["/.well-known/oauth-authorization-server"] = (200, result)
        who = program_credentials(client_id=CLIENT_ID, client_secret=SECRET)
        with pytest.raises(ConfigError) as caught:
            run(token_for(McpServerConfig(name="g", url=f"{base}/mcp", oauth=who)))
    assert why in str(caught.value)
    assert "s3cret" not in str(caught.value) + caplog.text


def test_slow_response_times_out() -> None:
    who = program_credentials(client_id=CLIENT_ID, client_secret=SECRET)
    with ServedApp(make_endless_app("/.well-known/oauth-protected-resource/mcp")) as base:
        server = McpServerConfig(name="g", url=f"{base}/mcp", oauth=who)
        with pytest.raises(ConfigError, match="the authorization server cannot be reached"):
            run(token_for(server, request_s=0.5))


@pytest.mark.parametrize(
    ("challenge", "why"),
    [
        ("", "the client in `oauth` has no permission"),
        (
            'Bearer error="insufficient_scope"',
            "its token has an insufficient scope: set `scope` in `oauth`",
        ),
    ],
)
def test_insufficient_scope_is_reported(tmp_path: Path, challenge: str, why: str) -> None:
    async def scene(url: str) -> None:
        server = McpServerConfig(
            name="g", url=url, oauth=program_credentials(client_id=CLIENT_ID, client_secret=SECRET)
        )
        async with open_mcp_stage(tmp_path, server) as harness:
            assert harness.notices[-1].endswith(why)

    with serve_loopback(
        Loopback(status=403, headers={"www-authenticate": challenge})
    ) as instructions:
        run(scene(instructions.url))


def test_configured_headers_take_precedence_over_a_token(
    tmp_path: Path, guarded_server: ProtectedServer, office: ClientCredentialsServer
) -> None:
    who = server_config(guarded_server).oauth
    server = McpServerConfig(
        name="g", url=guarded_server.url, headers={"Authorization": "Bearer x"}, oauth=who
    )

    async def scene() -> None:
        async with open_mcp_stage(tmp_path, server) as harness:
            assert "set an authorization header in `headers`" in harness.notices[-1]

    run(scene())
    assert office.token_requests == []


@pytest.mark.parametrize("member", ["client_secret", "private_key", "client_id", "issuer"])
def test_project_program_never_gets_the_key_of_a_model(
    tmp_path: Path, guarded_server: ProtectedServer, member: str
) -> None:
    async def scene() -> None:
        server = server_config(guarded_server, **{member: "${MODEL_KEY}"})
        async with open_mcp_stage(tmp_path, server, environ={"MODEL_KEY": "s3cret"}) as harness:
            assert (
                "it uses MODEL_KEY, the API key of a model, which servers do not get"
                in harness.notices[-1]
            )

    run(scene())
