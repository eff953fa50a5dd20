"""The service keeps to its description, whatever is asked: nothing ends in a bug."""

from __future__ import annotations

import atexit
import shutil
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.config import SchemathesisConfig

from harken.service.access import AccessCheck
from harken.service.app import make_app
from harken.store.memory import MemoryStore
from harken.testing.store import batch_of
from tests.service_kit import TOKEN

load_all_checks()
# What a schema cannot say is refused, too: a time that is none, a name of nothing.
UNSAID: list[Any] = [CHECKS.get_one("positive_data_acceptance")]
# Among very many requests are some that cannot be sent as they are wrong: a parameter whose value is
# an empty list is no parameter.
UNSENT: list[Any] = [*UNSAID, CHECKS.get_one("negative_data_rejection")]
HEADERS = {"Authorization": f"Bearer {TOKEN}"}


@schemathesis.serializer("application/msgpack")
def as_it_is(context: object, value: Any) -> bytes:
    return value if isinstance(value, bytes) else repr(value).encode()


def service() -> Any:
    store = MemoryStore()
    store.write(batch_of("Hi", principal="iree"))
    sessions = Path(mkdtemp(prefix="harken-sessions-"))
    atexit.register(shutil.rmtree, sessions, ignore_errors=True)
    return make_app(store, AccessCheck(TOKEN, any_host=True), sessions=sessions)


def described(*, covered: bool) -> Any:
    """Return what is asked; `covered`: beside random requests, each limit of each schema."""
    config = SchemathesisConfig.from_dict({"phases": {"coverage": {"enabled": covered}}})
    return schemathesis.openapi.from_asgi(
        "/v1/openapi.json", service(), config=config, headers=HEADERS
    )


quick, long = described(covered=False), described(covered=True)
few = settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
many = settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.req("D-07")
@quick.parametrize()  # type: ignore[untyped-decorator]
@few
def test_service_matches_its_openapi_document(case: Case[Any]) -> None:
    case.call_and_validate(headers=HEADERS, excluded_checks=UNSAID)


@pytest.mark.full
@pytest.mark.req("D-07")
@long.parametrize()  # type: ignore[untyped-decorator]
@many
def test_service_matches_its_openapi_document_in_many_requests(case: Case[Any]) -> None:
    case.call_and_validate(headers=HEADERS, excluded_checks=UNSENT)
