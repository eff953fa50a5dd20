"""Recording: what a recorded conversation costs, in bytes, in time, and to go back to.

A client sends its whole conversation with each request, a few new messages at the end. Beside the
log stands the layout of the specification's example, which lists every message at every request.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.measure import RUNS, Row, cpu_s, spread, wall_s
from harken.core import canonical
from harken.core.clock import format_rfc3339
from harken.recording.exchange import CapturedRequest, CapturedResponse, ClientHints
from harken.recording.rebuild import RequestRebuilder
from harken.recording.recorder import Recorder
from harken.recording.session_pool import RecorderOptions
from harken.session.log.reader import iter_events
from harken.store.sqlite.store import SqliteStore

TURNS = (200, 1_000, 5_000)
REBUILT = 1_000
"""The request that is rebuilt."""
EACH = 20
"""One in so many bodies is decoded for comparison."""
START_US = 1_800_000_000_000_000
SYSTEM = "You are an agent that works on a repository. " * 40
SAID = "I look at what the function does before I change it, then I run the tests. "
LISTED = (
    '{"timestamp":"2024-01-15T10:30:01.000000Z","messageId":"%s","positionInContext":%d,'
    '"eventType":"CONTEXT_REPLAYED"}\n'
)
"""A line of the specification's example."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request, as it is sent, and its answer."""

    body: bytes
    answer: bytes


def conversation(turns: int) -> Iterator[Exchange]:
    """Yield the requests of a conversation: in each turn a question and an answer, or a call."""
    head = json.dumps({"model": "claude-sonnet-5", "max_tokens": 4096, "system": SYSTEM})
    written = bytearray(f'{head[:-1]}, "messages": ['.encode())
    for number in range(turns):
        if number % 3 == 2:
            block = {"type": "tool_result", "tool_use_id": f"call_{number - 1}"}
            content: Any = [{**block, "content": f"line {number}: " + SAID * 4}]
        else:
            content = f"Question {number}: and what about this one? " + SAID
        written += json.dumps({"role": "user", "content": content}).encode()
        said: list[Any] = [{"type": "text", "text": f"Answer {number}. " + SAID * 2}]
        if number % 3 == 1:
            path = {"path": f"src/module_{number}.py"}
            call = {"type": "tool_use", "id": f"call_{number}", "name": "read", "input": path}
            said.append(call)
        body = bytes(written) + b"]}"
        spoken = json.dumps({"role": "assistant", "content": said})
        written += f", {spoken}, ".encode()
        usage = {"input_tokens": 100 * number, "output_tokens": 50}
        answer: dict[str, Any] = {"type": "message", "role": "assistant"}
        answer |= {"model": "claude-sonnet-5", "id": f"msg_{number}"}
        answer |= {"content": said, "usage": usage}
        answer["stop_reason"] = "tool_use" if number % 3 == 1 else "end_turn"
        yield Exchange(body, json.dumps(answer).encode())


def captured(
    exchange: Exchange, number: int, session: str
) -> tuple[CapturedRequest, CapturedResponse]:
    """Return an exchange of a session as the proxy captures it."""
    at_us = START_US + number * 2_000_000
    request = CapturedRequest(
        id=f"call-{number}",
        protocol="anthropic-messages",
        path="/v1/messages",
        body=exchange.body,
        time=format_rfc3339(at_us + 1_000_000),
        hints=ClientHints(client="bench", session=session),
    )
    response = CapturedResponse(
        id=request.id,
        time=format_rfc3339(at_us + 2_000_000),
        status=200,
        content_type="application/json",
        body=exchange.answer,
    )
    return request, response


def recorded(folder: Path, turns: int) -> Path:
    """Record a conversation into a folder; return its log."""
    with (
        closing(SqliteStore(folder / f"store-{turns}.db")) as store,
        Recorder(
            folder / str(turns), store, options=RecorderOptions(durability="none")
        ) as recorder,
    ):
        for number, one in enumerate(conversation(turns)):
            request, response = captured(one, number, f"turns{turns}")
            recorder.begin(request)
            recorder.end(response)
    return _log(folder, turns)


def _log(folder: Path, turns: int) -> Path:
    (log,) = (folder / str(turns)).glob("*.jsonl")
    return log


def _decode_some(turns: int) -> None:
    for number, one in enumerate(conversation(turns)):
        if number % EACH == 0:
            canonical.from_json(one.body)


def listed_bytes(turns: int) -> int:
    """Return how large the thread of the specification's example would be."""
    id_ = "a" * 64
    return sum(len(LISTED % (id_, at)) for n in range(turns) for at in range(2 * n + 2))


def rows() -> list[Row]:
    """Measure conversations of several lengths."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found: list[Row] = []
        for turns in TURNS:
            decode = EACH * cpu_s(partial(_decode_some, turns))
            cpu = cpu_s(partial(recorded, folder, turns))
            size = _log(folder, turns).stat().st_size
            store = (folder / f"store-{turns}.db").stat().st_size
            note = f"the example's layout: {listed_bytes(turns) / turns:,.0f}"
            note += f"; the store: {store / turns:,.0f}"
            found.append(
                Row(
                    f"recorded log, {turns:,} turns: bytes a turn",
                    f"{size / turns:,.0f}",
                    "flat",
                    note,
                )
            )
            found.append(
                Row(
                    f"recording {turns:,} turns: ms CPU a turn",
                    f"{1e3 * cpu / turns:.2f}",
                    "",
                    f"decoding the bodies into untyped values: {1e3 * decode / turns:.2f}",
                )
            )
        return [*found, *_rebuilt(folder)]


def _rebuilt(folder: Path) -> list[Row]:
    log = _log(folder, TURNS[-1])
    read = [*iter_events(log)]
    rebuilder = RequestRebuilder(read)
    request = list(rebuilder.requests)[REBUILT - 1]
    sent = next(one.body for n, one in enumerate(conversation(REBUILT), 1) if n == REBUILT)
    if canonical.to_canonical_bytes(rebuilder.body(request)) != canonical.to_canonical_bytes(
        canonical.from_json(sent)
    ):
        raise RuntimeError(f"{request} does not come back as it was sent")
    context = [wall_s(lambda: rebuilder.messages(request)) for _ in range(RUNS)]
    body = [wall_s(lambda: rebuilder.body(request)) for _ in range(RUNS)]
    return [
        Row(f"context of request {REBUILT:,}, rebuilt: ms", spread(context, 1e3, 2), "< 10"),
        Row(f"body of request {REBUILT:,}, rebuilt: ms", spread(body, 1e3, 2), "< 10"),
    ]
