"""Write docs/reference/cli.md and python.md from help texts and docstrings, and completion.json.

`--check` writes nothing, says which page is not up to date, and then ends with exit code 1.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import itertools
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ForwardRef

import click
import msgspec

import harken
from harken.agents.structure import AgentStructure
from harken.cli.completion_table import TABLE_FILE, table_of, table_text
from harken.cli.main import cli

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference"
WIDTH = 88

NOTE = "<!-- Written by tools/cli_docs.py. Change the source and run it again. -->\n"

CLI_HEAD = """# Command line

A SESSION or CTX argument accepts these names:

| name | means |
|---|---|
| `demo`, `codex:019f17a5` | a session that `harken sessions` lists, or a prefix of its id |
| `latest` | the first session of that list |
| a file | a session log, or a file from which a session was imported |
| `ctx-0f1e2d3c4b5a` | a commit, or a unique prefix of its name |
| a label | the commit with this label, see `harken ctx label` |

Where a commit is needed, a session stands for the last commit of its main agent; where a log is
needed, only recorded sessions and files will do. Agents are named by name or id, messages by id
(`msg_012`) or number (`12`). `--home` may stand at any level.

Answers and views go to standard output, everything else to standard error. With `--json`, standard
output is JSON and nothing but JSON. Control characters of a log are written out (`\\x1b`): a
transcript can do nothing to the terminal that shows it.

| exit code | means |
|---|---|
| 0 | done |
| 1 | it ran and failed: a model call, or a check that found something |
| 2 | it could not be done: a wrong command line, a file or a disk that cannot be used |
| 70 | a bug in Harken: please report it |
| 130 | interrupted with Ctrl-C |

A chat that is left with Ctrl-D, `/quit` or, on its screen, Ctrl-C pressed twice ends with 0. In
plain lines and with `-p`, Ctrl-C ends it with 130, and standard error has the command that resumes
the session. If the input is not a terminal, the exit code is 1 if a turn failed.

A group without a command, such as `harken store`, prints its help on standard error and ends with
2; `--help` prints it on standard output and ends with 0.

An error is one line on standard error. It says what is wrong, where, and what to do. A misspelled
command or option gets a suggestion, also one that belongs to another command.

Three commands check something. `verify` checks a client: whether it sends the context that was
written for it. `sessions check` checks a log, and `store fsck` everything that is kept.
`interactions` and `context` are not on the first page of `harken --help`: programs use them more
than people.

| environment variable | means |
|---|---|
| `HARKEN_HOME` | where sessions are kept, otherwise `~/.harken`; only its owner can read it |
| `HARKEN_DEBUG` | if set, a bug shows its traceback |
"""

PYTHON_HEAD = """# Python

What a program needs that runs agents, reads a session and keeps contexts is in `harken`; the rest
is public in its package (`from harken.store import MemoryStore`). All errors are in
`harken.errors`, kits for tests in `harken.testing`. A name is imported when it is first used;
`import harken` itself opens no file, reads no environment and prints nothing. What words such as
*session* or *hook* mean stands in the [glossary](../glossary.md).
"""

GROUPS = {
    "Sessions": [
        "agent",
        "load_session",
        "AgentRuntime",
        "Session",
        "SessionOptions",
        "LoggedString",
    ],
    "Agents": [
        *("Agent", "SmartAgent", "DumbAgent", "Conversation", "Budget", "Templates", "Skills"),
        *("register_agent_class", "start_from_commit"),
    ],
    "Hooks": ["Hook", "HookQuestion", "Ok", "Comment", "Deny", "Rewrite"],
    "The world": [
        *("LocalWorld", "local_world", "Tool", "tool", "ToolContext", "ToolError"),
        *("Permissions", "User"),
    ],
    "Models": [
        *("Model", "ScriptedModel", "FunctionModel", "AnthropicModel", "OpenAIModel"),
        *("resolve_model", "Message"),
    ],
    "Views": ["SessionViewer"],
    "Contexts": ["SqliteStore", "checkpoint", "materialize", "fork", "render"],
    "Errors": ["HarkenError", "ConfigError", "ModelError"],
}
"""The names of `harken`, by subject."""
PACKAGES = (
    *("harken.agents", "harken.world", "harken.llm", "harken.session", "harken.store"),
    "harken.tickets",
    *("harken.context", "harken.formats", "harken.recording", "harken.interactions"),
)
"""The other packages with public names; `harken.errors` and `harken.testing` say theirs."""


def cli_page() -> str:
    """Return the page with the help of every command."""
    parts = [NOTE, CLI_HEAD]
    settings = {**cli.context_settings, "terminal_width": WIDTH}
    for path, text in helps(cli, click.Context(cli, info_name="harken", **settings)):
        level = min(1 + len(path.split()), 3)
        parts.append(f"{'#' * level} `{path}`\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


def helps(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    """Yield each command's path and help, a group before its commands."""
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from helps(below, click.Context(below, info_name=name, parent=context))


def python_page() -> str:
    """Return the page with every public name."""
    missing = set(harken.__all__) ^ {name for names in GROUPS.values() for name in names}
    if missing:
        sys.exit(f"cli_docs: GROUPS and harken.__all__ differ in {', '.join(sorted(missing))}")
    lines = [NOTE, PYTHON_HEAD]
    for group, names in GROUPS.items():
        lines.append(f"## {group}\n")
        for name in names:
            lines += entry(name, getattr(harken, name))
    for package in map(importlib.import_module, PACKAGES):
        summary = (package.__doc__ or "").split("\n")[0]
        lines.append(f"## {package.__name__}\n\n{summary}\n")
        for name in package.__all__:
            lines += entry(name, getattr(package, name))
    return "\n".join(lines)


def entry(name: str, value: Any) -> Iterator[str]:
    """Yield what the page says of one public name."""
    yield f"### `{name}`\n"
    if not inspect.isclass(value) and not inspect.isfunction(value):
        yield f"```python\n{name} = {alias(value)}\n```\n"
        return
    kind = "class" if inspect.isclass(value) else "def"
    yield f"```python\n{kind} {signature(name, value)}\n```\n"
    yield prose(value) + "\n"
    if not inspect.isclass(value):
        return
    if value is harken.HarkenError:
        module = importlib.import_module(value.__module__)
        yield f"```text\n{tree_in(inspect.getdoc(module) or '')}\n```\n"
    rows = [*members(value)]
    if rows:
        yield "| member | |\n|---|---|"
        yield "".join(f"| `{shown}` | {line} |\n" for shown, line in rows)


def alias(value: Any) -> str:
    """Write what a type alias stands for, without the modules of its names."""
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", str(value)).replace("'", '"')


def is_protocol(kind: type) -> bool:
    """Whether a class is a protocol, which is not constructed."""
    return bool(getattr(kind, "_is_protocol", False))


def signature(name: str, value: Callable[..., Any]) -> str:
    """Write a signature, on several lines where it is long."""
    if inspect.isclass(value) and (issubclass(value, Exception) or is_protocol(value)):
        return name
    found = inspect.signature(value)
    arrow = "" if inspect.isclass(value) else f" -> {found.return_annotation}"
    parts: list[str] = []
    annotations = _source_annotations(value)
    for original in found.parameters.values():
        annotation = annotations.get(original.name, original.annotation)
        parameter = original.replace(annotation=annotation)
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        parts.append(_parameter(parameter))
    line = f"{name}({', '.join(parts)}){arrow}"
    if len(line) <= WIDTH:
        return line
    return f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){arrow}"


def _source_annotations(value: Callable[..., Any]) -> dict[str, str]:
    """Return the annotations of a struct as in its source: its signature has evaluated ones."""
    if not (inspect.isclass(value) and issubclass(value, msgspec.Struct)):
        return {}
    return {
        name: annotation
        for base in reversed(value.__mro__)
        for name, annotation in inspect.get_annotations(base).items()
    }


def _parameter(parameter: inspect.Parameter) -> str:
    annotation, default = parameter.annotation, parameter.default
    if isinstance(annotation, ForwardRef):  # of a NamedTuple
        annotation = annotation.__forward_arg__
    if not isinstance(annotation, str):
        annotation = inspect.formatannotation(annotation)
    text = f"{parameter.name}: {annotation}"
    if default is inspect.Parameter.empty:
        return text
    return f"{text} = {'...' if '<' in repr(default) else repr(default)}"


def prose(value: object) -> str:
    """Return a docstring without its examples."""
    text = inspect.getdoc(value) or ""
    return text.partition("\n>>>")[0].strip()


def tree_in(text: str) -> str:
    """Return the indented drawing in a docstring."""
    lines = [line for line in text.splitlines() if line.startswith("    ") or not line]
    return textwrap.dedent("\n".join(lines)).strip()


def members(value: type) -> Iterator[tuple[str, str]]:
    """Yield the public members that a class itself says something about, with one line each."""
    fields = field_docs(value)
    mixins = [vars(base) for base in value.__bases__ if base is AgentStructure]
    for name, member in itertools.chain(vars(value).items(), *(m.items() for m in mixins)):
        if name.startswith("_") or name in fields:
            continue
        inner = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if isinstance(inner, property | functools.cached_property):
            yield name, first_line(inner)
        elif inspect.isfunction(inner):
            shown = ", ".join(shown_parameters(inner))
            await_ = "await " if inspect.iscoroutinefunction(inspect.unwrap(inner)) else ""
            yield f"{await_}{name}({shown})", first_line(inner)
    yield from fields.items()


def shown_parameters(function: Callable[..., Any]) -> list[str]:
    """Return the names of a method's parameters, `=...` where one may be left out."""
    return [
        name if parameter.default is inspect.Parameter.empty else f"{name}=..."
        for name, parameter in inspect.signature(function).parameters.items()
        if name not in ("self", "cls")
    ]


def first_line(value: object) -> str:
    """Return the first sentence of a docstring, on one line."""
    paragraph = prose(value).split("\n\n")[0]
    return " ".join(paragraph.split()).replace("|", "\\|")


def field_docs(value: type) -> dict[str, str]:
    """Return the strings that stand below a class's annotated names, as Python forgets them."""
    [node] = ast.parse(textwrap.dedent(inspect.getsource(value))).body
    assert isinstance(node, ast.ClassDef)
    found = {}
    for field, after in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            is_doc = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            if is_doc and not field.target.id.startswith("_"):
                assert isinstance(after, ast.Expr)
                found[field.target.id] = " ".join(ast.literal_eval(after.value).split())
    return found


def main() -> int:
    """Write the pages and the completion table, or check them."""
    pages = {
        REFERENCE / "cli.md": cli_page(),
        REFERENCE / "python.md": python_page(),
        TABLE_FILE: table_text(table_of(cli)),
    }
    old = [path for path, text in pages.items() if _read(path) != text]
    if "--check" in sys.argv[1:]:
        for path in old:
            print(f"{path.relative_to(ROOT)} is not up to date: run python tools/cli_docs.py")
        return int(bool(old))
    for path in old:
        path.write_text(pages[path], encoding="utf-8")
    return 0


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
