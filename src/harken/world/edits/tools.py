"""The tools of all runtimes that edit files, and the edits of a call.

A tool is known by its name, without the prefix of an MCP server, in any case and spelling.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

from harken.core import canonical
from harken.formats.json_records import Record
from harken.world.edits.file_edit import FileEdit
from harken.world.edits.patch_text import find_patch_edits, find_unified_edits, has_patch
from harken.world.edits.replacement_calls import (
    find_editor_edits,
    find_insertions,
    find_notebook_edits,
    find_replacements,
    find_writes,
    first_text,
)
from harken.world.edits.shell_command import find_shell_edits

Finder = Callable[[Record], list[FileEdit]]
_PATCH_MEMBERS = ("input", "patch", "patchText", "patch_text", "diff", "content")
_FOLDER_MEMBERS = ("workdir", "cwd")
_PREFIX_PATTERN = re.compile(r"^(?:mcp__.+?__|functions?\.|default_api[.:])")


def _find_patches(arguments: Record) -> list[FileEdit]:
    """Return the edits of a call with a patch as its argument."""
    text = first_text(arguments, _PATCH_MEMBERS) or ""
    folder = first_text(arguments, _FOLDER_MEMBERS) or ""
    return find_patch_edits(text, folder) if has_patch(text) else find_unified_edits(text, folder)


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
_VIEWERS = frozenset({"read", "view", "readfile", "readtextfile", "viewfile", "cat"})


def find_edits(name: str, arguments: str) -> list[FileEdit]:
    """Return the edits of a call of a tool: one for each file. Empty for a tool without edits."""
    finder = _FINDERS.get(_plain_name(name))
    if finder is None:
        return []
    record = _parse(arguments)
    if record is None:  # The argument of a custom tool is free text.
        return find_patch_edits(arguments) if has_patch(arguments) else []
    return [edit for edit in finder(record) if edit.path]


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
