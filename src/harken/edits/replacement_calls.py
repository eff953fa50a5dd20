"""Edits of the tools that replace a text of a file, or write all of it.

The runtimes call these tools and their arguments by different names; the shapes are few. Source:
the documents of the formats, and the tools of Claude Code, Gemini CLI, Pi, OpenCode, Copilot,
OpenHands, of MCP's file server and of Harken itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from harken.edits.file_edit import (
    Addition,
    Change,
    Content,
    FileEdit,
    Fragment,
    Replacement,
    join_path,
    split_lines,
)
from harken.formats.json_records import Record, as_objects, get_objects

PATH_MEMBERS = ("file_path", "path", "filePath", "absolute_path", "filename", "target_file")
_OLD_MEMBERS = ("old_string", "oldText", "old_str", "oldString", "old_text", "search")
_NEW_MEMBERS = ("new_string", "newText", "new_str", "newString", "new_text", "replace")
_CONTENT_MEMBERS = ("content", "file_text", "text", "contents", "fileContent")
_LIST_MEMBERS = ("edits", "replacements")
_ALL_MEMBERS = ("replace_all", "replaceAll", "allow_multiple", "allowMultiple")


def first_text(record: Record, names: tuple[str, ...]) -> str | None:
    """Return the first of these members that is a string, or None."""
    name = first_text_name(record, names)
    return None if name is None else record[name]


def first_text_name(record: Record, names: tuple[str, ...]) -> str | None:
    """Return the name of the first of these members that is a string, or None."""
    return next((name for name in names if isinstance(record.get(name), str)), None)


def find_writes(arguments: Record) -> list[FileEdit]:
    """Return the edit of a call that writes a complete file."""
    path, text = first_text(arguments, PATH_MEMBERS), first_text(arguments, _CONTENT_MEMBERS)
    if not path or text is None:
        return []
    is_append = arguments.get("append") is True or arguments.get("mode") == "append"
    change: Change = Addition(text) if is_append else Content(text)
    return [FileEdit(join_path("", path), (change,))]


def find_replacements(arguments: Record) -> list[FileEdit]:
    """Return the edits of a call with one replacement, or with a list of them.

    Each item of a list may name its own file.
    """
    path = first_text(arguments, PATH_MEMBERS) or ""
    list_name = _find_list_name(arguments)
    items = [] if list_name is None else get_objects(arguments, list_name)
    changes_by_path: dict[str, list[Change]] = {}
    for item in [arguments, *items]:
        item_path = first_text(item, PATH_MEMBERS) or path
        for change in _iter_changes(item):
            changes_by_path.setdefault(item_path, []).append(change)
    return [
        FileEdit(join_path("", item_path), tuple(changes), path_argument=item_path)
        for item_path, changes in changes_by_path.items()
        if item_path
    ]


def find_replaced_members(arguments: Record) -> set[str]:
    """Return the names of the arguments that `find_replacements` represents completely.

    A list is one of them if each item consists of a replaced and a new text, and maybe a path.
    """
    path = first_text(arguments, PATH_MEMBERS) or ""
    list_name = _find_list_name(arguments)
    items = [] if list_name is None else arguments[list_name]
    members = (
        {list_name} if list_name and all(_is_complete(item, path) for item in items) else set()
    )
    if path and any(_iter_changes(arguments)):
        members |= _list_text_names(arguments)
    elif path and any(
        any(_iter_changes(item)) for item in as_objects(items) if not first_text(item, PATH_MEMBERS)
    ):
        members |= _list_text_names(arguments) & {*PATH_MEMBERS}
    return members


def _find_list_name(arguments: Record) -> str | None:
    return next((name for name in _LIST_MEMBERS if get_objects(arguments, name)), None)


def _is_complete(item: object, path: str) -> bool:
    """Whether an item of a list consists of a replaced and a new text, and maybe a path."""
    if not isinstance(item, dict) or not (path or first_text(item, PATH_MEMBERS)):
        return False
    return any(_iter_changes(item)) and item.keys() == _list_text_names(item)


def _list_text_names(item: Record) -> set[str]:
    """Return the names of the path, the replaced and the new text."""
    names = (first_text_name(item, names) for names in (PATH_MEMBERS, _OLD_MEMBERS, _NEW_MEMBERS))
    return {name for name in names if name is not None}


def _iter_changes(item: Record) -> Iterator[Change]:
    old, new = first_text(item, _OLD_MEMBERS), first_text(item, _NEW_MEMBERS)
    if new is None:
        return
    if old:
        replaces_all = any(item.get(name) is True for name in _ALL_MEMBERS)
        yield Replacement(old, new, replaces_all)
    elif old is not None:  # An empty old text creates a file.
        yield Content(new)


def find_editor_edits(arguments: Record) -> list[FileEdit]:
    """Return the edit of a text editor tool with commands: `create`, `str_replace`, `insert`."""
    match arguments.get("command"):
        case "create":
            return find_writes(arguments)
        case "str_replace":
            return find_replacements({"old_str": "", **arguments})
        case "insert" | "append":
            path = first_text(arguments, PATH_MEMBERS)
            text = first_text(arguments, ("insert_text", *_NEW_MEMBERS, *_CONTENT_MEMBERS))
            is_end = arguments.get("command") == "append"
            if path and text:
                change: Change = Addition(text) if is_end else Fragment(text)
                return [FileEdit(join_path("", path), (change,))]
    return []


def find_insertions(arguments: Record) -> list[FileEdit]:
    """Return the edit of a call that inserts lines at a line number."""
    path = first_text(arguments, PATH_MEMBERS)
    text = first_text(arguments, ("insert_text", *_CONTENT_MEMBERS, *_NEW_MEMBERS))
    return [FileEdit(join_path("", path), (Fragment(text),))] if path and text else []


def find_notebook_edits(arguments: Record) -> list[FileEdit]:
    """Return the edit of a call that changes a cell of a notebook.

    In the file, the source of a cell is a list of JSON strings, one for each line.
    """
    path, source = arguments.get("notebook_path"), arguments.get("new_source")
    if not isinstance(path, str) or not isinstance(source, str) or not source:
        return []
    lines = split_lines(source)
    encoded = [json.dumps(f"{line}\n", ensure_ascii=False) + "," for line in lines[:-1]]
    encoded.append(json.dumps(lines[-1], ensure_ascii=False))
    return [FileEdit(join_path("", path), (Fragment("\n".join(encoded)),))]
