"""How a command ended that Codex ran: what stands in front of the output, in words.

One idea: an output may say anything, so only what Codex itself writes before it counts.

Source: docs/formats/codex.md, "What a command ended with".
"""

from __future__ import annotations

import re

from harken.core import codec
from harken.formats.records import inner

_HEAD = 400
"""In so many characters stands what Codex writes before an output."""
_TOLD = re.compile(r"^(?:Process exited with code|Exit code:) (-?[0-9]{1,10})$", re.MULTILINE)
_OUTPUT = re.compile(r"^Output:", re.MULTILINE)
_OLDER = '{"output":'


def exit_code(result: str) -> int | None:
    r"""Return the exit code in the result of a call; None: it does not say one.

    >>> exit_code("Wall time: 0.1 seconds\nProcess exited with code 2\nOutput:\nno")
    2
    >>> exit_code("Output:\nExit code: 2\n")
    """
    if result.startswith(_OLDER):
        return _of_older(result)
    head = result[:_HEAD]
    end = _OUTPUT.search(head)
    told = _TOLD.search(head[: end.start()]) if end else None
    return None if told is None else int(told[1])


def _of_older(result: str) -> int | None:
    """Return what is said in a result that is JSON, as it was up to 2025."""
    try:
        value = codec.decode(result.encode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return None
    code = inner(value, "metadata").get("exit_code") if isinstance(value, dict) else None
    return code if type(code) is int and abs(code) < 1 << 32 else None
