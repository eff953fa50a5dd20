"""`harken verify`: whether the installed client sends the conversation that was written for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click
import msgspec

from harken.capture.resume.clients import RUNTIMES, get_client
from harken.cli.options.conversation import (
    ResolvedConversation,
    conversation_options,
    new_session,
    read_conversation,
)
from harken.cli.options.home import home_option, json_option
from harken.cli.options.time import Duration
from harken.config.home import Home, environment
from harken.errors import ConfigError
from harken.formats.runtimes.registry import find_runtime_format
from harken.terminal.text import one_line, print_json, print_text
from harken.views.message_text import format_count

if TYPE_CHECKING:
    from harken.capture.resume.clients import Client
    from harken.capture.resume.verify import VerifyResult

TIMEOUT = "2m"
_MAX_CHARS = 60
"""The number of characters of a message that are shown."""


@click.command()
@conversation_options
@click.option(
    "--client", "runtime", required=True, type=click.Choice(RUNTIMES), help="The client to run."
)
@click.option(
    "--keep",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="A new folder in which the client's home and its requests are kept.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=Duration(min_s=1),
    default=TIMEOUT,
    show_default=True,
    help="The time after which the client is stopped: 90s, 5m.",
)
@json_option
@home_option
def command(
    home: Home,
    conversation: str,
    at: str | None,
    runtime: str,
    keep: Path | None,
    timeout_s: float,
    as_json: bool,
) -> int:
    """Run a client on a conversation, isolated, and compare its request message by message.

    The client has a temporary home and no credentials; its requests go to a local recorder. Exit
    code 0 if the request has the materialized context, 1 if it differs, 2 if the client sent none.
    """
    client, resolved = get_client(runtime), read_conversation(home, conversation, at)
    client.check_installed(environment().get("PATH"))
    with _folder(keep) as folder:
        verified = _run_verification(client, resolved, folder, timeout_s)
        _keep(verified, folder)
    if as_json:
        print_json(_row(client, resolved, verified))
    else:
        _print_result(client, resolved, verified)
    return int(not verified.is_same)


def _run_verification(
    client: Client, conversation: ResolvedConversation, folder: Path, timeout_s: float
) -> VerifyResult:
    from harken.capture.resume.verify import ClientRun, verify

    native = find_runtime_format(client.runtime)
    if native is None:
        raise ConfigError(f"the session format of {client.name} is not supported")
    trial = ClientRun(folder=folder, path=environment().get("PATH", ""), timeout_s=timeout_s)
    new = new_session(client.runtime, trial.work, title=conversation.conversation.title)
    return verify(client, native, conversation.moment.entries, new, trial)


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    """Yield an empty folder: the one to keep, or a temporary one."""
    if keep is None:
        with TemporaryDirectory(prefix="harken-", ignore_cleanup_errors=True) as folder:
            yield Path(folder).resolve()
        return
    try:
        keep.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        raise ConfigError(f"{keep} exists; choose another folder") from None
    yield keep.resolve()


def _keep(verified: VerifyResult, folder: Path) -> None:
    for name, request in (("expected", verified.expected), ("sent", verified.request)):
        text = json.dumps(request, ensure_ascii=True, indent=1)
        (folder / f"{name}.json").write_text(text, encoding="ascii")


def _row(
    client: Client, conversation: ResolvedConversation, verified: VerifyResult
) -> dict[str, Any]:
    from harken.capture.resume.transfer import count_transfer

    return {
        "client": client.runtime,
        "ctx": conversation.moment.ctx,
        "message": conversation.moment.number,
        "same": verified.is_same,
        "messages": [msgspec.structs.asdict(row) for row in verified.comparison.rows],
        "lost": [msgspec.structs.asdict(missing) for missing in verified.lost],
        "reordered": [
            msgspec.structs.asdict(missing) for missing in verified.completeness.reordered
        ],
        "omitted_by_client": [msgspec.structs.asdict(missing) for missing in verified.omitted],
        "transfer": count_transfer(conversation.counts, verified.written).as_json(),
        "left_out": {item.name: item.reason for item in verified.completeness.allowed},
        "ignored": {item.name: item.reason for item in verified.comparison.ignored},
        "refused": verified.others,
    }


def _print_result(
    client: Client, conversation: ResolvedConversation, verified: VerifyResult
) -> None:
    for row in verified.comparison.rows:
        print_text(
            f"{row.state:<8} {row.number:>4} {row.role:<10} {one_line(row.text, _MAX_CHARS)}"
        )
        if row.difference:
            print_text(f"{'':<24} {one_line(row.difference, 200)}")
    missing = [("lost", item) for item in verified.lost]
    missing += [("moved", item) for item in verified.completeness.reordered]
    for state, item in [*missing, *(("omitted", item) for item in verified.omitted)]:
        text = one_line(item.text, _MAX_CHARS)
        print_text(f"{state:<8} {item.place + 1:>4} {item.role:<10} {text}")
    for allowed in verified.completeness.allowed:
        print_text(f"skipped: {allowed.name}: {allowed.reason}")
    if verified.omitted:
        print_text(f"omitted: {client.name} leaves these texts out of every resumed session")
    for rule in verified.comparison.ignored:
        print_text(f"ignored: {rule.name}: {rule.reason}")
    places = {item.place for _, item in missing}
    differences = max(len(verified.comparison.differences), len(places))
    entries = format_count(len(conversation.moment.entries), "message")
    if verified.is_same:
        print_text(f"same: {client.name} sends the materialized context ({entries})")
    else:
        print_text(
            f"different: {format_count(differences, 'message')} of {entries}, in {client.name}"
        )
