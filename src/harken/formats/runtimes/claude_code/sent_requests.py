"""The requests that Claude Code records in its transcripts, from 2.1.329 on.

`api-request-shape` has the system prompt and the tools, `api-request` the parameters and the hashes
of the messages, and an answer names its request in `requestRef`.

Source: docs/formats/claude-code.md, "Requests".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from harken.core import canonical
from harken.formats.base import ConversationEntry
from harken.formats.json_records import Record, get_object, get_objects, get_text
from harken.formats.runtimes.claude_code.resume_request import (
    REQUEST,
    build_partial_request,
    hash_message,
)
from harken.formats.runtimes.sent_requests import SentRequest, SentRequests

SHAPE = "api-request-shape"
_MARKS = (b'"api-request', b'"requestRef"')
_NOT_PARAMETERS = frozenset({"betas", "messages", "model", "system", "tools"})
_TOOL_MEMBERS = frozenset({"name", "description", "input_schema", "cache_control"})


def read_sent_requests(chunks: Iterable[bytes]) -> SentRequests:
    """Read the requests of a transcript."""
    reader = _RequestReader()
    for record in _iter_records(chunks):
        reader.add(record)
    return SentRequests(by_response=reader.by_response, hash_messages=_hash_messages)


class _RequestReader(msgspec.Struct):
    """The records of requests, in the order of the file."""

    by_response: dict[str, SentRequest] = msgspec.field(default_factory=dict)
    _shapes: dict[str, Record] = msgspec.field(default_factory=dict)
    _requests: dict[str, SentRequest] = msgspec.field(default_factory=dict)

    def add(self, record: Record) -> None:
        """Add a record."""
        kind = record.get("type")
        if kind == SHAPE:
            self._shapes[get_text(record, "shapeHash")] = get_object(record, "shape")
        elif kind == REQUEST:
            self._add_request(record)
        elif kind == "assistant" and get_text(record, "requestRef") in self._requests:
            response_id = get_text(get_object(record, "message"), "id")
            self.by_response[response_id] = self._requests[get_text(record, "requestRef")]

    def _add_request(self, record: Record) -> None:
        shape = self._shapes.get(get_text(record, "shapeHash"))
        base = self._requests.get(get_text(record, "base"))
        keep, tail = record.get("keep"), record.get("tail")
        if shape is None or not isinstance(tail, list) or not isinstance(keep, int):
            return
        if keep and (base is None or keep > len(base.message_hashes)):
            return
        hashes = [*(base.message_hashes[:keep] if base is not None else ()), *map(str, tail)]
        request = _build_request(shape, get_object(record, "params"), hashes)
        self._requests[get_text(record, "id")] = request


def _build_request(shape: Record, params: Record, hashes: Sequence[str]) -> SentRequest:
    members = {name: value for name, value in params.items() if name not in _NOT_PARAMETERS}
    tools = [_convert_tool(tool) for tool in get_objects(shape, "tools")]
    parameters = {**members, "system": shape.get("system") or []}
    return SentRequest(parameters=parameters, tools=tools, message_hashes=hashes)


def _convert_tool(tool: Record) -> Record:
    """Return a tool in Harken's form. Members that only Anthropic has are kept."""
    schema = {
        "name": get_text(tool, "name"),
        "description": get_text(tool, "description"),
        "parameters": get_object(tool, "input_schema"),
    }
    other_members = {name: value for name, value in tool.items() if name not in _TOOL_MEMBERS}
    return {**schema, **other_members}


def _iter_records(chunks: Iterable[bytes]) -> Iterator[Record]:
    """Yield the records of requests, and the answers that name one."""
    pending = b""
    for chunk in chunks:
        *lines, pending = (pending + chunk).split(b"\n")
        yield from _parse_lines(lines)
    yield from _parse_lines([pending])


def _parse_lines(lines: Iterable[bytes]) -> Iterator[Record]:
    for line in lines:
        if any(mark in line for mark in _MARKS):
            try:
                record = canonical.from_json(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(record, dict):
                yield record


def _hash_messages(entries: Sequence[ConversationEntry]) -> Iterator[str]:
    return map(hash_message, build_partial_request(entries))
