"""`harken chat`: talk with an agent. Every message is logged."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import click

import harken.cli.commands.chat.slash_commands  # noqa: F401 - it registers the slash commands
from harken.chat.commands.base import NextSession
from harken.chat.open import open_chat
from harken.chat.open_chat import OpenChat
from harken.chat.options import ChatOptions
from harken.chat.plain_chat import PlainChat, PlainUser, print_session_notes, tell
from harken.chat.running.resumption import find_resumed
from harken.chat.running.unused_session import remove_unused_session
from harken.chat.turn_limit import MAX_MODEL_CALLS
from harken.cli.commands.sessions.picker import check_new_name, pick_session
from harken.cli.options.agent import allow_option, permission_option
from harken.cli.options.folder import Folder
from harken.cli.options.home import home_option, json_option
from harken.cli.options.identity import CHAT_IDENTITY_NAMES, chat_identity_options
from harken.cli.options.name_types import COMMIT, SESSION
from harken.config.home import Home, command_prefix, current_folder, environment
from harken.config.identity import load_chat_identity
from harken.core import structs
from harken.core.messages import text_of
from harken.session.session import Session
from harken.terminal.environment import TerminalEnvironment, has_screen
from harken.terminal.stdin import StdinReader, stdin_is_interactive
from harken.terminal.text import escape_control_characters, restore_interrupt
from harken.world.permissions.mode import Mode

LOG_DIRECTORY = Path("logs", "interactions")
"""The default folder of exported interactions."""
_PICK = ""
"""The value of `--resume` without a name."""


def chat_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add the options of a chat to a command, which gets them as a `ChatOptions`."""

    @wraps(function)
    def wished(
        *,
        resume: str | None,
        latest: bool,
        ctx: str | None,
        home: Home,
        permission: Mode | None,
        allow: tuple[Path, ...],
        store: str | None,
        **options: Any,
    ) -> int:
        if ctx is not None and (resume is not None or latest):
            raise click.UsageError(
                "--from-commit is for a new session; omit it to resume a session"
            )
        if resume is not None and latest:
            raise click.UsageError("--resume and --continue cannot be combined")
        identity_values = {name: options.pop(name) for name in CHAT_IDENTITY_NAMES}
        name = options.pop("name")
        if name is not None:
            if resume is not None or latest:
                raise click.UsageError("--name is for a new session; a resumed session has its own")
            check_new_name(home, name)
        if resume == _PICK:
            resume = pick_session(home)
        old, start = _resolve_resumed(home, resume, latest=latest)
        model, system = options.pop("model"), options.pop("system")
        if old is not None and system is not None:
            raise click.UsageError(
                "--system-prompt is for a new session; a resumed session has its own"
            )
        wish = ChatOptions(
            model=model,
            old=old,
            ctx=ctx if start is None else start,
            system_prompt=system,
            permission=permission,
            allowed=allow,
            store=store,
            sandbox=options.pop("sandbox"),
            memory=options.pop("memory"),
            tickets=options.pop("tickets"),
            claude_hooks=options.pop("claude_hooks"),
            max_calls=options.pop("max_calls"),
            name=name,
            identity=load_chat_identity(identity_values, environment(), current_folder()),
        )
        return function(wish=wish, home=home, **options)

    command: Callable[..., int] = chat_identity_options(wished)
    for option in reversed(_WISHED):
        command = option(command)
    return command


def _resolve_resumed(
    home: Home, name: str | None, *, latest: bool
) -> tuple[Path | None, str | None]:
    """Return the log to continue, or the commit from which a new session continues."""
    if name is None:
        return (home.latest_log() if latest else None), None
    log, ctx = find_resumed(home, name)
    if ctx is not None:
        click.echo(
            escape_control_characters(f"{name} is resumed in a new session, from {ctx[:16]}"),
            err=True,
        )
    return log, ctx


_WISHED: list[Callable[[Any], Any]] = [
    click.option(
        "--model", metavar="MODEL", help="PROVIDER/MODEL, scripted:FILE.yaml or replay:SESSION."
    ),
    click.option(
        "--resume",
        type=SESSION,
        metavar="[SESSION]",
        is_flag=False,
        flag_value=_PICK,
        help="Resume this session, of any runtime. Without a value, choose from a list.",
    ),
    click.option("--name", metavar="NAME", help="The name of a new session."),
    click.option("--continue", "latest", is_flag=True, help="Resume the latest session."),
    click.option(
        "--from-commit",
        "ctx",
        type=COMMIT,
        metavar="CTX",
        help="Start a new session with the context of this commit or session.",
    ),
    click.option(
        "--store",
        metavar="ADDRESS",
        help="The store of commits: http://..., unix:PATH or postgresql://...",
    ),
    click.option(
        "--system-prompt", "system", metavar="TEXT", help="The system prompt of a new session."
    ),
    permission_option,
    allow_option,
    click.option(
        "--sandbox",
        type=click.Choice(["auto", "on", "off"]),
        help="Whether commands run in a sandbox (default: as configured, else auto).",
    ),
    click.option(
        "--claude-hooks",
        is_flag=True,
        help="Run the hooks in the settings of Claude Code (.claude/settings.json).",
    ),
    click.option(
        "--memory",
        metavar="FOLDER",
        type=Folder(),
        help="A folder for notes (Markdown) that agents keep across sessions.",
    ),
    click.option(
        "--tickets", is_flag=True, help="Let agents read and change the tickets of the store."
    ),
    click.option(
        "--max-calls",
        metavar="N",
        type=click.IntRange(min=1),
        default=MAX_MODEL_CALLS,
        show_default=True,
        help="Without a terminal: the maximum number of model calls of an agent in a turn.",
    ),
    click.option(
        "-p",
        "prompt",
        metavar="PROMPT",
        help='Send this prompt ("-": read it from stdin), print the answer, and exit.',
    ),
]


@click.command()
@chat_options
@click.option(
    "--interaction-logs",
    is_flag=True,
    help="At the end, export the context of each request, as `harken interactions export`.",
)
@click.option(
    "--log-directory",
    metavar="FOLDER",
    type=Folder(),
    help="The folder of --interaction-logs (default: logs/interactions).",
)
@json_option
@home_option
def command(
    wish: ChatOptions,
    prompt: str | None,
    interaction_logs: bool,
    log_directory: Path | None,
    as_json: bool,
    home: Home,
) -> int:
    """Chat with an agent; the session is recorded.

    The first agent is named "main". Ctrl-C interrupts a turn, and an empty line (or -p "")
    continues it; Ctrl-D ends the chat. In a terminal, /help lists the commands.
    """
    restore_interrupt()
    if prompt == "-":
        prompt = sys.stdin.read()
    if wish.old is None and prompt is not None and not prompt.strip():
        raise click.UsageError("-p needs a prompt that is not empty")
    logs = log_directory or (LOG_DIRECTORY if interaction_logs else None)
    if prompt is None and not as_json and has_screen():
        return talk_on_screen(home, wish, logs)
    return talk_in_lines(home, wish, prompt, logs, as_json=as_json)


@contextmanager
def export_on_exit(chat: OpenChat, logs: Path | None) -> Iterator[None]:
    """Export the context of each request when the chat ends, also after an error."""
    try:
        yield
    finally:
        path = chat.session.path
        if logs is not None and path.exists():
            from harken.cli.commands.interactions import export_to, format_summary
            from harken.interactions.export.exporter import ExportOptions
            from harken.session.log.reader import iter_events

            how = ExportOptions(resolver=chat.session.options.resolver)
            click.echo(
                format_summary(logs, export_to(logs, path.stem, [*iter_events(path)], how)),
                err=True,
            )


@contextmanager
def print_resume_command_on_interrupt(chat: OpenChat) -> Iterator[None]:
    """Print the command that resumes the session if Ctrl-C ends the chat."""
    try:
        yield
    except KeyboardInterrupt:
        if chat.session.path.exists():
            tell(f"\n{format_resume_line(chat.session)}")  # after the prompt and the echoed ^C
        raise


def format_resume_line(session: Session) -> str:
    """Return the line with the command that resumes a session."""
    resume_command = command_prefix("chat", "--resume", session.path.stem)
    return f"session recorded; resume with: {resume_command}"


def talk_on_screen(home: Home, wish: ChatOptions, logs: Path | None = None) -> int:
    """Run a chat on the screen. Errors of opening are printed before anything is drawn."""
    code, going = 0, [wish]
    for options in going:  # the loop appends the next session
        code, onward = _on_one_screen(home, options, logs)
        if onward is not None:
            click.echo()  # separates the next chat
            going.append(onward)
    return code


def _on_one_screen(
    home: Home, wish: ChatOptions, logs: Path | None
) -> tuple[int, ChatOptions | None]:
    """Run one session on the screen; return the exit code and the options of the next session."""
    from harken.chat.screen.event_queue import ScreenHandle
    from harken.chat.screen.screen import Screen

    face = ScreenHandle()
    ears = face.event_queue
    chat = open_chat(
        home,
        structs.replace(wish, wakes=True),
        user=face.questions,
        on_chunk=ears.on_chunk,
        on_notice=ears.on_notice,
    )
    where = TerminalEnvironment.from_process(home.folder / "history")
    with chat as session, export_on_exit(chat, logs):
        screen = Screen(face, chat, where, draft=wish.draft)
        code = asyncio.run(screen.run())
        onward = next_session_options(wish, chat, screen.table.onward)
        if remove_unused_session(wish, chat):
            return code, onward
        chat.end(by_user=code == 0 and onward is None)
    click.secho(f"\n{format_resume_line(session)}", dim=True)
    return code, onward


def next_session_options(
    wish: ChatOptions, chat: OpenChat, onward: NextSession | None
) -> ChatOptions | None:
    """Return the options of the next session, with the current model and permissions."""
    if onward is None:
        return None
    permissions = chat.runtime.world.permissions
    wish = structs.replace(
        wish,
        old=onward.log,
        is_branch=onward.log is not None,
        name=None,
        permission=permissions.mode if permissions is not None else wish.permission,
        note=onward.note,
        draft=onward.draft,
    )
    if onward.log is not None:
        return structs.replace(wish, ctx=None, model=None, system_prompt=None)
    agent = chat.primary
    systems = [
        text_of(m.content) for m in chat.session.context(agent.agent_id)[:1] if m.role == "system"
    ]
    return structs.replace(
        wish,
        ctx=onward.ctx,
        model=agent.state.language_model or wish.model,
        system_prompt=None if onward.ctx is not None else next(iter(systems), None),
    )


def talk_in_lines(
    home: Home, wish: ChatOptions, prompt: str | None, logs: Path | None = None, *, as_json: bool
) -> int:
    """Run a chat in plain lines, or send a single `prompt`: then no user can be asked."""
    can_ask, typed = prompt is None and stdin_is_interactive(), StdinReader()
    user = PlainUser(typed.read_new_line, tell, typed.keep_type_ahead) if can_ask else None
    going, failed = [structs.replace(wish, wakes=prompt is None)], False
    for options in going:  # the loop appends the next session
        opened_chat = open_chat(home, options, user=user, on_notice=tell)
        with (
            print_resume_command_on_interrupt(opened_chat),
            opened_chat,
            export_on_exit(opened_chat, logs),
            asyncio.Runner() as runner,
        ):
            print_session_notes(opened_chat, resumed=options.old is not None)
            chat = PlainChat(
                opened_chat, runner, as_json=as_json, typed=typed, most_calls=options.max_calls
            )
            if prompt is None:
                chat.talk()
            else:
                chat.run_single_turn(prompt)
            runner.run(opened_chat.runtime.world.close())
            onward = next_session_options(options, opened_chat, chat.onward)
            if not remove_unused_session(options, opened_chat):
                opened_chat.end(by_user=can_ask and onward is None)
        going += [onward] if onward is not None else []
        failed = chat.failed
    return int(failed and (prompt is not None or not sys.stdin.isatty()))
