"""`harken`: the commands, and the one place where errors become a line and an exit code.

A command's module is imported only when it runs, so that `harken --help` stays fast.
Exit codes: 0 done; 1 it ran and failed (a model call, a failed check); 2 bad input, or a file or
disk that cannot be used; 70 a bug in Harken; 130 interrupted.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Mapping

import click

from harken.cli.home import Home, home_option
from harken.cli.terminal import safe
from harken.errors import HarkenError, ModelError

COMMANDS = {
    "demo": ("harken.cli.demo", "Watch Jack and Jill meet in a cafe: offline, in seconds."),
    "chat": ("harken.cli.chat", "Talk with an agent; everything is kept."),
    "agent": ("harken.cli.agent", "Run an agent that files, times and programs can wake."),
    "sessions": ("harken.cli.sessions", "List the sessions that are kept."),
    "view": ("harken.cli.view", "Look at a session: tree, dialog, context, and more."),
    "replay": ("harken.cli.replay", "Step through a session, request by request, or check it."),
    "rerun": ("harken.cli.rerun", "Go on from any model call, with something changed."),
    "compare": ("harken.cli.compare", "See where sessions part, and what came of it."),
    "interactions": ("harken.cli.interactions", "Show and export what each request saw."),
    "ctx": ("harken.cli.ctx", "Look at commits: what agents understood, and when."),
    "resume": ("harken.cli.resume", "Go on with a conversation in any client."),
    "verify": ("harken.cli.verify", "See that a client sends what was materialized for it."),
    "import": ("harken.cli.import_", "Take in the conversations of other runtimes."),
    "search": ("harken.cli.search", "Find where something was said, in whatever runtime."),
    "stats": ("harken.cli.stats", "Show what was done in all sessions, and what it took."),
    "tables": ("harken.cli.tables", "Write all that is known as Parquet, for other programs."),
    "run": ("harken.cli.run", "Run a client such as claude or codex, and record it."),
    "proxy": ("harken.cli.proxy", "Record what any client says to its model, as it passes."),
    "watch": ("harken.cli.watch", "Take in what other runtimes write, as they write it."),
    "export": ("harken.cli.export", "Write a conversation in another format, or as spans."),
    "cat": ("harken.cli.cat", "Print the bytes of an artifact."),
    "keep": ("harken.cli.keep", "Say how long commits and artifacts are kept."),
    "gc": ("harken.cli.gc", "Remove from the store what nobody needs any more."),
    "fsck": ("harken.cli.fsck", "Check everything that is kept; change nothing."),
    "purge": ("harken.cli.purge", "Take a leaked secret out of everything that is kept."),
    "store": ("harken.cli.store", "Look at the store: how much is in it, and of what."),
    "bundle": ("harken.cli.bundle", "Put sessions and commits into one file, or take them out."),
    "serve": ("harken.cli.serve", "Serve the store over HTTP, for other programs of this machine."),
    "ship": ("harken.cli.ship", "Send sessions and their commits to a service elsewhere."),
    "otlp": ("harken.cli.otlp", "Record the model calls that programs emit as spans."),
    "context": ("harken.cli.context", "Say which commit the agent is at that runs a program."),
    "session": ("harken.cli.session", "Check, repair or pack session logs."),
    "init": ("harken.cli.init", "Write a first config.toml from what is found here."),
    "models": ("harken.cli.models", "List the models that can be used, and what others need."),
    "hooks": ("harken.cli.hooks", "List the hooks that can watch agents, and show one."),
    "mcp": ("harken.cli.mcp", "List the MCP servers, and what they have."),
    "trust": ("harken.cli.trust", "Let the .harken/ of a project count."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(COMMANDS[cmd_name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="harken", message="harken %(version)s")
@home_option
def cli(home: Home) -> None:
    """Trees of LLM agents, and a log that remembers what they heard, said and understood.

    Start with `harken demo`.
    """
    del home  # each command is passed it again


def main() -> None:
    """Run the command line and exit. No text is too odd for this terminal to read or show."""
    _fill_standard_streams()
    for stream, errors in (
        (sys.stdin, "surrogateescape"),
        (sys.stdout, "backslashreplace"),
        (sys.stderr, "backslashreplace"),
    ):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=errors)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed: nobody reads
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115, PTH123
    sys.exit(run(sys.argv[1:]))


def _fill_standard_streams() -> None:
    """Open what was closed: else a file, or a socket, would be taken for input or output."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number is this one


def run(arguments: list[str], environ: Mapping[str, str] | None = None) -> int:
    """Run the command line; return the exit code. The border where errors become one line.

    `environ` is read for keys and settings; None: that of this process.
    """
    try:
        code = cli.main(arguments, prog_name="harken", standalone_mode=False, obj=environ)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        return _misused(error)
    except SystemExit:
        return 0  # click's answer to a reader that left, as below
    except (KeyboardInterrupt, click.Abort):
        return _say("interrupted", 130)
    except ModelError as error:
        return _say(str(error), 1)
    except HarkenError as error:
        return _say(str(error), 2)
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123 - the reader left: be silent
        return 0
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _say(f"{where}{error.strerror or error}", 2)
    except Exception as error:  # noqa: BLE001 - the border: no traceback for a person
        if os.environ.get("HARKEN_DEBUG"):
            import traceback

            traceback.print_exc()
        kind = type(error).__name__
        return _say(f"a bug in Harken ({kind}: {error}); HARKEN_DEBUG=1 shows where", 70)


def _misused(error: click.ClickException) -> int:
    """Say what is wrong with a command line, and what there is instead."""
    if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
        error.show()  # the help
        return 2
    text = error.format_message().removesuffix(".")
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None:
        return _say(text, 2)
    if isinstance(context.command, click.Group):
        text = f"{text}; commands: {', '.join(context.command.list_commands(context))}"
    return _say(f"{text}; see `{context.command_path} --help`", 2)


def _say(text: str, code: int) -> int:
    line = safe(" ".join(text.splitlines()))
    click.echo(f"harken: {line}", err=True)
    return code
