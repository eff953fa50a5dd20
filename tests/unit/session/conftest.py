"""Fixtures of session tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harken.session.session import Session
from tests.session_kit import create_agent, new_session


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """A session with one agent, `agent_001`, whose `agent_created` is `msg_001`."""
    with new_session(tmp_path) as session:
        create_agent(session)
        yield session
