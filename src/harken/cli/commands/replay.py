"""`harken replay SESSION`: show the requests of a session, with the context of each model call."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click
import msgspec

from harken.cli.commands.view.sources import open_viewer
from harken.cli.options.home import home_option, json_option
from harken.cli.options.name_types import SESSION
from harken.config.home import Home
from harken.config.name_resolver import NameResolver
from harken.config.store import build_commit_resolver
from harken.errors import ConfigError
from harken.terminal.text import print_json, print_text

if TYPE_CHECKING:
    from harken.core.ids import AgentId
    from harken.views.steps import RequestSteps
    from harken.views.viewer import SessionViewer


@click.command()
@click.argument("session", type=SESSION)
@click.option(
    "--at",
    metavar="REQUEST",
    help="The first request to show: a number (-1 is the last one), or an id.",
)
@click.option("--agent", metavar="AGENT", help="Filter by agent.")
@click.option("--first", metavar="REQUEST", help="The first request of the range.")
@click.option("--last", metavar="REQUEST", help="The last request of the range.")
@click.option("--context", "whole", is_flag=True, help="Print the full context of each request.")
@click.option(
    "--check",
    "checks",
    is_flag=True,
    help="Run the session again offline, and check that it is the same.",
)
@json_option
@home_option
def command(
    home: Home, session: str, as_json: bool, whole: bool, checks: bool, **options: Any
) -> int:
    """Step through the model requests of a SESSION: context, new messages and response.

    SESSION/AGENT selects and numbers the requests of one agent. In a terminal, use keys to move (?
    lists them). Otherwise all steps are printed: with --json one per line, with --at only one.

    With --check the session runs again offline with recorded responses and tool results. Exit code
    0 if it is the same, 1 if it differs, 2 if it cannot run.
    """
    from harken.terminal.environment import has_screen

    session, of_session = NameResolver(home).split_agent(session)
    viewer = open_viewer(home, session)
    if checks:
        return _check(session, viewer, as_json=as_json)
    steps = build_steps(home, viewer)
    if not len(steps):
        raise ConfigError(f"{session}: no model calls; there is nothing to replay")
    span = _Span.of(steps, viewer, thread=of_session, **options)
    if has_screen() and not as_json and not whole:
        return _show(steps, viewer, span)
    from harken.cli.replay_view.page import as_lines, as_rows

    numbers = span.numbers if span.index is None else [span.index]
    if as_json:
        for row in as_rows(steps, numbers, is_full=whole):
            print_json(row, indent=None)
    else:
        for line in as_lines(steps, numbers, is_full=whole):
            print_text(line)
    return 0


def _check(session: str, viewer: SessionViewer, *, as_json: bool) -> int:
    """Replay a session, or rebuild the requests of one from another program."""
    from harken.cli.replay_view import check_report
    from harken.experiments.replay import check as determinism
    from harken.experiments.replay.player import ReplayExtras
    from harken.world.local import local_tools

    events, is_log = viewer.events, viewer.path.is_file()
    if not is_log or determinism.is_recorded(events):
        rebuilt = determinism.rebuild(events, viewer.resolver)
        lines = check_report.rebuilt_lines(session, rebuilt)
        row, is_same = check_report.rebuilt_row(session, rebuilt), not rebuilt.failures
    else:
        with TemporaryDirectory(prefix="harken-check-") as folder:
            tools = local_tools(Path(folder), outputs=Path(folder))  # the tools are never run
        result = determinism.check(events, ReplayExtras(tools=tools, resolver=viewer.resolver))
        lines = check_report.checked_lines(session, result)
        row, is_same = check_report.checked_row(session, result), result.difference is None
    if as_json:
        print_json(row)
    else:
        for line in lines:
            print_text(line)
    return 0 if is_same else 1


class _Span(msgspec.Struct, frozen=True):
    """The selected requests."""

    agent_id: AgentId | None
    numbers: Sequence[int]
    index: int | None

    @classmethod
    def of(
        cls,
        steps: RequestSteps,
        viewer: SessionViewer,
        *,
        thread: str | None,
        at: str | None,
        agent: str | None,
        first: str | None,
        last: str | None,
    ) -> _Span:
        """Resolve the options. Raises NameNotFound, and ConfigError if no request is selected.

        `thread`: the agent of SESSION/AGENT, whose calls have their own numbers.
        """
        thread_agent = None if thread is None else viewer.resolve_agent(thread)
        agent_id = thread_agent if agent is None else viewer.resolve_agent(agent)
        start = 1 if first is None else steps.find(first, thread_agent)
        stop = len(steps) if last is None else steps.find(last, thread_agent)
        numbers = [number for number in steps.numbers_for(agent_id) if start <= number <= stop]
        if not numbers:
            whose = "" if agent is None else f" of {agent}"
            raise ConfigError(f"no request{whose} from {start} to {stop}")
        return cls(agent_id, numbers, None if at is None else steps.find(at, thread_agent))


def build_steps(home: Home, viewer: SessionViewer) -> RequestSteps:
    """Return the steps of a session; the store is opened if an agent began from a commit."""
    from harken.views.steps import RequestSteps

    return RequestSteps(viewer.events, resolver=build_commit_resolver(home))


def _show(steps: RequestSteps, viewer: SessionViewer, span: _Span) -> int:
    from harken.cli.replay_view.reader import ReplayReader
    from harken.cli.replay_view.window import ReplayWindow
    from harken.terminal.environment import TerminalEnvironment

    reader = ReplayReader(steps, viewer, span.numbers[0] if span.index is None else span.index)
    reader.agent = span.agent_id
    return ReplayWindow(reader, TerminalEnvironment.from_process()).run()
