"""`openai-run-state-v1`: the state of a paused run, as OpenAI's SDK serializes it.

The bytes are one JSON object. Its messages are those of the session already, so it has none.

Source: docs/formats/openai-items.md, "The state of a run".
"""

from __future__ import annotations

import json

from harken.errors import FormatError
from harken.formats.base import ConversationEntry, Format

NAME = "openai-run-state-v1"


def _read(data: bytes) -> list[ConversationEntry]:
    try:
        value = json.loads(data.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise FormatError(NAME, f"invalid JSON ({error})") from None
    if not isinstance(value, dict):
        raise FormatError(NAME, "it is not a JSON object")
    return []


FORMAT = Format(name=NAME, media_type="application/json", reads=_read)
