"""`harken export`: the conversation of a commit in some format; a session as spans."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from harken.cli.home import Home
from harken.cli.home_options import home_option, json_option
from harken.cli.name_resolver import NameResolver
from harken.cli.opened_store import store_of
from harken.cli.parameter_types import COMMIT
from harken.cli.terminal import one_line, say
from harken.core.commits import CommitId
from harken.errors import ConfigError
from harken.formats.registry import FORMATS
from harken.store.base import Store
from harken.views.written import count

LIST = "list"


@click.command("export")
@click.argument("ctx", type=COMMIT, required=False, metavar="[CTX|SESSION]")
@click.option("--format", "wanted", default="narrative-v1", show_default=True, help="Or `list`.")
@click.option("--stop", default="compaction", help="compaction, root, or a commit before it.")
@click.option("-o", "--out", "file", metavar="FILE", help="Where to; else standard output.")
@click.option("--otlp", metavar="URL", help="Send a session as OpenTelemetry spans.")
@click.option("--header", "headers", metavar="NAME=VALUE", multiple=True, help="For --otlp.")
@click.option("--project", metavar="NAME", help="For --otlp: where Phoenix shows it.")
@click.option(
    "--messages",
    type=click.Choice(["full", "new", "none"]),
    default="full",
    show_default=True,
    help="For --otlp: what model calls say of their context.",
)
@click.option("--otlp-json", is_flag=True, help="For --otlp: as JSON, not as protobuf.")
@click.option("--as-is", is_flag=True, help="For --otlp: redact nothing.")
@json_option
@home_option
def command(
    home: Home, ctx: str | None, wanted: str, stop: str, file: str | None, **spans: Any
) -> None:
    """Write the conversation of a commit, or of a session, in a format.

    How it was translated is said on standard error. With --otlp, a SESSION goes to a collector or
    a backend as spans, redacted; sent again, they have the same ids. Headers are also taken from
    OTEL_EXPORTER_OTLP_HEADERS.
    """
    if spans["otlp"] is not None:
        _send(home, ctx, spans)
        return
    if any(spans[name] for name in ("headers", "project", "otlp_json", "as_is", "as_json")):
        raise click.UsageError("say --otlp URL, too: the other options are for that")
    if wanted == LIST:
        for name in FORMATS.names():
            say(_line(name))
        return
    if ctx is None:
        raise click.UsageError("which commit? `harken ctx log` lists them")
    with store_of(home) as store:
        export(store, NameResolver(home, store), ctx, wanted, stop, file)


def _send(home: Home, session: str | None, given: dict[str, Any]) -> None:
    """Send a session as spans. Raises SendError, ConfigError, LogError."""
    from harken.cli.export_spans import Wish, export_spans

    if session is None:
        raise click.UsageError("which session? `harken sessions` lists them")
    wish = Wish(
        url=given["otlp"],
        headers=given["headers"],
        project=given["project"],
        messages=given["messages"],
        as_json_form=given["otlp_json"],
        as_is=given["as_is"],
        as_json=given["as_json"],
    )
    export_spans(home, session, wish)


def export(
    store: Store, resolver: NameResolver, ctx: str, wanted: str, stop: str, file: str | None
) -> None:
    """Render a commit and write the bytes to a file, or to standard output where there is none."""
    from harken.context.rendering import TIERS, render

    name = resolver.commit(ctx)
    until = stop if stop in ("compaction", "root") else resolver.commit(stop)
    rendered = render(store, name, _format_name(store, name, wanted), until)
    write_pieces([rendered.read()], file, is_text=lambda _: _is_text(rendered.format))
    messages = count(rendered.message_count, "message")
    way = f"tier {rendered.tier}, {TIERS[rendered.tier]}"
    click.echo(f"{one_line(rendered.format)}: {messages} ({way})", err=True)


def write_pieces(
    pieces: Iterable[bytes], file: str | None, *, is_text: Callable[[bytes], bool]
) -> None:
    """Write bytes to a file that its owner alone may read, or else to standard output.

    A terminal is shown text only, made harmless. Raises ConfigError for other bytes, and where the
    file cannot be written.
    """
    if file is not None and file != "-":
        _write(Path(file).resolve(), pieces)
    elif not sys.stdout.isatty():
        sys.stdout.flush()
        sys.stdout.buffer.writelines(pieces)
        sys.stdout.buffer.flush()
    elif is_text(data := b"".join(pieces)):
        say(data.decode("utf-8", "backslashreplace").rstrip("\n"))
    else:
        size = count(len(data), "byte")
        raise ConfigError(f"these are {size} that no terminal shows: give a file with -o FILE")


def _write(path: Path, pieces: Iterable[bytes]) -> None:
    """Write a file whole, or leave the one that is there; what is no file is written to."""
    if path.exists() and not path.is_file():
        with path.open("wb") as out:  # a device, a pipe: nothing may take its place
            out.writelines(pieces)
        return
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            out.writelines(pieces)
        part.replace(path)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror or error})") from None
    finally:
        part.unlink(missing_ok=True)


def _format_name(store: Store, name: CommitId, wanted: str) -> str:
    """Return the name of a format that is known here, or that the commit itself has."""
    own = store.commits([name])[name].commit.format
    return wanted if wanted == own else FORMATS.find(wanted).name


def _is_text(name: str) -> bool:
    known = FORMATS.get(name)
    media_type = "text/markdown" if known is None else known.media_type
    return media_type.startswith(("text/", "application/json"))


def _line(name: str) -> str:
    """Return what is known of a format, on one line; also of one that cannot be used."""
    try:
        known = FORMATS.get(name)
    except ConfigError as error:
        return one_line(f"{name:<16} {error}", 200)
    ways = {} if known is None else {"read": known.reads, "written": known.writes}
    can = " and ".join(way for way, function in ways.items() if function is not None)
    return f"{name:<16} {known.media_type if known else '':<24} {can}".rstrip()
