"""`harken push`: send sessions to a Harken service, each once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from harken.cli.commands.remotes.transfer import split_remote
from harken.cli.options.home import home_option, json_option
from harken.cli.options.name_types import LOG
from harken.config.home import Home
from harken.config.name_resolver import NameResolver
from harken.config.settings import load_settings
from harken.config.store import open_remote_store, open_store
from harken.errors import HarkenError, StoreUnavailable
from harken.session.log.compressed import log_path, stat_log
from harken.store.base import Store
from harken.store.memory import MemoryStore
from harken.terminal.text import escape_control_characters, one_line, print_json, print_text
from harken.views.message_text import format_count, format_size

if TYPE_CHECKING:
    from harken.context.shipping.outbox import Outbox
    from harken.context.shipping.shipper import Shipper, ShipResult
    from harken.core.secrets.redaction import Credentials
    from harken.remotes.registry import Remote
    from harken.store.remote.store import RemoteStore

_SHORT = 30
"""The limit of the characters of a name in a line."""
_MAX_CHARS = 500
POLL_INTERVAL_S = 1.0
"""The interval of checks of the logs."""
RETRY_DELAY_S = 30.0
"""The delay of a retry for skipped logs that did not change."""
MAX_RETRY_DELAY_S = 60.0
"""The maximum delay of a retry for an unavailable service."""


@click.command("push")
@click.argument("arguments", type=LOG, metavar="[SESSION]... [REMOTE]", nargs=-1)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Push everything: sessions, commits, branches, notes, tickets, files; with --watch, also "
    "future sessions.",
)
@click.option("--watch", is_flag=True, help="Continue while logs grow, until Ctrl-C.")
@click.option("--dry-run", is_flag=True, help="Show what would be pushed, and send nothing.")
@click.option(
    "--no-redact", is_flag=True, help="Do not redact credentials: send all content unchanged."
)
@json_option
@home_option
def command(
    arguments: tuple[str, ...],
    home: Home,
    *,
    everything: bool,
    watch: bool,
    dry_run: bool,
    no_redact: bool,
    as_json: bool,
) -> int:
    """Push sessions, with the commits that they refer to, or everything, to a remote.

    REMOTE is the name of a remote, or the address of a `harken serve`; by default `origin`.
    Credentials of known formats are redacted. An interrupted push continues where it stopped. Exit
    code 1 if a session was skipped, or something has diverged: pull it first; 2 if the service
    refused something, which is printed, and the push went on.
    """
    target, sessions = split_remote(home, arguments, first=False)
    if bool(sessions) == everything:
        raise click.UsageError("no sessions given; name sessions, or use --all")
    if watch and dry_run:
        raise click.UsageError("--watch and --dry-run cannot be combined")
    resolver = NameResolver(home)
    logs = list(dict.fromkeys(resolver.log(name) for name in sessions))
    home.create_folders()
    with _open_push(home, target, no_redact=no_redact) as push:
        loop = PushLoop(
            push.shipper,
            lambda: home.list_logs()[::-1] if everything else logs,
            as_json,
            dry_run=dry_run,
        )
        if watch:
            loop.watch()
            return int(bool(loop.left_out))
        push.shipper.check()
        if not everything:
            loop.push()
            loop.total()
            loop.tell_refused()
            return loop.exit_code()
        return _push_all(push, loop, target, dry_run=dry_run)


class OpenPush(msgspec.Struct, frozen=True):
    """The open resources of the command."""

    shipper: Shipper
    store: Store
    remote: RemoteStore
    outbox: Outbox
    mirror_folder: Path
    credentials: Credentials | None


@contextmanager
def _open_push(home: Home, target: Remote, *, no_redact: bool) -> Iterator[OpenPush]:
    """Open the resources of the command. Raises ConfigError, StoreError."""
    from harken.context.shipping.outbox import open_outbox
    from harken.context.shipping.shipper import Shipper
    from harken.core.secrets.redaction import Credentials

    credentials = None if no_redact else Credentials()
    with (
        closing(open_remote_store(home, target.url)) as far,
        closing(_store(home)) as store,
        open_outbox(home.outbox_folder, target.url) as outbox,
    ):
        shipper = Shipper(store, far, outbox, credentials)
        yield OpenPush(shipper, store, far, outbox, target.folder, credentials)


def _push_all(push: OpenPush, loop: PushLoop, target: Remote, *, dry_run: bool) -> int:
    """Push everything, and print the results. Return the exit code."""
    from harken.cli.commands.remotes.report import ProgressLines, report
    from harken.remotes.mirror import open_mirror
    from harken.remotes.push import Pusher
    from harken.remotes.result import TransferResult

    result = TransferResult()
    with (
        open_mirror(push.mirror_folder) as mirror,
        push.outbox.staging() as staging,
        ProgressLines("Pushing") as progress,
    ):
        pusher = Pusher(
            push.store,
            push.remote,
            mirror,
            push.credentials,
            staging,
            dry_run=dry_run,
            on_progress=progress.on_progress,
        )
        pusher.push_commits(result)
        push.shipper.is_on_remote = pusher.is_on_remote
        pusher.list_logs()
        loop.is_unchanged = pusher.is_unchanged
        loop.push()
        if not dry_run:
            pusher.record_logs(loop.new_logs, push.outbox)
        pusher.push_names(result)
    loop.total(result.commits, result.size_bytes)
    result.commits = result.size_bytes = 0  # They are in the line above.
    if not result.is_up_to_date or result.needs_attention or result.unpurged:
        report(result, target, "pushed", as_json=loop.as_json, dry_run=dry_run)
    for refusal in result.refusals:
        loop.tell_refusal(f"{refusal.subject[:_SHORT]}: {refusal.reason}")
    loop.tell_refused()
    return loop.exit_code() or int(result.needs_attention)


def _store(home: Home) -> Store:
    """Open the configured store, or an empty one if it does not exist."""
    settings = load_settings(home)
    if settings.store is None and not home.store_file.exists():
        return MemoryStore()
    return open_store(home, settings)


class PushLoop(msgspec.Struct):
    """Pushes logs repeatedly, and reports the results."""

    shipper: Shipper
    logs: Callable[[], Sequence[Path]]
    as_json: bool
    dry_run: bool = False
    is_unchanged: Callable[[Path], bool] = lambda _: False
    """Whether a log need not be compared with the service."""
    new_logs: list[Path] = msgspec.field(default_factory=list)
    """The logs that were compared or sent."""
    left_out: dict[Path, str] = msgspec.field(default_factory=dict)
    refused: int = 0
    """The number of refusals that were printed."""
    _shipped_states: dict[Path, tuple[int, int]] = msgspec.field(default_factory=dict)
    """The size and time of each log when it was shipped."""
    _reported_secrets: dict[str, int] = msgspec.field(default_factory=dict)
    """The number of credentials already reported."""
    _results: dict[str, ShipResult] = msgspec.field(default_factory=dict)
    """The last result of each session."""
    _retry_at: float = 0.0
    """The time of the next retry of skipped logs, in seconds of the monotonic clock."""

    def push(self) -> None:
        """Ship the logs that changed since the last round. Raises StoreUnavailable."""
        from harken.context.shipping.shipper import ShipResult
        from harken.store.remote.errors import REFUSALS

        if time.monotonic() >= self._retry_at:
            self._retry_at = time.monotonic() + RETRY_DELAY_S
            for path in self.left_out:
                self._shipped_states.pop(path, None)
        for path in self.logs():
            if self.is_unchanged(path):
                name = log_path(path).stem
                self._results[name] = ShipResult(name)
                continue
            state = _state(path)
            if state is None or self._shipped_states.get(path) == state:
                continue
            try:
                ship = self.shipper.estimate if self.dry_run else self.shipper.ship
                self._tell(ship(path))
                self.new_logs.append(path)
                self.left_out.pop(path, None)
            except StoreUnavailable:
                raise
            except REFUSALS as error:
                if self.left_out.get(path) != str(error):
                    self.tell_refusal(f"session {log_path(path).stem}: {error}")
                self.left_out[path] = str(error)
            except HarkenError as error:
                if self.left_out.get(path) != str(error):
                    click.echo(escape_control_characters(f"skipped: {error}"), err=True)
                self.left_out[path] = str(error)
            self._shipped_states[path] = state

    def tell_refusal(self, text: str) -> None:
        """Print something that the service refused, on one line."""
        self.refused += 1
        click.echo(one_line(f"refused: {text}", _MAX_CHARS), err=True)

    def tell_refused(self) -> None:
        """Print how much the service refused."""
        if self.refused:
            click.echo(f"{self.refused:,} refused (see above)", err=True)

    def exit_code(self) -> int:
        """Return 2 if the service refused something, and 1 if a session was skipped."""
        return 2 if self.refused else int(bool(self.left_out))

    def watch(self) -> None:
        """Ship until Ctrl-C, also if the service is unavailable for a while. Raises StoreError."""
        wait_s, is_away, is_checked = POLL_INTERVAL_S, False, False
        try:
            while True:
                try:
                    if not is_checked:
                        self.shipper.check()
                        is_checked = True
                        self._say("Pushing; Ctrl-C ends it.")
                    self.push()
                except StoreUnavailable as error:
                    if not is_away:
                        click.echo(
                            escape_control_characters(f"harken: {error}; retrying"), err=True
                        )
                    is_away, wait_s = True, min(wait_s * 2, MAX_RETRY_DELAY_S)
                else:
                    if is_away:
                        self._say("The service is available again.")
                    is_away, wait_s = False, POLL_INTERVAL_S
                time.sleep(wait_s)
        except KeyboardInterrupt:
            self._say("")

    def total(self, more_commits: int = 0, more_bytes: int = 0) -> None:
        """Print the totals. The arguments count commits that were sent before the sessions."""
        new = [result for result in self._results.values() if result.is_new]
        lines = format_count(sum(result.lines for result in new), "line")
        commits = format_count(sum(result.commits for result in new) + more_commits, "commit")
        size = format_size(sum(result.size_bytes for result in new) + more_bytes)
        sessions = format_count(len(self._results), "session")
        verb = "to be pushed" if self.dry_run else "pushed"
        self._say(f"{sessions} {verb}, {len(new)} with new content: {lines}, {commits}, {size}")

    def _tell(self, result: ShipResult) -> None:
        self._results[result.name] = result
        if result.is_new and self.as_json:
            print_json(_row(result), indent=None)
        elif result.is_new:
            lines, commits = (
                format_count(result.lines, "line"),
                format_count(result.commits, "commit"),
            )
            print_text(f"{result.name}: {lines}, {commits}, {format_size(result.size_bytes)}")
        if result.is_new and result.lacking:
            missing = format_count(len(result.lacking), "commit")
            verb = "is" if len(result.lacking) == 1 else "are"
            click.echo(f"{result.name} refers to {missing} that {verb} not in the store", err=True)
        secrets = self.shipper.credentials
        if secrets is not None and (new := secrets.kinds) != self._reported_secrets:
            kinds = ", ".join(f"{kind} ({number})" for kind, number in new.items())
            click.echo(f"credentials redacted: {kinds}", err=True)
            self._reported_secrets = dict(new)

    def _say(self, text: str) -> None:
        if not self.as_json:
            print_text(text)


def _row(result: ShipResult) -> dict[str, Any]:
    return {
        "session": result.name,
        "lines": result.lines,
        "size_bytes": result.size_bytes,
        "commits": result.commits,
        "lacking": sorted(result.lacking),
    }


def _state(path: Path) -> tuple[int, int] | None:
    """Return the values that change when a log is written. Return None if it does not exist."""
    try:
        stat = stat_log(path)
    except OSError:
        return None
    return stat.size_bytes, stat.modified_ns
