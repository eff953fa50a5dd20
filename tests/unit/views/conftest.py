"""Logs for several tests of views."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harken.views.viewer import SessionViewer
from tests.unit.views.examples import EXAMPLE_1, EXAMPLE_2
from tests.unit.views.log_builder import LogBuilder, write_log


@pytest.fixture
def play(tmp_path: Path) -> Iterator[LogBuilder]:
    with LogBuilder(tmp_path) as play:
        yield play


@pytest.fixture
def cafe(tmp_path: Path) -> SessionViewer:
    return write_log(tmp_path, EXAMPLE_1)


@pytest.fixture
def inner(tmp_path: Path) -> SessionViewer:
    return write_log(tmp_path, EXAMPLE_2)
