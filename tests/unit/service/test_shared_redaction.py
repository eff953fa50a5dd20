"""The redaction of a session in one file removes what other exports remove."""

from __future__ import annotations

import pytest

from harken.core.secrets.home_folders import HomeFolders
from harken.core.secrets.redaction import Credentials
from harken.service.viewer.shared.redaction import SessionRedaction
from tests.unit.core.secrets.test_redaction import SECRETS


@pytest.mark.parametrize(("kind", "secret"), SECRETS)
def test_a_credential_alone_in_a_string_is_removed(kind: str, secret: str) -> None:
    redaction = SessionRedaction(HomeFolders())
    assert redaction.replace(secret) == Credentials().replace(secret) == f"[redacted {kind}]"
    assert redaction.counts["credentials"] == {kind: 1}


def test_a_value_behind_its_name_is_removed_from_json() -> None:
    redaction = SessionRedaction(HomeFolders())
    redacted = redaction.redact_json(
        {"password": "hunter2hunter2", "path": "/home/ann/x", "n": 1.0}
    )
    assert redacted == {"password": "[redacted password]", "path": "~/x", "n": 1.0}
