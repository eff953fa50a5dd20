"""Tool calls on one line, and the change of a file that a call describes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import unified_diff
from typing import Any

from harken.formats.tool_calls import parse_json_object
from harken.views.message_text import format_count

_MAX_SUMMARY_CHARS = 300
_MAX_COMPARED_LINES = 2000
"""The maximum number of compared lines: the cost is quadratic."""
_OTHER_NAMES = {"user_prompt": "prompt", "system_prompt": "instructions"}
_PATCH = "*** Begin Patch"


def summarize_call(name: str, arguments: str) -> str:
    """Format a call on one line, with its subject instead of all arguments.

    >>> summarize_call("bash", '{"command": "ls"}')
    'bash(ls)'
    >>> summarize_call("task", '{"name": "Ann", "prompt": "Tea?"}')
    'task(Ann: Tea?)'
    """
    by_name = parse_json_object(arguments)
    if by_name:
        subject = describe_subject(name, by_name)
    else:
        bare = arguments[: 4 * _MAX_SUMMARY_CHARS].strip()
        subject = "" if bare == "{}" else bare
    return f"{_shorten(name)}({_shorten(subject)})"


def describe_subject(name: str, arguments: Mapping[str, Any], *, subject: str | None = None) -> str:
    """Return the subject of a call: its argument `subject`, or all arguments in short."""
    by_name = {_OTHER_NAMES.get(key, key): value for key, value in arguments.items()}
    if name == "task":
        return _join_parts(str(by_name.get("name", "?")), by_name.get("prompt"))
    if name == "discuss":
        return _join_parts(_join_names(by_name.get("speakers")), by_name.get("prompt"))
    if subject is not None and subject in arguments:
        return _format_value(arguments[subject])
    if len(arguments) == 1:
        return _format_value(next(iter(arguments.values())))
    return ", ".join(
        f"{key}={_shorten(_format_value(value), 60)}" for key, value in arguments.items()
    )


def diff_of_call(arguments: str) -> str | None:
    r"""Return a unified diff of the change that a call makes to a file, from its arguments alone.

    Return None if the arguments describe no change.

    >>> print(diff_of_call('{"path": "a", "old_string": "1\\n2", "new_string": "1\\n3"}'))
    --- a
    +++ a
    @@ -1,2 +1,2 @@
     1
    -2
    +3
    """
    by_name = parse_json_object(arguments)
    if not by_name:
        return arguments if arguments.lstrip().startswith(_PATCH) else None
    for value in by_name.values():
        if isinstance(value, str) and value.lstrip().startswith(_PATCH):
            return value
    path = next((by_name[key] for key in ("file_path", "path", "filename") if key in by_name), "")
    hunks = [
        line for before, after in _iter_replacements(by_name) for line in _diff_texts(before, after)
    ]
    return "\n".join([f"--- {path}", f"+++ {path}", *hunks]) if hunks else None


def _iter_replacements(arguments: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the replaced and the new text of each edit in the arguments of a call."""
    edits = arguments.get("edits")
    for edit in [arguments, *(edits if isinstance(edits, list) else [])]:
        if not isinstance(edit, Mapping):
            continue
        for old_name, new_name in (("old_string", "new_string"), ("oldText", "newText")):
            old, new = edit.get(old_name), edit.get(new_name)
            if isinstance(old, str) and isinstance(new, str):
                yield old, new


def _diff_texts(before: str, after: str) -> list[str]:
    old, new = before.splitlines(), after.splitlines()
    if len(old) + len(new) > _MAX_COMPARED_LINES:
        return [f"@@ {len(old)} lines are replaced by {len(new)} @@"]
    return [*unified_diff(old, new, n=3, lineterm="")][2:]


def _join_parts(agent_name: str, content: Any) -> str:
    return ": ".join(filter(None, (agent_name, _format_value(content) if content else "")))


def _join_names(names: Any) -> str:
    return ", ".join(map(str, names)) if isinstance(names, list) else _format_value(names or "")


def _format_value(value: Any) -> str:
    """Return a short form of a value: a list of other values than texts by its length."""
    if isinstance(value, list):
        is_text = all(isinstance(item, str) for item in value)
        return _join_names(value) if is_text else _count_items(value)
    return value if isinstance(value, str) else repr(value)


def _count_items(values: Sequence[Any]) -> str:
    return format_count(len(values), "item")


def _shorten(text: str, limit: int = _MAX_SUMMARY_CHARS) -> str:
    """Return the beginning of a text on one line."""
    words = " ".join(text[: 4 * limit].split())
    return words if len(words) <= limit and len(text) <= 4 * limit else words[: limit - 1] + "…"
