"""`harken export SESSION --otlp URL`: a session as spans, to whoever takes OpenTelemetry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote

import click

from harken.cli.home import Home, environment
from harken.cli.opened_store import resolver_of
from harken.cli.progress import progress
from harken.cli.terminal import say, say_json
from harken.cli.view import open_viewer
from harken.core.events import Event, SessionStarted
from harken.errors import ConfigError, FormatError
from harken.session.file import is_being_written
from harken.views.viewer import SessionViewer
from harken.views.written import count

if TYPE_CHECKING:
    from harken.interactions.otel.sending import Sent

HEADERS_ENV = "OTEL_EXPORTER_OTLP_HEADERS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a person asks for on the command line."""

    url: str
    headers: Sequence[str]
    """`NAME=VALUE` each."""
    project: str | None
    messages: Literal["full", "new", "none"]
    as_json_form: bool
    as_is: bool
    as_json: bool


def export_spans(home: Home, session: str, wish: Wish) -> None:
    """Send a session, and say what came of it. Raises SendError, ConfigError, LogError."""
    from harken.interactions.otel.encoding import Sender
    from harken.interactions.otel.endpoint import JSON, PROTOBUF, Endpoint
    from harken.interactions.otel.sending import How, send

    viewer = open_viewer(home, session)
    events = viewer.events.events
    form = JSON if wish.as_json_form else PROTOBUF
    endpoint = Endpoint(url=wish.url, headers=headers_of(wish.headers), content_type=form)
    resource = {} if wish.project is None else {"openinference.project.name": wish.project}
    with ExitStack() as opening, progress("Sending") as tell:
        opening.callback(endpoint.close)
        how = How(
            sender=Sender(version("harken"), resource=resource),
            much=wish.messages,
            resolver=resolver_of(home),
            is_live=is_being_written(viewer.path),
            as_is=wish.as_is,
        )
        try:
            sent = send(_told(events, tell), _name_of(viewer), endpoint, how)
        except ValueError as error:
            raise FormatError(
                str(viewer.path), f"is not a session as logs have it: {error}"
            ) from None
    _say(sent, endpoint.name, as_json=wish.as_json)


def headers_of(given: Sequence[str]) -> dict[str, str]:
    """Return the headers that were given, else those of the environment. Raises ConfigError.

    What is wrong is said without a value: credentials stand there.
    """
    pairs = list(given)
    if not pairs:
        named = environment().get(HEADERS_ENV, "")
        pairs = [unquote(pair) for pair in named.split(",") if pair.strip()]
    headers: dict[str, str] = {}
    for number, pair in enumerate(pairs, 1):
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            where = "--header" if given else HEADERS_ENV
            raise ConfigError(f"{where}: header {number} is not NAME=VALUE")
        headers[name.strip()] = value.strip()
    return headers


def _told(events: Sequence[Event], tell: Callable[[int, int], None]) -> Iterable[Event]:
    for number, event in enumerate(events):
        tell(number, len(events))
        yield event


def _name_of(viewer: SessionViewer) -> str:
    first = next(iter(viewer.events), None)
    own = first.session_id if isinstance(first, SessionStarted) else ""
    return own or viewer.path.stem


def _say(sent: Sent, endpoint: str, *, as_json: bool) -> None:
    if as_json:
        say_json({**asdict(sent), "endpoint": endpoint})
    else:
        say(f"{count(sent.spans, 'span')} sent to {endpoint}")
    if sent.credentials:
        kinds = ", ".join(f"{number} {kind}" for kind, number in sent.credentials.items())
        click.echo(f"Redacted: {kinds}", err=True)
    if sent.rejected or sent.message:
        why = f": {sent.message}" if sent.message else ""
        click.echo(f"{count(sent.rejected, 'span')} not taken{why}", err=True)
