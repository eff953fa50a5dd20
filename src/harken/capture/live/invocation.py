"""`Invocation`: what somebody wants to run, and what is run in its place.

One idea: a client is run as it was called, unless its output can be read only in another form. Then
it is asked for that form, and what the user would have seen is made of it (`shown`).

Source: docs/how-to/capture-live.md; the help of Claude Code 2.1.329 and Codex 0.169.0.

Words of a command line: which are options, which are values of these, and which stand alone.

One idea: only the program itself knows its options. So those that take values are listed, for the
few programs that are known; any other option is a switch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal, TypeAlias

from harken.capture.files.sources import PLACES
from harken.capture.live.claude_code import heard as claude_heard
from harken.capture.live.codex import CodexLines
from harken.capture.live.stream_event import Listen
from harken.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a program that take values."""

    one: frozenset[str] = frozenset()
    """The next word, whatever it is."""
    perhaps: frozenset[str] = frozenset()
    """The next word, unless it is an option."""
    many: frozenset[str] = frozenset()
    """All words up to the next option."""


@dataclass(frozen=True, slots=True)
class CommandWord:
    """An option with its values, or a word that stands alone."""

    option: str
    """Empty: it stands alone."""
    values: tuple[str, ...]
    start: int
    """Where it begins in the command line."""
    end: int

    @property
    def value(self) -> str:
        """Its first value; empty: it has none."""
        return self.values[0] if self.values else ""


def names(listed: str) -> frozenset[str]:
    """Return names that stand in a text, with blanks between them."""
    return frozenset(listed.split())


def parse_command_line(arguments: Sequence[str], options: Options) -> Iterator[CommandWord]:
    """Yield the words of a command line, without the name of the program.

    >>> [*parse_command_line(["-p", "Hi", "--model=m"], Options())][-1]
    CommandWord(option='--model', values=('m',), start=2, end=3)
    """
    at = 0
    while at < len(arguments):
        arg, start = arguments[at], at
        at += 1
        if arg == "--":
            for alone in range(at, len(arguments)):
                yield CommandWord("", (arguments[alone],), alone, alone + 1)
            return
        if not arg.startswith("-") or arg == "-":
            yield CommandWord("", (arg,), start, at)
            continue
        name, equals, value = arg.partition("=")
        if equals and arg.startswith("--"):
            yield CommandWord(name, (value,), start, at)
            continue
        if arg in options.one:
            at = min(at + 1, len(arguments))
        elif arg in options.perhaps:
            at += at < len(arguments) and not arguments[at].startswith("-")
        elif arg in options.many:
            while at < len(arguments) and not arguments[at].startswith("-"):
                at += 1
        yield CommandWord(arg, tuple(arguments[start + 1 : at]), start, at)


Output: TypeAlias = Literal["untouched", "verbatim", "text", "json", "jsons"]
"""What the user is shown: what the client writes, without anybody between; the same, read on its
way; or, made of events, the last words, the last event, or all of them in one list."""
RUNTIMES = tuple(place.runtime for place in PLACES)

_CLAUDE = Options(
    one=names(
        "--agent --agents --append-system-prompt --append-system-prompt-file --autocompact "
        "--debug-file --effort --environment --fallback-model --input-format --json-schema "
        "--max-budget-usd --max-turns --model -n --name --output-format --permission-mode "
        "--permission-prompt-tool --plugin-dir --session-id --setting-sources --settings "
        "--system-prompt --system-prompt-file"
    ),
    perhaps=names("-d --debug --cloud --from-pr -r --resume -w --worktree --teleport"),
    many=names(
        "--add-dir --allowedTools --allowed-tools --betas --disallowedTools --disallowed-tools "
        "--file --mcp-config --tools"
    ),
)
_CODEX = Options(
    one=names(
        "-c --config --enable --disable -m --model --local-provider -p --profile -s --sandbox "
        "-C --cd --add-dir --thread-source --cyber-access-program --output-schema --color -o "
        "--output-last-message -a --ask-for-approval --remote"
    ),
    many=names("-i --image"),
)
_PRINT = re.compile(r"-[cp]*p[cp]*|--print")
_FORGETFUL = frozenset({"--no-session-persistence", "--ephemeral"})
_SESSIONS = frozenset({"resume", "fork"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """What is run."""

    runtime: str
    command: tuple[str, ...]
    output: Output = "untouched"
    listen: Listen | None = None
    """Reads the lines of its output; None: nobody reads them."""
    prompt: str = ""
    """What it is asked, where the command line says it."""
    has_file: bool = True
    """Whether it keeps a file of its session."""
    folder: str = ""
    """Where it works, where that is another folder than the one it is started in."""
    most_turns: str = ""
    most_usd: str = ""


def invocation(command: Sequence[str], runtime: str | None = None) -> Invocation:
    """Return what to run for a command line; `runtime`: what it is, where its name does not say it.

    Raises ConfigError where nobody here knows it.
    """
    name = PurePath(command[0]).name.lower().partition(".")[0]
    known = runtime or name
    if known not in RUNTIMES:
        raise ConfigError(
            f"{known}: nobody here knows this client; known are {', '.join(RUNTIMES)} "
            "(--runtime says which one it is, where its name does not)"
        )
    if known == "claude":
        return _claude(tuple(command))
    if known == "codex":
        return _codex(tuple(command))
    return Invocation(runtime=known, command=tuple(command))


def _claude(command: tuple[str, ...]) -> Invocation:
    found = [*parse_command_line(command[1:], _CLAUDE)]
    if not any(_PRINT.fullmatch(word.option) for word in found):
        return Invocation(runtime="claude", command=command)
    forms = [word for word in found if word.option == "--output-format"]
    form = forms[-1].value if forms else "text"
    is_verbose = any(word.option == "--verbose" for word in found)
    output: Output = "verbatim"
    if form in ("text", "json"):
        output = "jsons" if form == "json" and is_verbose else "json" if form == "json" else "text"
        command = _as_stream(command, forms, is_verbose=is_verbose)
    return Invocation(
        runtime="claude",
        command=command,
        output=output,
        listen=claude_heard,
        prompt=next((word.value for word in found if not word.option), ""),
        has_file=_keeps(found),
        most_turns=_value(found, "--max-turns"),
        most_usd=_value(found, "--max-budget-usd"),
    )


def _as_stream(
    command: tuple[str, ...], forms: Sequence[CommandWord], *, is_verbose: bool
) -> tuple[str, ...]:
    """Return the command line that gives events, whatever form was asked for."""
    gone = {at for word in forms for at in range(word.start, word.end)}
    kept = [arg for at, arg in enumerate(command[1:]) if at not in gone]
    end = kept.index("--") if "--" in kept else len(kept)
    more = ["--output-format", "stream-json", *([] if is_verbose else ["--verbose"])]
    return (command[0], *kept[:end], *more, *kept[end:])


def _codex(command: tuple[str, ...]) -> Invocation:
    found = [*parse_command_line(command[1:], _CODEX)]
    alone = [word.value for word in found if not word.option]
    folder = _value(found, "-C") or _value(found, "--cd")
    if not alone or alone[0] not in ("exec", "e"):
        return Invocation(runtime="codex", command=command, folder=folder)
    asked = alone[1:]
    if asked and asked[0] in _SESSIONS:
        asked = asked[1 if any(word.option == "--last" for word in found) else 2 :]
    prompt = asked[0] if asked and asked[0] not in ("-", "review") else ""
    is_told = any(word.option in ("--json", "--experimental-json") for word in found)
    return Invocation(
        runtime="codex",
        command=command,
        output="verbatim" if is_told else "untouched",
        listen=CodexLines().heard if is_told else None,
        prompt=prompt,
        has_file=_keeps(found),
        folder=folder,
    )


def _value(found: Sequence[CommandWord], option: str) -> str:
    return next((word.value for word in reversed(found) if word.option == option), "")


def _keeps(found: Sequence[CommandWord]) -> bool:
    return not any(word.option in _FORGETFUL for word in found)
