"""A program that gets its own tokens for a server: real servers, and nobody who logs in."""

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
def there(office: ClientCredentialsServer) -> Iterator[ProtectedServer]:
    with serve_protected(office) as found:
        yield found


def server(there: ProtectedServer, **more: Any) -> McpServerConfig:
    who = {
        "client_id": CLIENT_ID,
        "client_secret": SECRET,
        "issuer": there.auth_server.base,
        **more,
    }
    return McpServerConfig(name="g", url=there.url, oauth=program(**who), timeout_s=10)


def program(**more: Any) -> OAuthTable:
    return OAuthTable(grant="client_credentials", **more)


def test_a_program_is_let_in_by_its_secret_and_nothing_of_it_is_kept(
    tmp_path: Path,
    there: ProtectedServer,
    office: ClientCredentialsServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG")

    async def scene() -> None:
        logins = tmp_path / "logins.json"
        one = server(there, client_id="${WHO}", client_secret="${SECRET}")
        environ = {"WHO": CLIENT_ID, "SECRET": SECRET}
        async with open_mcp_stage(tmp_path, one, logins=logins, environ=environ) as here:
            assert await here.text(GREET, name="Ann") == "Hello Ann"
            assert here.notices == []
        assert not logins.exists()
        assert SECRET not in repr(one.with_resolved_variables(environ))

    run(scene())
    [asked] = office.token_requests
    assert (asked["grant_type"], asked["resource"]) == ("client_credentials", there.url)
    assert not any(
        secret in caplog.text for secret in [SECRET, asked["authorization"], *office.secrets]
    )


@pytest.mark.parametrize("algorithm", ["ES256", "RS256", "EdDSA"])
@pytest.mark.parametrize("newline", ["\n", "\\n"])
def test_a_program_is_let_in_by_what_it_signs(tmp_path: Path, algorithm: str, newline: str) -> None:
    key = new_key(algorithm)
    pem = key.private.replace("\n", newline)

    async def scene(there: ProtectedServer) -> None:
        more = {"client_secret": "", "private_key": "${KEY}", "signing_algorithm": algorithm}
        async with open_mcp_stage(tmp_path, server(there, **more), environ={"KEY": pem}) as here:
            assert await here.text(GREET, name="Ann") == "Hello Ann"

    office = ClientCredentialsServer(key=key)
    with serve_protected(office) as there:
        run(scene(there))
    assert office.token_requests[0]["authorization"] == ""


def test_a_token_that_is_refused_is_asked_for_again_once_for_all_who_need_it(
    tmp_path: Path, there: ProtectedServer, office: ClientCredentialsServer
) -> None:
    async def scene() -> None:
        async with open_mcp_stage(tmp_path, server(there)) as here:
            office.expire_access_tokens()
            calls = [here.text(GREET, name="Ann") for _ in range(5)]
            assert set(await asyncio.gather(*calls)) == {"Hello Ann"}
            assert len(office.token_requests) == 2

    run(scene())


def test_a_token_that_has_ended_is_not_sent_again(
    there: ProtectedServer, office: ClientCredentialsServer
) -> None:
    office.token_s, now_s = 10, 1000.0

    async def scene() -> None:
        nonlocal now_s
        bearer = ProgramBearer(server(there), lambda: now_s)
        async with httpx2.AsyncClient(auth=bearer) as client:
            for at_s, tokens in [(1000, 1), (1009, 1), (1011, 2), (1012, 2)]:
                now_s = at_s
                await client.post(there.url)
                assert len(office.token_requests) == tokens

    run(scene())


def test_the_secret_goes_to_no_place_that_the_person_did_not_name(
    tmp_path: Path, there: ProtectedServer, office: ClientCredentialsServer
) -> None:
    async def scene() -> None:
        async with open_mcp_stage(tmp_path, server(there, issuer="")) as here:
            assert here.notices[-1].endswith(
                f"it needs a token that it does not get: {office.base}/ is its "
                "authorization server: if the secret is for that server, set it as "
                "issuer in `oauth`"
            )
            assert not here.mcp.describe()[0].needs_login
        with pytest.raises(ConfigError, match="is its authorization server"):
            await token_for(server(there, issuer="https://login.example/tenant"))

    run(scene())
    assert office.token_requests == []


def test_what_a_token_shall_allow_is_what_the_person_says(
    tmp_path: Path, there: ProtectedServer, office: ClientCredentialsServer
) -> None:
    run(token_for(server(there, scope="read write")))
    run(token_for(server(there)))
    assert [asked["scope"] for asked in office.token_requests] == ["read write", "read"]


def test_where_no_token_can_be_had_the_call_says_why_and_the_connection_lives(
    tmp_path: Path, there: ProtectedServer, office: ClientCredentialsServer
) -> None:
    async def scene() -> None:
        async with open_mcp_stage(tmp_path, server(there)) as here:
            before, office.access_tokens = office.access_tokens, {}
            office.status = 503
            assert (await here.failure(GREET, name="Ann")).endswith(
                "it needs a token that it does not get: it issued no token (HTTP 503, "
                "temporarily_unavailable)"
            )
            office.access_tokens = before
            assert await here.text(GREET, name="Ann") == "Hello Ann"
            assert here.notices == []

    run(scene())


def test_who_gives_no_token_is_not_asked_again_at_once(
    there: ProtectedServer, office: ClientCredentialsServer
) -> None:
    office.status, now_s = 503, 1000.0

    async def scene() -> None:
        nonlocal now_s
        bearer = ProgramBearer(server(there), lambda: now_s)
        async with httpx2.AsyncClient(auth=bearer) as client:
            await asyncio.gather(*[client.post(there.url) for _ in range(3)])
            assert len(office.token_requests) == 1
            assert bearer.required_action.endswith("(HTTP 503, temporarily_unavailable)")
            office.status, now_s = 200, now_s + PAUSE_S
            assert (await client.post(there.url)).status_code != 401
            assert (len(office.token_requests), bearer.required_action) == (2, "")

    run(scene())


def test_a_wrong_secret_is_said_without_it(tmp_path: Path, there: ProtectedServer) -> None:
    with pytest.raises(ConfigError) as caught:
        run(token_for(server(there, client_secret="wr0ng")))
    assert str(caught.value) == "it issued no token (HTTP 401, invalid_client)"


def test_the_secret_is_sent_in_the_form_where_no_header_is_taken(
    there: ProtectedServer, office: ClientCredentialsServer
) -> None:
    office.auth_method = "client_secret_post"
    assert run(token_for(server(there))).access_token in office.access_tokens


def test_a_program_that_gets_no_token_is_not_started_again_at_once(
    tmp_path: Path, there: ProtectedServer, office: ClientCredentialsServer
) -> None:
    async def scene() -> None:
        one, around = server(there, client_secret="wr0ng"), McpHost(folder=tmp_path)
        connection = McpConnection(one, around, changed=lambda: None)
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
def test_a_key_that_cannot_sign_is_said_without_it(there: ProtectedServer, kind: str) -> None:
    key = WRONG_KEYS[kind]()
    more = {"client_secret": "", "private_key": key, "signing_algorithm": "ES256"}
    with pytest.raises(ConfigError) as caught:
        run(token_for(server(there, **more)))
    assert str(caught.value) == "private_key is no key that signs ES256: a PEM without a password"


@pytest.mark.parametrize(
    ("url", "more", "why"),
    [
        ("http://a.example/mcp", {}, "needs https, and http://a.example is not"),
        ("https://a.example", {"issuer": "http://b.example"}, "and http://b.example is not"),
        ("https://a.example", {"issuer": "http://localhost"}, "and http://localhost is not"),
        ("https://a.example", {"client_secret": ""}, "the variables that its `oauth` names are"),
    ],
)
def test_no_secret_is_sent_to_where_others_can_read_it(
    url: str, more: dict[str, str], why: str
) -> None:
    who = program(**{"client_id": CLIENT_ID, "client_secret": SECRET, **more})
    with pytest.raises(ConfigError, match=why):
        run(token_for(McpServerConfig(name="g", url=url, oauth=who)))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((200, {"access_token": SECRET, "token_type": "s3cret"}), "it issued no token"),
        ((200, {"access_token": f"{SECRET}\nx: y", "token_type": "Bearer"}), "cannot be sent"),
        ((200, {"access_token": "s3cret", "token_type": "Bearer"}), "rejects the token"),
        ((302, SECRET), "it issued no token (HTTP 302)"),
        ((200, SECRET), "it issued no token"),
    ],
)
def test_what_is_answered_never_stands_in_a_message(
    answer: tuple[int, Any], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    told: dict[str, tuple[int, Any]] = {"/token": answer}
    with ServedApp(make_json_app(told)) as base:
        found = {"issuer": base, "token_endpoint": f"{base}/token"}
        found["authorization_endpoint"] = f"{base}/authorize"
        told["/.well-known/oauth-authorization-server"] = (200, found)
        who = program(client_id=CLIENT_ID, client_secret=SECRET)
        with pytest.raises(ConfigError) as caught:
            run(token_for(McpServerConfig(name="g", url=f"{base}/mcp", oauth=who)))
    assert why in str(caught.value)
    assert "s3cret" not in str(caught.value) + caplog.text


def test_who_answers_byte_by_byte_is_not_waited_for_without_end() -> None:
    who = program(client_id=CLIENT_ID, client_secret=SECRET)
    with ServedApp(make_endless_app("/.well-known/oauth-protected-resource/mcp")) as base:
        one = McpServerConfig(name="g", url=f"{base}/mcp", oauth=who)
        with pytest.raises(ConfigError, match="the authorization server cannot be reached"):
            run(token_for(one, request_s=0.5))


@pytest.mark.parametrize(
    ("challenge", "why"),
    [
        ("", "who `oauth` says that we are may not do that"),
        ('Bearer error="insufficient_scope"', "its token gives: write `scope` into `oauth`"),
    ],
)
def test_what_a_program_may_not_do_is_said(tmp_path: Path, challenge: str, why: str) -> None:
    async def scene(url: str) -> None:
        one = McpServerConfig(
            name="g", url=url, oauth=program(client_id=CLIENT_ID, client_secret=SECRET)
        )
        async with open_mcp_stage(tmp_path, one) as here:
            assert here.notices[-1].endswith(why)

    with serve_loopback(Loopback(status=403, headers={"www-authenticate": challenge})) as told:
        run(scene(told.url))


def test_own_headers_count_before_a_token(
    tmp_path: Path, there: ProtectedServer, office: ClientCredentialsServer
) -> None:
    who = server(there).oauth
    one = McpServerConfig(name="g", url=there.url, headers={"Authorization": "Bearer x"}, oauth=who)

    async def scene() -> None:
        async with open_mcp_stage(tmp_path, one) as here:
            assert "set an authorization header in `headers`" in here.notices[-1]

    run(scene())
    assert office.token_requests == []


@pytest.mark.parametrize("member", ["client_secret", "private_key", "client_id", "issuer"])
def test_a_program_of_a_project_is_never_the_key_of_a_model(
    tmp_path: Path, there: ProtectedServer, member: str
) -> None:
    async def scene() -> None:
        one = server(there, **{member: "${MODEL_KEY}"})
        async with open_mcp_stage(tmp_path, one, environ={"MODEL_KEY": "s3cret"}) as here:
            assert (
                "it uses MODEL_KEY, the API key of a model, which servers do not get"
                in here.notices[-1]
            )

    run(scene())
