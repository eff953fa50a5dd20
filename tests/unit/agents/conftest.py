"""What holds for every test of agents."""

import pytest

from tests.unit.agents.hook_kit import SENT


@pytest.fixture(autouse=True)
def nothing_sent() -> None:
    """Forget what earlier tests sent."""
    SENT.clear()
