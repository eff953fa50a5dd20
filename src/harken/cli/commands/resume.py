"""`harken resume`: any conversation goes on in any client, from any message."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harken.capture.resume.clients import RUNTIMES, client_for
from harken.cli.options.conversation import (
    ResolvedConversation,
    conversation_options,
    new_session,
    read_meant,
    resolve_conversation,
)
from harken.cli.options.home import home_option
from harken.config.home import Home, current_folder, environment
from harken.config.store import store_of
from harken.context.position import commit_at
from harken.context.refs import name_of
from harken.errors import ConfigError, NameNotFound
from harken.formats.runtimes.registry import native_for
from harken.terminal.text import escape_control_characters, one_line, program_name

if TYPE_CHECKING:
    from harken.capture.resume.clients import Client
    from harken.capture.resume.transfer import Transfer

HARKEN = "harken"


@click.command()
@conversation_options
@click.option(
    "--in",
    "runtime",
    required=True,
    type=click.Choice([*RUNTIMES, HARKEN]),
    help="The client to go on in.",
)
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Where to work (default: where the session worked, else here).",
)
@click.option("--model", default="", metavar="MODEL", help="The model, as the client calls it.")
@click.option(
    "--print",
    "is_printed",
    is_flag=True,
    help="Write the session, and only print the command that goes on.",
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
    """Go on with a conversation in a client: a new session of it, from any message.

    Any session or commit will do, recorded or imported. Nothing is overwritten; the session that it
    was stays as it is.
    """
    if runtime == HARKEN:
        return _in_harken(home, conversation, at, folder, model, is_printed=is_printed)
    client, found = client_for(runtime), read_meant(home, conversation, at)
    if not is_printed:
        client.check_installed(environment().get("PATH"))
    where = _folder(found, folder)
    words = _written(client, found, where, model)
    if is_printed:
        _print(words, where)
    else:
        _start(words, where)
    return 0


def _written(client: Client, found: ResolvedConversation, where: Path, model: str) -> list[str]:
    """Write a session for a client; return what goes on with it."""
    from harken.capture.resume.completeness import wholeness
    from harken.capture.resume.placement import ClientHome, place
    from harken.capture.resume.transfer import transfer
    from harken.capture.resume.verify import read_written_conversation

    native = native_for(client.runtime)
    if native is None or native.writes is None:
        known = [one for one in RUNTIMES if (native := native_for(one)) and native.writes]
        raise NameNotFound("client that sessions can be written for", client.runtime, known)
    if not found.moment.entries:
        raise ConfigError(f"{found.moment.ctx}: nothing was said there yet")
    new = new_session(client.runtime, where, title=found.conversation.title, model=model)
    data = native.writes(found.moment.entries, new)
    written = read_written_conversation(client, native, data)
    _tell(transfer(found.said, wholeness(found.moment.entries, written)))
    placed = place(client, native, data, new, ClientHome(home=Path.home(), environ=environment()))
    into = placed.file or f"its database, as {placed.session}"
    click.echo(escape_control_characters(f"a session for {client.name} in {into}"), err=True)
    return client.command(placed.session, model)


def _tell(found: Transfer) -> None:
    """Print how much of the conversation goes over, and why the rest does not."""
    for line in transfer_lines(found):
        click.echo(escape_control_characters(line), err=True)


def transfer_lines(found: Transfer) -> Iterator[str]:
    """Yield a line on how much goes over, and one for each reason why something is left out."""
    if found.go_over == found.messages:
        one = found.messages == 1
        yield "the only message goes over" if one else f"all {found.messages} messages go over"
        return
    rest = ""
    if found.summarized:
        rest = f"; {found.summarized} {_are(found.summarized)} summarized by a compaction"
    yield f"{found.go_over} of {found.messages} messages go over{rest}"
    for reason, size in found.left_out.items():
        yield f"{size} {_are(size)} left out: {reason.name}: {reason.why}"


def _are(size: int) -> str:
    return "is" if size == 1 else "are"


def _folder(found: ResolvedConversation, given: Path | None) -> Path:
    """Return where to work, and say why there."""
    if given is not None:
        return given.absolute()
    worked = found.conversation.folder
    if worked.startswith("/") and os.path.isdir(worked):  # noqa: PTH112 - raises nothing
        click.echo(escape_control_characters(f"working in {worked}, as the session did"), err=True)
        return Path(worked)
    gone = f", since {one_line(worked)} is not here" if worked else ""
    click.echo(escape_control_characters(f"working in {current_folder()}{gone}"), err=True)
    return current_folder()


def _in_harken(
    home: Home,
    conversation: str,
    at: str | None,
    folder: Path | None,
    model: str,
    *,
    is_printed: bool,
) -> int:
    """Go on in a chat."""
    with store_of(home) as store:
        found = resolve_conversation(home, store, conversation, at)
        ctx = name_of(store, commit_at(store, found.moment))
    from harken.capture.resume.transfer import whole_transfer

    _tell(whole_transfer(found.said))
    where = _folder(found, folder)
    if is_printed:
        chosen = ["--home", str(home.folder.absolute())] if home.chosen else []
        words = [*shlex.split(program_name()), "chat", "--from", ctx]
        _print([*words, *(["--model", model] if model else []), *chosen], where)
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
    line = " ".join(map(quoted, words))
    is_here = os.path.realpath(where) == os.path.realpath(current_folder())
    click.echo(line if is_here else f"cd {quoted(str(where))} && {line}")


def quoted(word: str) -> str:
    r"""Return a word as a shell reads it, on one line and without control characters.

    >>> print(quoted("it is"), quoted("two\nlines"))
    'it is' $'two\x0alines'
    """
    if escape_control_characters(word) == word and not {"\n", "\t"} & set(word):
        return shlex.quote(word)
    data = os.fsencode(word).decode("latin-1")
    plain = re.sub(r"[^ -~]|['\\]", lambda found: f"\\x{ord(found[0]):02x}", data)
    return f"$'{plain}'"


def _start(words: Sequence[str], where: Path) -> None:
    """Become the client: it gets the terminal, and nothing of Harken stays."""
    sys.stdout.flush()
    sys.stderr.flush()
    # It was looked for here: a PATH may be relative, and the folder is one that a session named.
    found = os.path.abspath(shutil.which(words[0]) or words[0])  # noqa: PTH100 - links stay
    try:
        os.chdir(where)
        # Some clients believe PWD more than the system.
        os.execve(found, list(words), {**os.environ, "PWD": str(where)})  # noqa: S606
    except OSError as error:
        raise ConfigError(
            f"{words[0]} cannot be started in {where} ({error.strerror}); the session is there: "
            f"`{' '.join(map(quoted, words))}`"
        ) from None
