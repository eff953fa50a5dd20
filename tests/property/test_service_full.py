"""The service keeps to its description in many requests, and at each limit of its schemas.

The requests are generated when the tests are collected, in each worker. A module of this name is
not collected for `make test`.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from schemathesis import Case
from schemathesis.checks import CHECKS

from tests.property.service_schema import HEADERS, UNSAID, described

# Among very many requests are some that cannot be sent as they are wrong: a parameter whose value is
# an empty list is no parameter.
UNSENT: list[Any] = [*UNSAID, CHECKS.get_one("negative_data_rejection")]
many = settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.full
@pytest.mark.req("D-07")
@described(covered=True).parametrize()  # type: ignore[untyped-decorator]
@many
def test_service_matches_its_openapi_document_in_many_requests(case: Case[Any]) -> None:
    case.call_and_validate(headers=HEADERS, excluded_checks=UNSENT)
