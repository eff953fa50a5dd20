"""Many streamed requests at once, in turn without and with the proxy: when the first byte comes."""

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
    """What was measured: milliseconds to the first byte of each answer's body, in order."""

    direct: list[float] = field(default_factory=list)
    proxied: list[float] = field(default_factory=list)
    bodies: set[str] = field(default_factory=set)
    """What the answers were: one, if all are the same."""
    seconds: float = 0

    def added_ms(self, percent: int) -> float:
        """Return how much later it comes with the proxy, at a percentile."""
        return _at(self.proxied, percent) - _at(self.direct, percent)


def _at(values: Sequence[float], percent: int) -> float:
    return quantiles(values, n=100, method="inclusive")[percent - 1]


async def run_load(direct: str, proxied: str, requests: int, connections: int) -> LoadResult:
    """Make so many requests each way; a connection asks both in turn, so both have the same day."""
    found = LoadResult()
    dice, left = Random(requests), iter(range(requests))
    begun = time.perf_counter()

    async def work(number: int) -> None:
        ways = [(direct, found.direct), (proxied, found.proxied)]
        await asyncio.sleep(number * SPREAD_S / connections)
        opened = [await _open(url) for url, _ in ways]
        for at in (0, 1):  # connections and caches are made once
            await _ask(ways[at][0], *opened[at], 0)
        for turn in left:
            for at in (0, 1) if (turn + number) % 2 else (1, 0):
                await asyncio.sleep(dice.random() * SPREAD_S)  # nobody asks in step with others
                first_ms, body = await _ask(ways[at][0], *opened[at], turn)
                ways[at][1].append(first_ms)
                found.bodies.add(hashlib.sha256(body).hexdigest())
        for _, writer in opened:
            writer.close()

    await asyncio.gather(*(work(number) for number in range(connections)))
    found.seconds = time.perf_counter() - begun
    return found


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _open(url: str) -> Connection:
    parts = urlsplit(url)
    return await asyncio.open_connection(parts.hostname, parts.port)


async def _ask(
    url: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, turn: int
) -> tuple[float, bytes]:
    """Return when the first byte came, and the body."""
    parts = urlsplit(url)
    body = json.dumps({"model": "fake", "max_tokens": 1, "stream": True, "messages": [
        {"role": "user", "content": f"{turn}: what is on the fire? " + "word " * 400}]})  # fmt: skip
    writer.write(
        f"POST {parts.path}{PATH} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
        f"X-Fake: {json.dumps(RESPONSE_PLAN)}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    )
    begun = time.perf_counter()
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 "), head
    pieces: list[bytes] = []
    first_ms = 0.0
    while size := int(await reader.readuntil(b"\r\n"), 16):
        first_ms = first_ms or (time.perf_counter() - begun) * 1000
        pieces.append((await reader.readexactly(size + 2))[:-2])
    await reader.readexactly(2)
    return first_ms, b"".join(pieces)
