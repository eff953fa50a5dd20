"""Scores and labels of sessions, as evaluations and annotators report them.

A score rates a session. A label names what an annotator found, and the agent and the message where
it was found, if the file has them. The texts of both are limited, since the bytes of the file have
them in full.

Source: docs/design/021-research-data.md.
"""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec

from harken.formats.json_records import to_safe_json
from harken.formats.tool_calls import replace_surrogates

MAX_TEXT_CHARS = 10_000
"""The maximum length of each text of a score or label."""
MAX_ITEMS = 1_000
"""The maximum number of scores, and of labels, of a session."""


class Score(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The score of a session by one scorer."""

    scorer: str
    value: str
    """JSON: a number, a text, an object of both."""
    number: float | None = None
    """The value as a number. None if it has none."""
    sample: str = ""
    """The id of the sample, task or question. Empty if the file names none."""
    answer: str = ""
    explanation: str = ""
    metadata: str = "{}"
    """JSON: an object."""


class Label(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A label of a session, or of an agent and a message of it."""

    name: str
    """What it reports, such as `mistake`."""
    value: str = ""
    agent: str = ""
    """The name of the agent. Empty if the label names none."""
    explanation: str = ""
    step: str = ""
    """The step with the labeled message, as its reader names it, until the file is imported. Empty
    if the label names no message."""
    ctx: str = ""
    """The commit of that step, once the file is imported."""
    position: int = 0
    """The position of the message in the entries of its step."""
    metadata: str = "{}"


def build_score(scorer: str, value: Any, number: float | None = None, **texts: Any) -> Score:
    """Return a score, with its texts limited and its values as JSON.

    number: the number of a value that is none itself.
    """
    if number is None and isinstance(value, bool | int | float) and abs(value) < 1e300:
        number = float(value)
    metadata = texts.pop("metadata", None) or {}
    return Score(
        scorer=limit_text(scorer),
        value=encode_limited(value),
        number=number if number is not None and math.isfinite(number) else None,
        metadata=encode_limited(metadata, "{}"),
        **{name: limit_text(text) for name, text in texts.items()},
    )


def limit_text(value: object) -> str:
    """Return the beginning of a text. Another value becomes JSON, and None an empty text."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else encode_limited(value)
    return replace_surrogates(text[:MAX_TEXT_CHARS])


def encode_limited(value: Any, instead: str = '"..."') -> str:
    """Return a value as JSON, or `instead` if it is too long."""
    text = replace_surrogates(json.dumps(to_safe_json(value), ensure_ascii=False))
    return text if len(text) <= MAX_TEXT_CHARS else instead
