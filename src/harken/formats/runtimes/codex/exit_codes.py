"""The exit code of a command, from the text that Codex writes before its output.

The output itself is ignored, because it may contain any text.

Source: docs/formats/codex.md, "Exit codes".
"""

from __future__ import annotations

import re

from harken.core import canonical
from harken.formats.json_records import get_object

_HEAD_CHARS = 400
"""The number of characters in which Codex's text before an output ends."""
_EXIT_CODE_PATTERN = re.compile(
    r"^(?:Process exited with code|Exit code:) (-?[0-9]{1,10})$", re.MULTILINE
)
_OUTPUT_PATTERN = re.compile(r"^Output:", re.MULTILINE)
_OLD_PREFIX = '{"output":'


def parse_exit_code(result: str) -> int | None:
    r"""Return the exit code in the result of a call. Return None if there is none.

    >>> parse_exit_code("Wall time: 0.1 seconds\nProcess exited with code 2\nOutput:\nno")
    2
    >>> parse_exit_code("Output:\nExit code: 2\n")
    """
    if result.startswith(_OLD_PREFIX):
        return _old_exit_code(result)
    head = result[:_HEAD_CHARS]
    end = _OUTPUT_PATTERN.search(head)
    match = _EXIT_CODE_PATTERN.search(head[: end.start()]) if end else None
    return None if match is None else int(match[1])


def _old_exit_code(result: str) -> int | None:
    """Return the exit code in a result in the JSON form of versions up to 2025."""
    try:
        value = canonical.from_json(result.encode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return None
    code = get_object(value, "metadata").get("exit_code") if isinstance(value, dict) else None
    return code if type(code) is int and abs(code) < 1 << 32 else None
