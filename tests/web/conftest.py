"""One Chromium for a module, one home for all modules, and a new browser profile for each test.

The kits are imported where they are needed: conftest.py is read also where playwright is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.web.browser_kit import Browser, Tab


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with all sessions of `scenes`. No test writes in it."""
    from tests.web.scenes import write_home

    folder = tmp_path_factory.mktemp("web")
    write_home(folder / "home", folder / "imports")
    return folder / "home"


@pytest.fixture(scope="session")
def history_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with the commits of `history_scenes`. No test writes in it."""
    from tests.web.history_scenes import write_history_home

    home = tmp_path_factory.mktemp("history") / "home"
    write_history_home(home)
    return home


@pytest.fixture(scope="module")
def browser(home: Path) -> Iterator[Browser]:
    """A running Chromium.

    Playwright has an event loop in this thread until the end of the module. So `home`, whose
    agents need one as well, is made before.
    """
    from tests.web.browser_kit import open_browser

    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def address(home: Path) -> Iterator[str]:
    """The address of a viewer of the home."""
    from tests.cli.ui_kit import show_home

    with show_home(home) as page:
        yield page.address


@pytest.fixture
def tab(browser: Browser, address: str) -> Iterator[Tab]:
    """A page of the viewer. The test fails if the page does what no page may do."""
    from tests.web.browser_kit import Tab

    with browser.new_context(viewport={"width": 1280, "height": 800}) as context:
        tab = Tab(context, address)
        yield tab
        assert tab.problems == []
