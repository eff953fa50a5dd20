"""The pages of commits are those of `harken ctx log`, and read no more than they need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from harken.cli.commands.ui.history import list_commits, read_newest
from harken.config.home import Home
from harken.config.store import open_configured_store
from tests.cli.kit import Cli
from tests.cli.ui_kit import show_home


class CountingStore:
    """A store that counts the commits that are read."""

    def __init__(self, store: Any) -> None:
        self._store, self.commits_read = store, 0

    def newest_commits(self, limit: int) -> Any:
        """Return the names of the last commits."""
        return self._store.newest_commits(limit)

    def commits(self, names: Sequence[Any]) -> Any:
        """Return commits by their names."""
        self.commits_read += len(names)
        return self._store.commits(names)


@pytest.fixture
def committed(cli: Cli, script: str) -> Cli:
    for prompt in ("make Ann", "hello", "hello again"):
        cli.ok("chat", "--model", script, "-p", prompt)
    return cli


def test_pages_are_ranges_of_the_commits_of_the_home(committed: Cli) -> None:
    whole = committed.ok("ctx", "log", "--all", "--json").json
    assert len(whole) >= 3
    with show_home(committed.home) as page:
        pages = [
            page.json("/api/commits", **{"from": at, "limit": 1}) for at in range(len(whole) + 1)
        ]
        assert [row for part in pages for row in part["commits"]] == whole
        assert [part["is_more"] for part in pages[-3:]] == [True, False, False]
        session = page.json("/api/sessions")["sessions"][0]["name"]
        assert page.json("/api/commits", session=session)["commits"]
        one = page.json("/api/commits", **{"session": session, "from": 10**9})
        assert one == {"commits": [], "is_more": False}


def test_a_page_after_the_last_commit_reads_none(committed: Cli) -> None:
    home = Home(str(committed.home))
    assert list_commits(home, None, 10**9, 10**9 + 10).commits == []
    with open_configured_store(home) as store:
        counting: Any = CountingStore(store)
        assert read_newest(counting, 10**9, 10**9 + 10) == []
    assert counting.commits_read == 0
