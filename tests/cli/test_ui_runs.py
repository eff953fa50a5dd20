"""The server of the page runs sessions as `harken chat` does, and they can be continued anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.ui_kit import show_home
from tests.cli.ui_run_kit import Runs, write_script


@pytest.fixture
def runs(home: Path) -> Iterator[Runs]:
    with show_home(home) as page:
        yield Runs(page)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture
def tea(runs: Runs, tmp_path: Path, folder: Path) -> str:
    """The name of a new session that runs."""
    row = runs.start(model=write_script(tmp_path), folder=str(folder), name="tea")
    assert (row["name"], row["state"], row["folder"]) == ("tea", "running", str(folder))
    assert row["primary"] == "agent_001"
    return "tea"


def test_a_message_is_answered_once_also_if_it_is_sent_twice(runs: Runs, tea: str) -> None:
    for _ in range(2):
        runs.send(tea, "hello", id_="m1")
    runs.wait_idle(tea)
    said = [row for row in runs.texts(tea) if row[0] != "System"]
    assert said == [("Heard", "hello"), ("Said", "Hi there.")]
    assert runs.page.session(tea)["session"]["is_live"]
