"""The viewer of a home: the sources of its routes, and its application."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import click

from harken.cli.commands.ui.home_commits import HomeCommits
from harken.cli.commands.ui.home_comparer import HomeComparer
from harken.cli.commands.ui.home_forks import HomeForks
from harken.cli.commands.ui.home_library import HomeLibrary
from harken.cli.commands.ui.runs.home_runs import MAX_RUNS, HomeRuns
from harken.config.home import Home
from harken.service.viewer.access import PageAccessCheck
from harken.service.viewer.app import ViewerApp, ViewerSources, make_viewer_app


class HomeViewer(NamedTuple):
    """The viewer of a home."""

    app: ViewerApp
    library: HomeLibrary
    sources: ViewerSources


@contextmanager
def open_home_viewer(
    home: Home,
    access: PageAccessCheck,
    *,
    command: Sequence[str],
    folder: Path,
    environ: Mapping[str, str],
    max_runs: int = MAX_RUNS,
) -> Iterator[HomeViewer]:
    """Yield the viewer of a home.

    `command` is the program and the options that select the home, for shown commands. `folder` is
    the working folder, whose repository is shown too. Sessions that run here end with the block.
    """
    program, *home_options = command
    library = HomeLibrary(home, program, home_options)
    runs = HomeRuns(home, library, click.get_current_context(silent=True), max_runs=max_runs)
    sources = ViewerSources(
        library=library,
        code=library.make_code_library(folder, environ),
        commits=HomeCommits(home, library.find_session),
        comparer=HomeComparer(library.find_session),
        forker=HomeForks(home, library),
        runner=runs,
    )
    try:
        yield HomeViewer(make_viewer_app(sources, access), library, sources)
    finally:
        runs.close()
