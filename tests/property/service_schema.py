"""The description of the service as a source of requests: random ones, and the limits of schemas."""

from __future__ import annotations

import atexit
import shutil
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import schemathesis
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
