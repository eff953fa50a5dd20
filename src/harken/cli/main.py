"""`harken`: the commands, and the only place that converts errors to a line and an exit code.

A command's module is imported only when it runs, so that `harken --help` stays fast. Exit codes: 0
success; 1 it ran and failed (a model call, a failed check); 2 bad input, or a file or disk that
cannot be used; 70 a bug in Harken; 130 interrupted.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Mapping

import click

from harken.cli.command_group import CommandGroup
from harken.cli.command_tree import COMMANDS, SECTIONS
from harken.cli.options.home import unchecked_home_option
from harken.config.home import Home
from harken.errors import HarkenError, ModelError
from harken.terminal.text import escape_control_characters


@click.group(
    cls=CommandGroup,
    entries=COMMANDS,
    sections=SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="harken", message="harken %(version)s")
@unchecked_home_option
def cli(home: Home) -> None:
    """Run trees of LLM agents, and record everything they receive, say and understand.

    Start with `harken demo`.
    """
    del home  # every command gets the home itself


def main() -> None:
    """Run the command line and exit. Text that the terminal cannot encode is escaped."""
    _fill_standard_streams()
    if "_HARKEN_COMPLETE" in os.environ:
        from harken.cli.commands.completion import complete_line

        answer = "".join(f"{line}\n" for line in complete_line(os.environ))
        with contextlib.suppress(OSError):
            os.write(1, answer.encode())
        sys.exit(0)
    for stream, errors in (
        (sys.stdin, "surrogateescape"),
        (sys.stdout, "backslashreplace"),
        (sys.stderr, "backslashreplace"),
    ):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=errors)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the stream is closed
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115, PTH123
    sys.exit(run_cli(sys.argv[1:]))


def _fill_standard_streams() -> None:
    """Open closed standard streams: else an opened file or socket would get their descriptor."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # open() uses the lowest free descriptor


def run_cli(arguments: list[str], environ: Mapping[str, str] | None = None) -> int:
    """Run the command line; return the exit code. All errors are printed as one line here.

    `environ`: the variables for keys and settings, by default those of this process.
    """
    try:
        code = cli.main(arguments, prog_name="harken", standalone_mode=False, obj=environ)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        return _report_misuse(error)
    except SystemExit:
        return 0  # click handles a closed pipe like this
    except (KeyboardInterrupt, click.Abort):
        return _print_error("interrupted", 130)
    except ModelError as error:
        return _print_error(str(error), 1)
    except HarkenError as error:
        return _print_error(str(error), 2)
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123 - the pipe is closed
        return 0
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _print_error(f"{where}{error.strerror or error}", 2)
    except Exception as error:  # noqa: BLE001 - users get no traceback
        if os.environ.get("HARKEN_DEBUG"):
            import traceback

            traceback.print_exc()
        kind = type(error).__name__
        return _print_error(f"a bug in Harken ({kind}: {error}); HARKEN_DEBUG=1 shows where", 70)


def _report_misuse(error: click.ClickException) -> int:
    """Print the error of a wrong command line, with a suggestion."""
    if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
        error.show()  # the help
        return 2
    if isinstance(error, click.NoSuchCommand | click.NoSuchOption):
        from harken.cli.suggestions import explain_no_such_command, explain_no_such_option

        if isinstance(error, click.NoSuchCommand):
            return _print_error(explain_no_such_command(error), 2)
        return _print_error(explain_no_such_option(error), 2)
    text = error.format_message().removesuffix(".")
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None:
        return _print_error(text, 2)
    if context.parent is not None and isinstance(context.command, click.Group):
        text = f"{text}; commands: {', '.join(context.command.list_commands(context))}"
    return _print_error(f"{text}; see `{context.command_path} --help`", 2)


def _print_error(text: str, code: int) -> int:
    line = escape_control_characters(" ".join(line.strip() for line in text.splitlines()))
    click.echo(f"harken: {line}", err=True)
    return code
