"""`harken export`: the conversation of a commit in a format, or a session as spans.

`harken export SESSION --otlp URL` sends the spans to a receiver of OpenTelemetry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote

import click
import msgspec

from harken.cli.commands.view.sources import open_viewer
from harken.cli.options.home import home_option, json_option
from harken.cli.options.name_types import COMMIT
from harken.cli.output_file import write_pieces
from harken.config.home import Home, environment
from harken.config.name_resolver import NameResolver
from harken.config.store import build_commit_resolver, open_configured_store
from harken.core.commits import CommitId
from harken.core.events import Event, SessionStarted
from harken.errors import ConfigError, FormatError
from harken.formats.registry import FORMATS
from harken.session.log.file import is_being_written
from harken.store.base import Store
from harken.terminal.progress import progress
from harken.terminal.text import one_line, print_json, print_text
from harken.views.message_text import format_count
from harken.views.viewer import SessionViewer

if TYPE_CHECKING:
    from harken.interactions.otel.exporter import OtlpExportSummary


_HEADER_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")
_TIMEOUT_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT")
_TIMEOUT_S = 60.0
_NEEDED = {"opentelemetry", "requests"}


class OtlpExportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The command-line options of the export of spans."""

    url: str
    headers: Sequence[str]
    """`NAME=VALUE` each."""
    project: str | None
    messages: Literal["full", "new", "none"]
    no_redact: bool
    as_json: bool


def export_spans(home: Home, session: str, wish: OtlpExportOptions) -> None:
    """Send a session, and print the result. Raises SendError, ConfigError, LogError."""
    try:
        from harken.interactions.otel.endpoint import OtlpEndpoint
        from harken.interactions.otel.exporter import OtlpOptions, send
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in _NEEDED:
            raise
        raise ConfigError(
            f"sending spans needs {error.name}, which is not installed: pip install 'harken[otel]'"
        ) from None
    from harken.interactions.otel.span import Sender

    viewer = open_viewer(home, session)
    events = viewer.events.events
    has_timeout = any(environment().get(name) for name in _TIMEOUT_VARIABLES)
    endpoint = OtlpEndpoint(
        url=wish.url,
        headers=parse_headers(wish.headers),
        timeout_s=None if has_timeout else _TIMEOUT_S,
        on_retry=lambda reason: click.echo(f"{reason}; retrying", err=True),
    )
    click.echo(f"Sending {one_line(_name_of(viewer))} to {endpoint.name}", err=True)
    resource = {} if wish.project is None else {"openinference.project.name": wish.project}
    with ExitStack() as opening, progress("Sending") as tell:
        opening.callback(endpoint.close)
        how = OtlpOptions(
            sender=Sender(version("harken"), resource=resource),
            much=wish.messages,
            resolver=build_commit_resolver(home),
            is_live=is_being_written(viewer.path),
            as_is=wish.no_redact,
        )
        try:
            summary = send(_report_progress(events, tell), _name_of(viewer), endpoint, how)
        except ValueError as error:
            raise FormatError(str(viewer.path), f"cannot be exported as spans: {error}") from None
    _print_summary(summary, endpoint.name, as_json=wish.as_json)


def parse_headers(header_options: Sequence[str]) -> dict[str, str]:
    """Return the headers of the options, else those of the environment. Raises ConfigError.

    Errors do not contain values: these are credentials.
    """
    source, pairs = "--header", list(header_options)
    if not pairs:
        source = next((name for name in _HEADER_VARIABLES if environment().get(name)), "")
        text = environment().get(source, "")
        pairs = [unquote(pair) for pair in text.split(",") if pair.strip()]
    headers: dict[str, str] = {}
    for number, pair in enumerate(pairs, 1):
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"{source}: header {number} is not of the form NAME=VALUE")
        headers[name.strip()] = value.strip()
    return headers


def _report_progress(events: Sequence[Event], tell: Callable[[int, int], None]) -> Iterable[Event]:
    for number, event in enumerate(events):
        tell(number, len(events))
        yield event


def _name_of(viewer: SessionViewer) -> str:
    first = next(iter(viewer.events), None)
    session_id = first.session_id if isinstance(first, SessionStarted) else ""
    return session_id or viewer.path.stem


def _print_summary(summary: OtlpExportSummary, endpoint: str, *, as_json: bool) -> None:
    if as_json:
        print_json({**msgspec.structs.asdict(summary), "endpoint": endpoint})
    else:
        print_text(f"{format_count(summary.spans, 'span')} sent to {endpoint}")
    if summary.credentials:
        kinds = ", ".join(f"{number} {kind}" for kind, number in summary.credentials.items())
        click.echo(f"Redacted: {kinds}", err=True)
    if summary.rejected or summary.message:
        why = f": {summary.message}" if summary.message else ""
        click.echo(f"{format_count(summary.rejected, 'span')} not taken{why}", err=True)


LIST = "list"
_DEFAULT_STOP = "compaction"


@click.command("export")
@click.argument("ctx", type=COMMIT, required=False, metavar="[CTX|SESSION]")
@click.option(
    "--format",
    "wanted",
    default="narrative-v1",
    show_default=True,
    help="The format. `list` prints all formats.",
)
@click.option(
    "--stop",
    default=_DEFAULT_STOP,
    help="Where the history starts: compaction, root, or an ancestor commit.",
)
@click.option("-o", "--out", "file", metavar="FILE", help="Output file (default: stdout).")
@click.option("--otlp", metavar="URL", help="Send a session as OpenTelemetry spans to this URL.")
@click.option(
    "--header",
    "headers",
    metavar="NAME=VALUE",
    multiple=True,
    help="For --otlp: an HTTP header. Repeatable.",
)
@click.option("--project", metavar="NAME", help="For --otlp: the project in Phoenix.")
@click.option(
    "--messages",
    type=click.Choice(["full", "new", "none"]),
    default="full",
    show_default=True,
    help="For --otlp: the messages in the spans of model calls.",
)
@click.option("--no-redact", is_flag=True, help="For --otlp: do not redact credentials.")
@json_option
@home_option
def command(
    home: Home, ctx: str | None, wanted: str, stop: str, file: str | None, **spans: Any
) -> None:
    """Export the conversation of a commit or session in another format, or as spans.

    Lossy conversions are reported on stderr. The last commit of an imported file, in the format of
    that file, gives its bytes. With --otlp, a SESSION is sent to a collector or
    backend as spans, redacted; the span ids are the same each time. Headers, the timeout and
    certificates are also read from the OTEL_EXPORTER_OTLP_* variables.
    """
    if spans["otlp"] is not None:
        _send(home, ctx, spans)
        return
    if any(spans[name] for name in ("headers", "project", "no_redact", "as_json")):
        raise click.UsageError("these options require --otlp URL")
    if wanted == LIST:
        for name in FORMATS.list_names():
            print_text(_line(name))
        return
    if ctx is None:
        raise click.UsageError("no commit given; `harken ctx log` lists commits")
    with open_configured_store(home) as store:
        export(store, NameResolver(home, store), ctx, wanted, stop, file)


def _send(home: Home, session: str | None, options: dict[str, Any]) -> None:
    """Send a session as spans. Raises SendError, ConfigError, LogError."""
    if session is None:
        raise click.UsageError("no session given; `harken sessions` lists sessions")
    wish = OtlpExportOptions(
        url=options["otlp"],
        headers=options["headers"],
        project=options["project"],
        messages=options["messages"],
        no_redact=options["no_redact"],
        as_json=options["as_json"],
    )
    export_spans(home, session, wish)


def export(
    store: Store, resolver: NameResolver, ctx: str, wanted: str, stop: str, file: str | None
) -> None:
    """Render a commit and write the bytes to a file, or to standard output without one."""
    from harken.context.render import TIERS, render
    from harken.store.imported_files import find_native_file

    name = resolver.commit(ctx)
    native = find_native_file(store, name, wanted) if stop == _DEFAULT_STOP else None
    if native is not None:
        write_pieces(store.read_chunks(native.raw), file, is_text=lambda _: _is_text(wanted))
        path = one_line(native.record.path, 200)
        state = "as they were imported"
        if native.is_redacted:
            state = "without the credentials that were redacted before they were stored"
        click.echo(f"{wanted}: the bytes of {path}, {state}", err=True)
        return
    format_name = _format_name(store, name, wanted)
    until = stop if stop in ("compaction", "root") else resolver.commit(stop)
    rendered = render(store, name, format_name, until)
    write_pieces([rendered.read()], file, is_text=lambda _: _is_text(rendered.format))
    messages = format_count(rendered.message_count, "message")
    way = f"tier {rendered.tier}, {TIERS[rendered.tier]}"
    click.echo(f"{one_line(rendered.format)}: {messages} ({way})", err=True)


def _format_name(store: Store, name: CommitId, requested: str) -> str:
    """Return the name of a registered format, or of the commit's own format."""
    commit_format = store.commits([name])[name].commit.format
    return requested if requested == commit_format else FORMATS.find(requested).name


def _is_text(name: str) -> bool:
    known_format = FORMATS.get(name)
    media_type = "text/markdown" if known_format is None else known_format.media_type
    return media_type.startswith(("text/", "application/json"))


def _line(name: str) -> str:
    """Describe a format on one line, also one that cannot be used."""
    try:
        known_format = FORMATS.get(name)
    except ConfigError as error:
        return one_line(f"{name:<16} {error}", 200)
    ways = (
        {} if known_format is None else {"read": known_format.reads, "written": known_format.writes}
    )
    can = " and ".join(way for way, function in ways.items() if function is not None)
    return f"{name:<16} {known_format.media_type if known_format else '':<24} {can}".rstrip()
