"""The recording proxy: how much later an answer begins with it, and that it is the same."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.measure import Row
from tests.proxy_kit import run_provider
from tests.proxy_load import PATH, LoadResult, run_load

REQUESTS, CONNECTIONS = 1000, 32


@contextmanager
def proxy(home: Path, url: str) -> Iterator[str]:
    """A proxy in a process of its own; its address. In the end all must be recorded."""
    command = [sys.executable, "-m", "harken", "proxy", "--home", str(home), "--json",
               "--port", "0", "--upstream", f"fake={url}"]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["addresses"]["fake"]
        finally:
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate()
            summary = json.loads(out.splitlines()[-1])
            assert not summary["unrecorded"], summary


def measure(requests: int, connections: int) -> tuple[LoadResult, float]:
    """Return what a load has seen, and how long the recorder needed after it."""
    with tempfile.TemporaryDirectory() as name, run_provider() as url:
        with proxy(Path(name), url) as address:
            found = asyncio.run(run_load(url, address, requests, connections))
            begun = time.perf_counter()
        return found, time.perf_counter() - begun


def rows() -> list[Row]:
    """Measure with and without, in turn."""
    found, left_s = measure(REQUESTS, CONNECTIONS)
    note = f"{REQUESTS} streamed requests to {PATH} each way, {CONNECTIONS} connections"
    same = "the same" if len(found.bodies) == 1 else "NOT the same"
    return [
        Row("proxy: first byte later, median: ms", f"{found.added_ms(50):.2f}", "< 3", note),
        Row("proxy: first byte later, p99: ms", f"{found.added_ms(99):.2f}", "< 10"),
        Row("proxy: bodies", same, "the same"),
        Row("proxy: all recorded after the last answer: s", f"{left_s:.1f}"),
    ]
