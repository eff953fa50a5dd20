"""`harken rerun SESSION --at REQUEST`: rerun a session from a model call, in a new session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click
import msgspec

from harken.chat.commands.base import MODES
from harken.cli.commands.sessions.picker import check_new_name
from harken.cli.options.home import home_option, json_option
from harken.cli.options.name_types import SESSION
from harken.cli.options.workers import MAX_JOBS, on_option, parse_on, print_lost_workers
from harken.cli.redaction_report import print_redacted
from harken.config.home import Home, command_prefix, current_folder, environment
from harken.errors import ConfigError
from harken.session.branch import find_free_name
from harken.terminal.progress import progress
from harken.terminal.text import one_line, print_json, print_text
from harken.views.message_text import format_count

if TYPE_CHECKING:
    from harken.agents.runtime import AgentRuntime
    from harken.config.settings import Settings
    from harken.executors.workers import Workers
    from harken.experiments.batch_reruns import OpenSetup, RerunItem, RerunSetup
    from harken.experiments.change import Change
    from harken.experiments.fork_point import ForkPoint
    from harken.experiments.rerun import RerunResult
    from harken.store.base import Store
    from harken.world.permissions.mode import Mode
    from harken.world.world import World

    RunItems: TypeAlias = Callable[[Home, Sequence[RerunItem]], list[RerunResult]]

AT_ONCE = 4
"""The maximum number of concurrent reruns."""


@click.command()
@click.argument("session", type=SESSION)
@click.option(
    "--at",
    required=True,
    metavar="REQUEST",
    help="The request: a number (-1 is the last one), or an id.",
)
@click.option(
    "--edit",
    metavar="MESSAGE=TEXT",
    multiple=True,
    help="Replace the text of a message: msg_007, #0 (position), -1 (from the end). Repeatable.",
)
@click.option("--drop", metavar="MESSAGE", multiple=True, help="Remove a message. Repeatable.")
@click.option("--model", metavar="MODEL", help="The model (default: the recorded one).")
@click.option(
    "--system-prompt-file",
    "system",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Replace the system prompt by the text of this file.",
)
@click.option("--without-hook", metavar="NAME", multiple=True, help="Remove this hook. Repeatable.")
@click.option(
    "--name",
    metavar="NAME",
    help="The name of the new session; with several runs, NAME-1, NAME-2, ...",
)
@click.option(
    "--runs", "times", metavar="N", type=click.IntRange(1), default=1, help="The number of runs."
)
@click.option(
    "--replay-inputs",
    "follow",
    is_flag=True,
    help="Send the later inputs of the recorded session, too.",
)
@click.option(
    "--live/--no-live",
    default=False,
    help="Run or refuse tool calls that are not recorded (default: refuse).",
)
@click.option("--permission", type=click.Choice(MODES), help="The permission mode of live tools.")
@click.option(
    "--jobs",
    type=click.IntRange(1, MAX_JOBS),
    help="The number of worker processes (default: 1, this process).",
)
@on_option
@json_option
@home_option
def command(
    home: Home, session: str, at: str, jobs: int | None, on: str, as_json: bool, **options: Any
) -> int:
    """Rerun a SESSION from any model call, with changes.

    A new session starts with the changed context of the call. Tool calls that equal recorded ones
    get the recorded results. SESSION and REQUEST are as in `harken replay`.
    """
    if options["permission"] is not None and not options["live"]:
        raise click.UsageError("--permission is for live tools: add --live")
    workers = parse_on(on, jobs, 1)
    point = find_point(home, session, at)
    change = _change(options)
    if options["live"] and not point.is_run_by_harken:
        raise click.UsageError("--live: the tools of another runtime cannot be run")
    with ExitStack() as stack:
        bench = RerunEnvironment.open(home, options["permission"], stack)
        results = bench.run(
            point,
            change,
            times=options["times"],
            live=options["live"],
            follow=options["follow"],
            name=options["name"],
            run=None
            if not workers.has_processes
            else partial(_run_in_workers, workers, _setup_of(home, session, at, options)),
        )
    if as_json:
        print_json([as_row(result) for result in results])
    else:
        _report(point, results, live=options["live"])
    return int(any(result.error is not None for result in results))


def find_point(home: Home, ref: str, message: str) -> ForkPoint:
    """Return the selected model call. Raises NameNotFound, ConfigError."""
    from harken.cli.commands.view.sources import open_viewer
    from harken.config.name_resolver import NameResolver
    from harken.experiments.fork_point import ForkPoint

    session, agent = NameResolver(home).split_agent(ref)
    viewer = open_viewer(home, session)
    name = viewer.path.stem if viewer.path.suffix == ".jsonl" else viewer.path.name
    events, resolver = viewer.events, viewer.resolver
    of_agent = None if agent is None else viewer.resolve_agent(agent)
    return ForkPoint.find(name, events, message, agent=of_agent, resolver=resolver, log=viewer.path)


def _change(options: dict[str, Any]) -> Change:
    from harken.chat.models import with_absolute_path
    from harken.experiments.change import Change

    edits: list[tuple[str, str]] = []
    for edit in options["edit"]:
        message, equals, text = edit.partition("=")
        if not equals or not message:
            raise click.UsageError(f"--edit {one_line(edit, 40)!r}: write MESSAGE=TEXT")
        edits.append((message, text))
    system: Path | None = options["system"]
    return Change(
        edit=edits,
        drop=options["drop"],
        model=None if options["model"] is None else with_absolute_path(options["model"]),
        system=None if system is None else _text(system),
        without_hooks=options["without_hook"],
    )


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8").rstrip("\n")
    except UnicodeDecodeError:
        raise ConfigError(f"{file}: not UTF-8 text, as a system prompt must be") from None


class RerunEnvironment(msgspec.Struct, frozen=True):
    """The environment of reruns: models, store and tools of this machine, as in a chat."""

    home: Home
    runtime: AgentRuntime
    store: Store | None
    live: Callable[[str], World]
    """Creates the world for calls that are not in the record."""

    @classmethod
    def open(cls, home: Home, permission: Mode | None, stack: ExitStack) -> RerunEnvironment:
        """Open the environment. `stack` closes it. Raises ConfigError, StoreError."""
        from harken.agents.runtime import (
            ActionPolicy,
            AgentLibrary,
            AgentRuntime,
            ContextLimits,
            ModelSettings,
            Observers,
        )
        from harken.chat.checkpoint_store import LOCK_TIMEOUT_S, CheckpointStore
        from harken.chat.models import build_model_resolver
        from harken.chat.options import ChatOptions
        from harken.chat.sandbox import build_shell_sandbox
        from harken.chat.world import (
            WorldSettings,
            build_permissions,
            find_outputs_folder,
            open_world,
        )
        from harken.config.allowed_commands import AllowedCommands
        from harken.config.identity import load_chat_identity
        from harken.config.settings import load_settings
        from harken.config.store import open_store

        settings: Settings = load_settings(home, permission=permission)
        home.create_folders()
        checkpoint_store = CheckpointStore.open(
            lambda: open_store(home, settings, patience_s=LOCK_TIMEOUT_S)
        )
        stack.callback(checkpoint_store.close)
        for note in checkpoint_store.notes:
            click.echo(one_line(note, 500), err=True)
        checkpoints = checkpoint_store.checkpoints(
            home, load_chat_identity({}, environment(), current_folder())
        )
        if checkpoints is not None and checkpoints.sockets is not None:
            stack.callback(checkpoints.sockets.close)
        runtime = AgentRuntime(
            models=ModelSettings(resolver=build_model_resolver(home, settings)),
            checkpoints=checkpoints,
            library=AgentLibrary(templates=settings.templates),
            policy=ActionPolicy(allowed_commands=AllowedCommands(home)),
            limits=ContextLimits(compact_at=settings.compact_at or None, windows=settings.windows),
            observers=Observers(
                on_notice=lambda notice: click.echo(one_line(notice, 500), err=True)
            ),
            redact=settings.credentials(),
        )
        stack.callback(print_redacted, runtime.redact)

        def live(stem: str) -> World:
            outputs = find_outputs_folder(home, settings, stem)
            box = build_shell_sandbox(home, settings, outputs=outputs)
            around = WorldSettings(outputs, box, runtime.notify, home)
            permissions = build_permissions(settings, home.folder)
            return open_world(ChatOptions(), settings, permissions, None, around)

        return cls(home, runtime, checkpoint_store.store, live)

    def run(
        self,
        point: ForkPoint,
        change: Change,
        *,
        times: int,
        live: bool,
        follow: bool,
        name: str | None = None,
        run: RunItems | None = None,
    ) -> list[RerunResult]:
        """Run several reruns concurrently. Raises as `experiments.rerun`, before any begins.

        run: runs them in workers.
        """
        from harken.experiments.batch_reruns import RerunItem
        from harken.experiments.rerun import check_rerun, rerun

        check_rerun(point, change, self.runtime)
        stems = _stems(self.home, point.session, times, name)
        logs = [self.home.create_log(stem) for stem in stems]
        if run is not None:
            return run(
                self.home,
                [RerunItem(log=log.absolute(), change=change, follow=follow) for log in logs],
            )
        turn = asyncio.Semaphore(AT_ONCE)

        async def one(log: Path) -> RerunResult:
            async with turn:
                world = self.live(log.stem) if live else None
                return await rerun(
                    point,
                    log,
                    change,
                    runtime=self.runtime,
                    store=self.store,
                    live=world,
                    follow=follow,
                )

        async def every() -> list[RerunResult]:
            return list(await asyncio.gather(*map(one, logs)))

        return asyncio.run(every())


@contextmanager
def open_setup(
    folder: str, permission: Mode | None, session: str, at: str, *, is_live: bool
) -> Iterator[RerunSetup]:
    """Open the environment of reruns in a worker. Raises ConfigError, StoreError.

    folder: the home, at the same path on each machine.
    """
    from harken.experiments.batch_reruns import RerunSetup

    home = Home(folder)
    if not home.folder.is_dir():
        raise ConfigError(
            f"{folder}: a worker does not see this home; put it on a file system that all "
            "machines share"
        )
    with ExitStack() as stack:
        point = find_point(home, session, at)
        bench = RerunEnvironment.open(home, permission, stack)
        yield RerunSetup(
            point=point,
            runtime=bench.runtime,
            store=bench.store,
            live=bench.live if is_live else None,
        )


def _setup_of(home: Home, session: str, at: str, options: dict[str, Any]) -> OpenSetup:
    """Return the function that opens the environment in a worker."""
    path = Path(session).absolute()
    return partial(
        open_setup,
        str(home.folder.absolute()),
        options["permission"],
        str(path) if path.is_file() else session,
        at,
        is_live=options["live"],
    )


def _run_in_workers(
    workers: Workers, setup: OpenSetup, home: Home, items: Sequence[RerunItem]
) -> list[RerunResult]:
    """Run reruns in workers. Return their results in the order of the items."""
    from harken.experiments.batch_reruns import BatchReruns

    by_log: dict[Path, RerunResult] = {}
    with progress("Running") as show, workers.open() as executor:

        def add(item: RerunItem, result: RerunResult) -> None:
            by_log[item.log] = result
            failed = sum(result.error is not None for result in by_log.values())
            suffix = f", {failed} failed" if failed else ""
            show(len(by_log), len(items), f"{len(by_log)} of {len(items)} runs{suffix}")

        reruns = BatchReruns(open=setup, journal=home.journal_folder.absolute())
        try:
            reruns.run(executor, items, add)
        finally:
            for item in items:
                if item.log.exists() and not item.log.stat().st_size:
                    item.log.unlink()  # It reserved the name of a run that has no session.
            print_lost_workers(executor.lost_workers)
    return [by_log[item.log] for item in items]


def _stems(home: Home, session: str, times: int, name: str | None) -> list[str]:
    """Return the names of the new sessions; of several, they end in `-1` to `-N`.

    name: the name from the user. None derives it from the session. Raises ConfigError if it is
    taken.
    """
    base = find_free_name(home.sessions_folder, session, "rerun") if name is None else name
    stems = [base] if times == 1 else [f"{base}-{number}" for number in range(1, times + 1)]
    return stems if name is None else [check_new_name(home, stem) for stem in stems]


def as_row(result: RerunResult) -> dict[str, Any]:
    """Return a rerun as JSON values."""
    return {
        "session": result.log.stem,
        "answer": result.answer,
        "error": result.error,
        "differing": [
            {"agent": agent, "tool": call.name, "arguments": call.arguments}
            for agent, call in result.differing
        ],
    }


def _report(point: ForkPoint, results: Sequence[RerunResult], *, live: bool) -> None:
    for result in results:
        answer = result.answer if result.error is None else f"failed: {result.error}"
        print_text(f"{result.log.stem}  {one_line(answer or '', 200)}")
        if result.differing:
            calls = ", ".join(dict.fromkeys(call.name for _, call in result.differing))
            note = "not recorded" if live else "not recorded, refused"
            print_text(f"  {format_count(len(result.differing), 'call')} {note}: {one_line(calls)}")
    first = results[0]
    if first.waiting:
        names = one_line(", ".join(first.waiting))
        resume_command = command_prefix("chat", "--resume", first.log.stem)
        note = f"Waiting for {point.name}: {names}. Continue with `{resume_command}`."
        click.echo(note, err=True)
    stems = [result.log.stem for result in results]
    click.echo(f"Compare them: `{command_prefix('compare', point.session, *stems[:8])}`", err=True)
