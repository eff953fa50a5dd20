from pathlib import Path

import pytest

from tests.unit.index.index_kit import Imports


@pytest.fixture
def imports(tmp_path: Path) -> Imports:
    """An empty home into which files are imported."""
    return Imports(tmp_path)
