"""What holds for every test of built-in hooks."""

import pytest

from tests.unit.agents.built_in.built_in import DONE


@pytest.fixture(autouse=True)
def nothing_changed() -> None:
    """Forget what earlier tests changed."""
    DONE.clear()
