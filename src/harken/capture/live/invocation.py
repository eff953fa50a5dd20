"""`Invocation`: a client's command line, and the command that is run instead.

A client is run as the user called it, unless its output can only be parsed in another form. Then
the command asks for that form, and the output for the user is made from it
(`harken.capture.live.display`).

Only a program itself knows its options. So the options that take values are listed for the
supported programs, and every other option is treated as a switch.

Source: docs/how-to/record-claude-code-and-codex.md; the help texts of Claude Code
2.1.329 and Codex 0.169.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Literal, TypeAlias

import msgspec

from harken.capture.files.sources import SOURCE_LOCATIONS
from harken.capture.live.claude_code import parse_claude_line as claude_heard
from harken.capture.live.codex import CodexLines
from harken.capture.live.stream_event import LineParser
from harken.errors import ConfigError


class Options(msgspec.Struct, frozen=True):
    """The options of a program that take values."""

    single_value: frozenset[str] = frozenset()
    """Options with exactly one value."""
    perhaps: frozenset[str] = frozenset()
    """Options with an optional value, which may not start with a dash."""
    many: frozenset[str] = frozenset()
    """Options with all following words up to the next option as values."""


class CommandWord(msgspec.Struct, frozen=True):
    """An option with its values, or a positional argument."""

    option: str
    """Empty for a positional argument."""
    values: tuple[str, ...]
    start: int
    """The index of its first word in the command line."""
    end: int

    @property
    def value(self) -> str:
        """Its first value. Empty if it has none."""
        return self.values[0] if self.values else ""


def split_names(listed: str) -> frozenset[str]:
    """Split a text at blanks into names."""
    return frozenset(listed.split())


def parse_command_line(arguments: Sequence[str], options: Options) -> Iterator[CommandWord]:
    """Parse the arguments of a command line, without the name of the program.

    >>> [*parse_command_line(["-p", "Hi", "--model=m"], Options())][-1]
    CommandWord(option='--model', values=('m',), start=2, end=3)
    """
    index = 0
    while index < len(arguments):
        arg, start = arguments[index], index
        index += 1
        if arg == "--":
            for position in range(index, len(arguments)):
                yield CommandWord("", (arguments[position],), position, position + 1)
            return
        if not arg.startswith("-") or arg == "-":
            yield CommandWord("", (arg,), start, index)
            continue
        name, equals, value = arg.partition("=")
        if equals and arg.startswith("--"):
            yield CommandWord(name, (value,), start, index)
            continue
        if arg in options.single_value:
            index = min(index + 1, len(arguments))
        elif arg in options.perhaps:
            index += index < len(arguments) and not arguments[index].startswith("-")
        elif arg in options.many:
            while index < len(arguments) and not arguments[index].startswith("-"):
                index += 1
        yield CommandWord(arg, tuple(arguments[start + 1 : index]), start, index)


Output: TypeAlias = Literal["untouched", "verbatim", "text", "json", "jsons"]
"""The output that the user sees.

`untouched`: the client writes it itself; `verbatim`: the same bytes, passed through Harken; `text`,
`json`, `jsons`: made from events: the result text, the last event, or all events in one list.
"""
RUNTIMES = tuple(place.runtime for place in SOURCE_LOCATIONS)

_CLAUDE_OPTIONS = Options(
    single_value=split_names(
        "--agent --agents --append-system-prompt --append-system-prompt-file --autocompact "
        "--debug-file --effort --environment --fallback-model --input-format --json-schema "
        "--max-budget-usd --max-turns --model -n --name --output-format --permission-mode "
        "--permission-prompt-tool --plugin-dir --session-id --setting-sources --settings "
        "--system-prompt --system-prompt-file"
    ),
    perhaps=split_names("-d --debug --cloud --from-pr -r --resume -w --worktree --teleport"),
    many=split_names(
        "--add-dir --allowedTools --allowed-tools --betas --disallowedTools --disallowed-tools "
        "--file --mcp-config --tools"
    ),
)
_CODEX_OPTIONS = Options(
    single_value=split_names(
        "-c --config --enable --disable -m --model --local-provider -p --profile -s --sandbox "
        "-C --cd --add-dir --thread-source --cyber-access-program --output-schema --color -o "
        "--output-last-message -a --ask-for-approval --remote"
    ),
    many=split_names("-i --image"),
)
_PRINT_PATTERN = re.compile(r"-[cp]*p[cp]*|--print")
_NO_SESSION_OPTIONS = frozenset({"--no-session-persistence", "--ephemeral"})
_SESSION_COMMANDS = frozenset({"resume", "fork"})


class Invocation(msgspec.Struct, frozen=True, kw_only=True):
    """A command to run."""

    runtime: str
    command: tuple[str, ...]
    output: Output = "untouched"
    listen: LineParser | None = None
    """Parses the lines of its output. None if its output is not parsed."""
    prompt: str = ""
    """The prompt, if the command line contains it."""
    has_file: bool = True
    """Whether the client writes a session file."""
    folder: str = ""
    """The working folder, if it differs from the current one."""
    max_turns: str = ""
    max_usd: str = ""


def parse_invocation(command: Sequence[str], runtime: str | None = None) -> Invocation:
    """Return what to run for a command line. `runtime` overrides the name of the program.

    Raises ConfigError if the client is unknown.
    """
    name = PurePath(command[0]).name.lower().partition(".")[0]
    client_name = runtime or name
    if client_name not in RUNTIMES:
        raise ConfigError(
            f"client {client_name!r} not found; supported clients: {', '.join(RUNTIMES)} "
            "(a program with another name needs --runtime)"
        )
    if client_name == "claude":
        return _parse_claude(tuple(command))
    if client_name == "codex":
        return _parse_codex(tuple(command))
    return Invocation(runtime=client_name, command=tuple(command))


def _parse_claude(command: tuple[str, ...]) -> Invocation:
    words = [*parse_command_line(command[1:], _CLAUDE_OPTIONS)]
    if not any(_PRINT_PATTERN.fullmatch(word.option) for word in words):
        return Invocation(runtime="claude", command=command)
    format_words = [word for word in words if word.option == "--output-format"]
    output_format = format_words[-1].value if format_words else "text"
    is_verbose = any(word.option == "--verbose" for word in words)
    output: Output = "verbatim"
    if output_format in ("text", "json"):
        output = (
            "jsons"
            if output_format == "json" and is_verbose
            else "json"
            if output_format == "json"
            else "text"
        )
        command = _as_stream(command, format_words, is_verbose=is_verbose)
    return Invocation(
        runtime="claude",
        command=command,
        output=output,
        listen=claude_heard,
        prompt=next((word.value for word in words if not word.option), ""),
        has_file=_keeps_session_file(words),
        max_turns=_option_value(words, "--max-turns"),
        max_usd=_option_value(words, "--max-budget-usd"),
    )


def _as_stream(
    command: tuple[str, ...], format_words: Sequence[CommandWord], *, is_verbose: bool
) -> tuple[str, ...]:
    """Return a command line that prints events, whatever output format the user asked for."""
    removed_indexes = {index for word in format_words for index in range(word.start, word.end)}
    remaining = [arg for index, arg in enumerate(command[1:]) if index not in removed_indexes]
    end = remaining.index("--") if "--" in remaining else len(remaining)
    added = ["--output-format", "stream-json", *([] if is_verbose else ["--verbose"])]
    return (command[0], *remaining[:end], *added, *remaining[end:])


def _parse_codex(command: tuple[str, ...]) -> Invocation:
    words = [*parse_command_line(command[1:], _CODEX_OPTIONS)]
    positionals = [word.value for word in words if not word.option]
    folder = _option_value(words, "-C") or _option_value(words, "--cd")
    if not positionals or positionals[0] not in ("exec", "e"):
        return Invocation(runtime="codex", command=command, folder=folder)
    prompt_words = positionals[1:]
    if prompt_words and prompt_words[0] in _SESSION_COMMANDS:
        prompt_words = prompt_words[1 if any(word.option == "--last" for word in words) else 2 :]
    prompt = prompt_words[0] if prompt_words and prompt_words[0] not in ("-", "review") else ""
    has_events = any(word.option in ("--json", "--experimental-json") for word in words)
    return Invocation(
        runtime="codex",
        command=command,
        output="verbatim" if has_events else "untouched",
        listen=CodexLines().parse_line if has_events else None,
        prompt=prompt,
        has_file=_keeps_session_file(words),
        folder=folder,
    )


def _option_value(words: Sequence[CommandWord], option: str) -> str:
    return next((word.value for word in reversed(words) if word.option == option), "")


def _keeps_session_file(words: Sequence[CommandWord]) -> bool:
    return not any(word.option in _NO_SESSION_OPTIONS for word in words)
