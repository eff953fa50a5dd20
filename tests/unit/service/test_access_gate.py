"""Access control of requests."""

from __future__ import annotations

import pytest

from harken.service.access import AccessCheck
from harken.store.remote.errors import RequestRefused

pytestmark = pytest.mark.req("D-07")
HERE = {"host": "127.0.0.1:8420"}
TOKEN = {"authorization": "Bearer secret"}


def code(gate: AccessCheck, headers: dict[str, str], path: str = "/v1/commits") -> str | None:
    try:
        gate.check(path, headers)
    except RequestRefused as refused:
        return refused.code
    return None


def test_request_with_the_token_is_allowed() -> None:
    assert code(AccessCheck("secret"), HERE | TOKEN) is None
    assert code(AccessCheck("secret"), HERE | {"authorization": "bearer  secret "}) is None


@pytest.mark.parametrize(
    "header",
    ["", "secret", "Bearer", "Bearer ", "Bearer secre", "Bearer secrets", "Basic secret", "é"],
)
def test_request_without_the_token_is_refused(header: str) -> None:
    assert code(AccessCheck("secret"), HERE | {"authorization": header}) == "unauthorized"


def test_socket_client_needs_no_token() -> None:
    assert code(AccessCheck(None), {"host": "localhost"}) is None


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:1", "LOCALHOST", "127.0.0.1", "127.1.2.3:80", "[::1]:8420"]
)
def test_loopback_host_names_are_accepted(host: str) -> None:
    assert code(AccessCheck("secret"), TOKEN | {"host": host}) is None


@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8420", "10.0.0.1",
     "127.0.0.1:80:80", "0.0.0.0", "evil.example@127.0.0.1"],
)  # fmt: skip
def test_dns_rebinding_is_refused(host: str) -> None:
    """In DNS rebinding the browser sends the host name under which it resolved the port."""
    assert code(AccessCheck("secret"), TOKEN | {"host": host}) == "forbidden"
    assert code(AccessCheck(None), {"host": host}) == "forbidden"


def test_other_host_names_are_accepted_if_opened_to_the_network() -> None:
    assert code(AccessCheck("secret", any_host=True), TOKEN | {"host": "harken.example"}) is None
    assert code(AccessCheck("secret", any_host=True), {"host": "harken.example"}) == "unauthorized"


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:8420", ""])
def test_browser_requests_are_refused_even_with_the_token(origin: str) -> None:
    assert code(AccessCheck("secret"), HERE | TOKEN | {"origin": origin}) == "forbidden"
    assert code(AccessCheck(None), HERE | {"origin": origin}, "/v1/health") == "forbidden"


def test_only_health_needs_no_token() -> None:
    assert code(AccessCheck("secret"), HERE, "/v1/health") is None
    for path in ("/v1/health/", "/v1/openapi.json", "/v1/healthx", "/", "/v1/health/../commits"):
        assert code(AccessCheck("secret"), HERE, path) == "unauthorized"
