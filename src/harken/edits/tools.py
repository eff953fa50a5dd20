"""The tools of all runtimes that edit files, and the edits of a call.

`find_edits` returns everything that a call may have written, `find_argument_change` only a change
that its arguments spell out, so that a reader can see it in place of them.

A tool is known by its name, without the prefix of an MCP server, in any case and spelling.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import msgspec

from harken.core import canonical
from harken.edits.file_edit import FileEdit
from harken.edits.patch_text import (
    find_patch_edits,
    find_unified_edits,
    has_patch,
    is_patch,
)
from harken.edits.replacement_calls import (
    PATH_MEMBERS,
    find_editor_edits,
    find_insertions,
    find_notebook_edits,
    find_replaced_members,
    find_replacements,
    find_writes,
    first_text,
)
from harken.edits.shell_command import find_shell_edits
from harken.formats.json_records import Record

Finder = Callable[[Record], list[FileEdit]]
_PATCH_MEMBERS = ("input", "patch", "patchText", "patch_text", "diff", "content")
_FOLDER_MEMBERS = ("workdir", "cwd")
_PREFIX_PATTERN = re.compile(r"^(?:mcp__.+?__|functions?\.|default_api[.:])")


class ArgumentChange(msgspec.Struct, frozen=True):
    """The change of files that the arguments of a call spell out: replacements, or a patch."""

    edits: Sequence[FileEdit] = ()
    """The replacements, and files that an empty replaced text creates. Empty for a patch."""
    patch: str | None = None
    """The text of the patch, verbatim. None for replacements."""
    members: frozenset[str] | None = None
    """The names of the arguments whose complete values are in the change. None for an argument
    that is not JSON but the patch itself."""


def _find_patches(arguments: Record) -> list[FileEdit]:
    """Return the edits of a call with a patch as its argument."""
    name = _find_patch_name(arguments)
    text = "" if name is None else arguments[name]
    folder = first_text(arguments, _FOLDER_MEMBERS) or ""
    return find_patch_edits(text, folder) if has_patch(text) else find_unified_edits(text, folder)


def _find_patch_name(arguments: Record) -> str | None:
    """Return the name of the argument with the patch: a text with an envelope, or any text."""
    texts = {
        name: arguments[name] for name in _PATCH_MEMBERS if isinstance(arguments.get(name), str)
    }
    return next((name for name, text in texts.items() if has_patch(text)), next(iter(texts), None))


_NAMES_OF_FINDERS: Mapping[Finder, str] = {
    find_writes: "write writefile createfile create savefile writetofile overwritefile",
    find_replacements: """
        edit multiedit replace editfile replaceinfile replacestringinfile searchreplace
        multireplacestringinfile stringreplace strreplace
        """,
    find_editor_edits: "strreplaceeditor strreplacebasededittool texteditor fswrite",
    find_insertions: "insert insertintofile insertlines",
    find_notebook_edits: "notebookedit editnotebook",
    _find_patches: "applypatch patch applydiff",
    find_shell_edits: """
        bash shell execcommand shellcommand runshellcommand runcommand localshell runinterminal
        executecommand containerexec terminal runterminalcmd exec sh localshellcall
        """,
}
"""Tools by their names in lower case, without separators."""
_FINDERS: Mapping[str, Finder] = {
    name: finder for finder, names in _NAMES_OF_FINDERS.items() for name in names.split()
}
_FILE_FINDERS = frozenset(
    {find_writes, find_replacements, find_editor_edits, find_insertions, find_notebook_edits}
)
"""The finders of tools with the path of one file among their arguments."""
_VIEWERS = frozenset({"read", "view", "readfile", "readtextfile", "viewfile", "cat"})


def find_file_argument(name: str, arguments: Record) -> str | None:
    """Return the path in the arguments of a tool that reads or edits one file, or None."""
    plain_name = _plain_name(name)
    if plain_name not in _VIEWERS and _FINDERS.get(plain_name) not in _FILE_FINDERS:
        return None
    return first_text(arguments, (*PATH_MEMBERS, "notebook_path"))


def find_edits(name: str, arguments: str) -> list[FileEdit]:
    """Return the edits of a call of a tool: one for each file. Empty for a tool without edits."""
    finder = _FINDERS.get(_plain_name(name))
    if finder is None:
        return []
    record = _parse(arguments)
    if record is None:  # The argument of a custom tool is free text.
        return find_patch_edits(arguments) if has_patch(arguments) else []
    return [edit for edit in finder(record) if edit.path]


def find_argument_change(name: str, arguments: str) -> ArgumentChange | None:
    """Return the change that the arguments of a call spell out.

    Return None for other calls: a shell command does more than its edits, and a new content has
    no earlier one that it could be compared with.
    """
    finder = _FINDERS.get(_plain_name(name))
    if finder not in (_find_patches, find_replacements, find_editor_edits):
        return None
    record = _parse(arguments)
    if record is None:
        return ArgumentChange(patch=arguments) if is_patch(arguments) else None
    if finder is _find_patches:
        return _read_patch(record)
    if finder is find_editor_edits and record.get("command") != "str_replace":
        return None
    edits = find_replacements(record)
    return (
        ArgumentChange(edits, members=frozenset(find_replaced_members(record))) if edits else None
    )


def _read_patch(arguments: Record) -> ArgumentChange | None:
    name = _find_patch_name(arguments)
    if name is None or not (has_patch(arguments[name]) or find_unified_edits(arguments[name])):
        return None
    return ArgumentChange(patch=arguments[name], members=frozenset({name}))


def is_edit_tool(name: str) -> bool:
    """Whether calls of a tool may be edits."""
    return _plain_name(name) in _FINDERS


def is_shell_tool(name: str) -> bool:
    """Whether calls of a tool are shell commands, which may fail after they wrote a file."""
    return _FINDERS.get(_plain_name(name)) is find_shell_edits


def is_view_tool(name: str) -> bool:
    """Whether calls of a tool show the content of a file."""
    return _plain_name(name) in _VIEWERS


@lru_cache(maxsize=512)
def _plain_name(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", _PREFIX_PATTERN.sub("", name).casefold())


def _parse(arguments: str) -> Record | None:
    try:
        value = canonical.from_json(arguments.encode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
