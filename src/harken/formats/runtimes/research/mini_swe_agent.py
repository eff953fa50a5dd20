"""Trajectories of mini-swe-agent (`.traj.json`): a list of messages, or an object with it.

Source: docs/formats/mini-swe-agent.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from harken.errors import FormatError
from harken.formats.base import ConversationEntry
from harken.formats.json_records import Record, get_object, get_text
from harken.formats.runtimes.base import ImportStep, ReadReport, RuntimeFormat, SessionFile
from harken.formats.runtimes.json_lines import normalize_time, read_json
from harken.formats.runtimes.research.documents import (
    digest_id,
    find_last_answer,
    objects_or_fail,
    parse_message,
    sum_usage,
)
from harken.formats.runtimes.steps import INSTRUCTIONS, PROMPT, SYSTEM, StepBuilder

NAME = "mini-swe-agent-v1"
_BEGINNING_PATTERN = re.compile(
    rb'\s*(?:\[\s*\{\s*"(?:role|content)"|\{\s*"(?:info|messages|tr|in))'
)
_KINDS = {"system": INSTRUCTIONS, "assistant": "response", "tool": "tool_result"}


def is_session_file(path: str, beginning: bytes) -> bool:
    """Whether a file is a trajectory, by its name and its beginning."""
    return path.endswith(".traj.json") and bool(_BEGINNING_PATTERN.match(beginning))


def iter_steps(source: SessionFile, reading: ReadReport) -> Iterator[ImportStep]:
    """Yield the steps of a trajectory. Raises FormatError."""
    document = read_json(source, NAME)
    if not isinstance(document, dict | list):
        raise FormatError(NAME, "it is no list of messages and no object with them")
    info = get_object(document, "info") if isinstance(document, dict) else {}
    listed = document.get("messages") if isinstance(document, dict) else document
    messages = objects_or_fail(listed, NAME, "it has no messages")
    reading.session_id = digest_id(messages)
    if isinstance(document, dict) and get_text(document, "instance_id"):
        reading.session_id = f"{get_text(document, 'instance_id')}-{reading.session_id}"
    reading.outcome, reading.version = get_text(info, "exit_status"), get_text(info, "mini_version")
    config = get_object(get_object(info, "config"), "model")
    usage = sum_usage(get_object(info, "model_stats"), "", "", "instance_cost")
    if any(_read_facts(message)[0].get("usage") for message in messages):
        usage = {}  # The answers have their own.
    reading.lines = len(listed) if isinstance(listed, list) else 0
    for _ in range(reading.lines - len(messages)):
        reading.count_uninterpreted("not a message")
    builder, last, is_asked = StepBuilder(reading), find_last_answer(messages), False
    for position, message in enumerate(messages):
        parsed = parse_message(message)
        if parsed is None:
            reading.count_uninterpreted(f"message/{get_text(message, 'role')}")
            continue
        reading.used_lines += 1
        facts, time = _read_facts(message)
        kind = _KINDS.get(parsed.role, SYSTEM if is_asked else PROMPT)
        is_asked |= kind == PROMPT
        if parsed.role == "assistant":
            facts = {"model": get_text(config, "model_name"), **facts}
            if position == last and usage:
                facts |= {"usage": usage, "usage_of": "session"}
        facts = {name: value for name, value in facts.items() if value}
        entry = ConversationEntry(parsed, time, {"kind": kind, **facts})
        yield from builder.add(str(position), builder.head, [entry])
    yield from builder.end()


def _read_facts(message: Record) -> tuple[dict[str, Any], str | None]:
    """Return the data of the response to an answer, and the time of a message."""
    extra = get_object(message, "extra")
    seconds = extra.get("timestamp")
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    time = normalize_time(seconds * 1000 if is_number else seconds)  # type: ignore[operator]
    response = get_object(extra, "response")
    usage = dict(get_object(response, "usage"))
    cost = extra.get("cost")
    if isinstance(cost, int | float) and not isinstance(cost, bool) and usage:
        usage["cost_usd"] = cost
    facts = {"id": get_text(response, "id"), "model": get_text(response, "model"), "usage": usage}
    return {name: value for name, value in facts.items() if value}, time


NATIVE = RuntimeFormat(
    name=NAME,
    runtime="mini-swe-agent",
    is_session_file=is_session_file,
    steps=iter_steps,
    copies_histories=False,
)
