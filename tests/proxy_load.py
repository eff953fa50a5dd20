"""Measure the time to the first byte of many concurrent streams, with and without the proxy."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from statistics import quantiles
from urllib.parse import urlsplit

PATH = "/v1/messages"
SPREAD_S = 0.2
RESPONSE_PLAN = {"first_ms": 50, "each_ms": 10, "pieces": 8}


@dataclass
class LoadResult:
    """The measured milliseconds to the first byte of each response body, in order."""

    direct: list[float] = field(default_factory=list)
    proxied: list[float] = field(default_factory=list)
    bodies: set[str] = field(default_factory=set)
    """The hashes of the bodies."""
    seconds: float = 0

    def added_ms(self, percent: int) -> float:
        """Return the delay of the proxy at a percentile."""
        return _at(self.proxied, percent) - _at(self.direct, percent)


def _at(values: Sequence[float], percent: int) -> float:
    return quantiles(values, n=100, method="inclusive")[percent - 1]


async def run_load(direct: str, proxied: str, requests: int, connections: int) -> LoadResult:
    """Send `requests` requests each way. Each connection alternates, so both see the same load."""
    result = LoadResult()
    dice, turns = Random(requests), iter(range(requests))
    start = time.perf_counter()

    async def work(number: int) -> None:
        ways = [(direct, result.direct), (proxied, result.proxied)]
        await asyncio.sleep(number * SPREAD_S / connections)
        connections_ = [await _open(url) for url, _ in ways]
        for way in (0, 1):  # connections and caches are made once
            await _ask(ways[way][0], *connections_[way], 0)
        for turn in turns:
            for way in (0, 1) if (turn + number) % 2 else (1, 0):
                await asyncio.sleep(dice.random() * SPREAD_S)  # nobody asks in step with others
                first_ms, body = await _ask(ways[way][0], *connections_[way], turn)
                ways[way][1].append(first_ms)
                result.bodies.add(hashlib.sha256(body).hexdigest())
        for _, writer in connections_:
            writer.close()

    await asyncio.gather(*(work(number) for number in range(connections)))
    result.seconds = time.perf_counter() - start
    return result


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _open(url: str) -> Connection:
    parts = urlsplit(url)
    return await asyncio.open_connection(parts.hostname, parts.port)


async def _ask(
    url: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, turn: int
) -> tuple[float, bytes]:
    """Return the milliseconds to the first byte, and the body."""
    parts = urlsplit(url)
    body = json.dumps({"model": "fake", "max_tokens": 1, "stream": True, "messages": [
        {"role": "user", "content": f"{turn}: what is on the fire? " + "word " * 400}]})  # fmt: skip
    writer.write(
        f"POST {parts.path}{PATH} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
        f"X-Fake: {json.dumps(RESPONSE_PLAN)}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    )
    start = time.perf_counter()
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 "), head
    pieces: list[bytes] = []
    first_ms = 0.0
    while size := int(await reader.readuntil(b"\r\n"), 16):
        first_ms = first_ms or (time.perf_counter() - start) * 1000
        pieces.append((await reader.readexactly(size + 2))[:-2])
    await reader.readexactly(2)
    return first_ms, b"".join(pieces)
