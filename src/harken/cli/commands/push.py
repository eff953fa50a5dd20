"""`harken push`: send sessions to a Harken service, each once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from harken.cli.options.home import home_option, json_option
from harken.cli.options.name_types import LOG
from harken.config.home import Home
from harken.config.name_resolver import NameResolver
from harken.config.settings import load_settings
from harken.config.store import open_remote_store, open_store
from harken.errors import HarkenError, StoreUnavailable
from harken.session.log.compressed import stat_log
from harken.store.base import Store
from harken.store.memory import MemoryStore
from harken.terminal.text import escape_control_characters, print_json, print_text
from harken.views.message_text import format_count, format_size

if TYPE_CHECKING:
    from harken.context.shipping.shipper import Shipper, ShipResult

POLL_INTERVAL_S = 1.0
"""The interval of checks of the logs."""
RETRY_DELAY_S = 30.0
"""The delay of a retry for skipped logs that did not change."""
MAX_RETRY_DELAY_S = 60.0
"""The maximum delay of a retry for an unavailable service."""


@click.command("push")
@click.argument("sessions", type=LOG, metavar="[SESSION]...", nargs=-1)
@click.argument("url")
@click.option(
    "--all", "everything", is_flag=True, help="Push all sessions; with --watch, also future ones."
)
@click.option("--watch", is_flag=True, help="Continue while logs grow, until Ctrl-C.")
@click.option(
    "--no-redact", is_flag=True, help="Do not redact credentials: send all content unchanged."
)
@json_option
@home_option
def command(
    sessions: tuple[str, ...],
    url: str,
    home: Home,
    *,
    everything: bool,
    watch: bool,
    no_redact: bool,
    as_json: bool,
) -> int:
    """Push sessions, with the commits that they refer to, to the `harken serve` at URL.

    Credentials of known formats are redacted. An interrupted push continues where it stopped. The
    token of the service is read from HARKEN_STORE_TOKEN. Exit code 1 if a session was skipped.
    """
    if bool(sessions) == everything:
        raise click.UsageError("no sessions given; name sessions, or use --all")
    resolver = NameResolver(home)
    logs = list(dict.fromkeys(resolver.log(name) for name in sessions))
    home.create_folders()
    with _shipper(home, url, no_redact=no_redact) as shipper:
        loop = PushLoop(shipper, lambda: home.list_logs()[::-1] if everything else logs, as_json)
        if watch:
            loop.watch()
        else:
            shipper.check()
            loop.push()
            loop.total()
        return int(bool(loop.left_out))


@contextmanager
def _shipper(home: Home, url: str, *, no_redact: bool) -> Iterator[Shipper]:
    """Open the resources of the command. Raises ConfigError, StoreError."""
    from harken.context.shipping.outbox import open_outbox
    from harken.context.shipping.shipper import Shipper
    from harken.core.secrets.redaction import Credentials

    with (
        closing(open_remote_store(home, url)) as far,
        closing(_store(home)) as store,
        open_outbox(home.outbox_folder, url) as outbox,
    ):
        yield Shipper(store, far, outbox, None if no_redact else Credentials())


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
    left_out: dict[Path, str] = msgspec.field(default_factory=dict)
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
        if time.monotonic() >= self._retry_at:
            self._retry_at = time.monotonic() + RETRY_DELAY_S
            for path in self.left_out:
                self._shipped_states.pop(path, None)
        for path in self.logs():
            state = _state(path)
            if state is None or self._shipped_states.get(path) == state:
                continue
            try:
                self._tell(self.shipper.ship(path))
                self.left_out.pop(path, None)
            except StoreUnavailable:
                raise
            except HarkenError as error:
                if self.left_out.get(path) != str(error):
                    click.echo(escape_control_characters(f"skipped: {error}"), err=True)
                self.left_out[path] = str(error)
            self._shipped_states[path] = state

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

    def total(self) -> None:
        """Print the totals."""
        new = [result for result in self._results.values() if result.is_new]
        lines = format_count(sum(result.lines for result in new), "line")
        commits = format_count(sum(result.commits for result in new), "commit")
        size = format_size(sum(result.size_bytes for result in new))
        sessions = format_count(len(self._results), "session")
        self._say(f"{sessions} pushed, {len(new)} with new content: {lines}, {commits}, {size}")

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
            click.echo(f"{result.name} refers to {missing} that are not in the store", err=True)
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
