"""`harken resume`: continue a conversation in another client, from any message."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harken.capture.resume.clients import RUNTIMES, get_client
from harken.cli.options.conversation import (
    ResolvedConversation,
    conversation_options,
    new_session,
    read_conversation,
    resolve_conversation,
)
from harken.cli.options.home import home_option
from harken.config.home import Home, current_folder, environment
from harken.config.store import open_configured_store
from harken.context.position import get_or_create_commit
from harken.context.refs import abbreviate_name
from harken.errors import ConfigError, NameNotFound
from harken.formats.runtimes.registry import find_runtime_format
from harken.terminal.text import escape_control_characters, one_line, program_name, shell_quote

if TYPE_CHECKING:
    from harken.capture.resume.clients import Client
    from harken.capture.resume.transfer import Transfer

HARKEN = "harken"


@click.command()
@conversation_options
@click.option(
    "--client",
    "runtime",
    required=True,
    type=click.Choice([*RUNTIMES, HARKEN]),
    help="The client in which to resume.",
)
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The working folder (default: that of the session, else the current one).",
)
@click.option("--model", default="", metavar="MODEL", help="The model, by its name in the client.")
@click.option(
    "--print",
    "is_printed",
    is_flag=True,
    help="Write the session and print the command that resumes it, without running it.",
)
@home_option
def command(
    home: Home,
    conversation: str,
    at: str | None,
    runtime: str,
    folder: Path | None,
    model: str,
    is_printed: bool,
) -> int:
    """Resume a conversation in a client, as a new session, from any message.

    The conversation is a session or commit, recorded or imported. The original session is not
    changed.
    """
    return resume_in_client(home, conversation, at, runtime, folder, model, is_printed=is_printed)


def resume_in_client(
    home: Home,
    conversation: str,
    at: str | None,
    runtime: str,
    folder: Path | None = None,
    model: str = "",
    *,
    is_printed: bool,
) -> int:
    """Resume a conversation in a client, or print the command that does. Return the exit code."""
    if runtime == HARKEN:
        return _resume_in_harken(home, conversation, at, folder, model, is_printed=is_printed)
    client, resolved = get_client(runtime), read_conversation(home, conversation, at)
    if not is_printed:
        client.check_installed(environment().get("PATH"))
    where = _folder(resolved, folder)
    words = _write_session(client, resolved, where, model)
    if is_printed:
        _print(words, where)
    else:
        _start(words, where)
    return 0


def _write_session(
    client: Client, conversation: ResolvedConversation, where: Path, model: str
) -> list[str]:
    """Write a session for a client; return the command that continues it."""
    from harken.capture.resume.completeness import check_completeness
    from harken.capture.resume.placement import ClientHome, place_session
    from harken.capture.resume.transfer import count_transfer
    from harken.capture.resume.verify import read_written_conversation

    native = find_runtime_format(client.runtime)
    if native is None or native.writes is None:
        runtimes = [
            runtime
            for runtime in RUNTIMES
            if (native := find_runtime_format(runtime)) and native.writes
        ]
        raise NameNotFound("client", client.runtime, runtimes)
    if not conversation.moment.entries:
        raise ConfigError(f"{conversation.moment.ctx}: this commit has no messages")
    new = new_session(client.runtime, where, title=conversation.conversation.title, model=model)
    data = native.writes(conversation.moment.entries, new)
    native_conversation = read_written_conversation(client, native, data)
    _print_transfer(
        count_transfer(
            conversation.counts,
            check_completeness(conversation.moment.entries, native_conversation),
        )
    )
    placed_session = place_session(
        client, native, data, new, ClientHome(home=Path.home(), environ=environment())
    )
    into = placed_session.file or f"its database, as {placed_session.session}"
    click.echo(escape_control_characters(f"a session for {client.name} in {into}"), err=True)
    return client.command(placed_session.session, model)


def _print_transfer(result: Transfer) -> None:
    """Print how much of the conversation is transferred, and why the remaining part is not."""
    for line in transfer_lines(result):
        click.echo(escape_control_characters(line), err=True)


def transfer_lines(result: Transfer) -> Iterator[str]:
    """Yield a line on the transferred part, and one for each reason of an omission."""
    if result.go_over == result.messages:
        is_single = result.messages == 1
        yield (
            "the only message is transferred"
            if is_single
            else f"all {result.messages} messages are transferred"
        )
        return
    suffix = ""
    if result.summarized:
        suffix = f"; {result.summarized} {_are(result.summarized)} summarized by a compaction"
    yield f"{result.go_over} of {result.messages} messages are transferred{suffix}"
    for reason, size in result.unwritten.items():
        yield f"{size} {_are(size)} skipped: {reason.name}: {reason.reason}"


def _are(size: int) -> str:
    return "is" if size == 1 else "are"


def _folder(conversation: ResolvedConversation, folder: Path | None) -> Path:
    """Return the working folder, and print the reason if it is the current one."""
    if folder is not None:
        return folder.absolute()
    worked = conversation.conversation.folder
    if worked.startswith("/") and os.path.isdir(worked):  # noqa: PTH112 - does not raise
        click.echo(escape_control_characters(f"working folder: {worked}"), err=True)
        return Path(worked)
    note = f" ({one_line(worked)} does not exist)" if worked else ""
    click.echo(escape_control_characters(f"working folder: {current_folder()}{note}"), err=True)
    return current_folder()


def _resume_in_harken(
    home: Home,
    conversation: str,
    at: str | None,
    folder: Path | None,
    model: str,
    *,
    is_printed: bool,
) -> int:
    """Continue the conversation in a chat."""
    with open_configured_store(home) as store:
        resolved = resolve_conversation(home, store, conversation, at)
        ctx = abbreviate_name(store, get_or_create_commit(store, resolved.moment))
    from harken.capture.resume.transfer import count_full_transfer

    _print_transfer(count_full_transfer(resolved.counts))
    where = _folder(resolved, folder)
    if is_printed:
        home_options = ["--home", str(home.folder.absolute())] if home.is_chosen else []
        words = [*shlex.split(program_name()), "chat", "--from-commit", ctx]
        _print([*words, *(["--model", model] if model else []), *home_options], where)
        return 0
    from harken.chat.options import ChatOptions
    from harken.cli.commands.chat.command import talk_in_lines, talk_on_screen
    from harken.terminal.environment import has_screen

    home = Home(str(home.folder.absolute()))
    os.chdir(where)
    wish = ChatOptions(ctx=ctx, model=model or None)
    if has_screen():
        return talk_on_screen(home, wish)
    return talk_in_lines(home, wish, None, as_json=False)


def _print(words: Sequence[str], where: Path) -> None:
    """Print a command on one line, such that a shell reads it back."""
    line = " ".join(map(shell_quote, words))
    is_here = os.path.realpath(where) == os.path.realpath(current_folder())
    click.echo(line if is_here else f"cd {shell_quote(str(where))} && {line}")


def _start(words: Sequence[str], where: Path) -> None:
    """Replace this process by the client."""
    sys.stdout.flush()
    sys.stderr.flush()
    # The program is resolved in the current folder: a PATH may be relative to it.
    program = os.path.abspath(shutil.which(words[0]) or words[0])  # noqa: PTH100 - keeps links
    try:
        os.chdir(where)
        # Some clients prefer PWD to the working directory of the process.
        os.execve(program, list(words), {**os.environ, "PWD": str(where)})  # noqa: S606
    except OSError as error:
        raise ConfigError(
            f"{words[0]} cannot be started in {where}: {error.strerror}; the session "
            f"is written, resume it with `{' '.join(map(shell_quote, words))}`"
        ) from None
