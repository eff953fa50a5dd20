"""Only the new messages of a request are parsed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from harken.formats.wire.piece_cache import PieceCache
from harken.formats.wire.registry import WIRE_PROTOCOLS
from tests.unit.formats.wire.examples import EXAMPLES

ANTHROPIC, PLAIN = WIRE_PROTOCOLS["anthropic-messages"], WIRE_PROTOCOLS["messages-v1"]
MARK = {"cache_control": {"type": "ephemeral"}}


@pytest.mark.parametrize("name", [*EXAMPLES])
def test_known_message_returns_the_cached_piece(name: str) -> None:
    path, body = EXAMPLES[name]
    data, cache = json.dumps(body).encode(), PieceCache()
    first = WIRE_PROTOCOLS[name].parse_request(path, data, cache).pieces
    second = WIRE_PROTOCOLS[name].parse_request(path, data, cache).pieces
    assert all(item is another_ for item, another_ in zip(first, second, strict=True))


def test_piece_is_recognized_without_its_moved_cache_mark() -> None:
    def asked(*indexes: int) -> Any:
        blocks = [
            {"type": "text", "text": str(index), **(MARK if index in indexes else {})}
            for index in range(4)
        ]
        messages = [{"role": "user", "content": [block]} for block in blocks]
        data = msgspec.json.encode({"model": "m", "messages": messages})
        return ANTHROPIC.parse_request("", data, cache)

    cache = PieceCache()
    first, second = asked(1), asked(2, 3)
    assert [piece.key for piece in first.pieces] == [piece.key for piece in second.pieces]
    assert all(
        piece is another_ for piece, another_ in zip(first.pieces, second.pieces, strict=True)
    )
    assert [len(first.marks), len(second.marks)] == [1, 2]


def test_least_recently_used_piece_is_evicted() -> None:
    cache = PieceCache(max_bytes=4000)
    retained, forgotten = (
        cache.intern(PLAIN.piece({"role": "user", "content": name})) for name in "ab"
    )
    for number in range(200):
        cache.intern(PLAIN.piece({"role": "user", "content": str(number)}))
        assert cache.find(retained.data) is retained
    assert cache.find(forgotten.data) is None


def test_thousand_cached_messages_cost_about_their_bytes() -> None:
    text = "def look(at):\n    return 'a door'\n" * 30
    messages = [
        {"role": "assistant" if index % 2 else "user", "content": f"{index}: {text}"}
        for index in range(1000)
    ]
    data = msgspec.json.encode({"model": "m", "messages": messages})
    cache = PieceCache()

    def take() -> list[str]:
        return [piece.key for piece in ANTHROPIC.parse_request("", data, cache).pieces]

    first = _measure_fastest(take, times=1)
    repeated, decoded = _measure_fastest(take), _measure_fastest(lambda: msgspec.json.decode(data))
    assert repeated < 8 * decoded  # 1 to 3, depending on the escaped share; 1 MB in 1.5 ms.
    assert repeated < first / 2


def _measure_fastest(run: Callable[[], Any], times: int = 20) -> float:
    """Return the CPU seconds of the fastest of several runs."""
    accepted = []
    for _ in range(times):
        before = time.thread_time()
        run()
        accepted.append(time.thread_time() - before)
    return min(accepted)
