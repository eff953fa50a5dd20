"""The service keeps to its description, whatever is asked: nothing ends in a bug."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from schemathesis import Case

from tests.property.service_schema import HEADERS, UNSAID, described

few = settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.req("D-07")
@described(covered=False).parametrize()  # type: ignore[untyped-decorator]
@few
def test_service_matches_its_openapi_document(case: Case[Any]) -> None:
    case.call_and_validate(headers=HEADERS, excluded_checks=UNSAID)
