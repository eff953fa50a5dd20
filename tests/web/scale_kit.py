"""Measures of a page in Chromium: frames, tasks of the main thread, memory, transfer.

Tasks are measured in the time that the main thread computes, so that other processes of a busy
machine do not count. Frames are measured with a clock, and reported only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.web.browser_kit import Browser, Page

_START_FRAMES = """() => {
    const frames = (window.frames_of_test = []);
    let before = performance.now();
    const next = (now) => {
        frames.push(now - before);
        before = now;
        window.frame_of_test = requestAnimationFrame(next);
    };
    window.frame_of_test = requestAnimationFrame(next);
}"""
_STOP_FRAMES = """() => {
    cancelAnimationFrame(window.frame_of_test);
    return window.frames_of_test;
}"""
_TASKS = ("RunTask", "ThreadControllerImpl::RunTask")


class Smoothness(NamedTuple):
    """The frames and tasks of a page in a period, longest last."""

    frames_ms: list[float]
    tasks_ms: list[float]
    """How long the main thread computed in each task."""

    def __str__(self) -> str:
        frames, tasks = self.frames_ms, self.tasks_ms
        return (
            f"{len(frames)} frames, p50 {_quantile(frames, 0.5):.0f} ms, "
            f"p95 {_quantile(frames, 0.95):.0f} ms, longest {frames[-1]:.0f} ms; "
            f"longest task {tasks[-1]:.0f} ms"
        )


class Measure:
    """The result of a block of `measure`."""

    smoothness: Smoothness


@contextmanager
def measure(browser: Browser, page: Page) -> Iterator[Measure]:
    """Measure a page until the end of the block."""
    result = Measure()
    browser.start_tracing(page=page, categories=["toplevel", "devtools.timeline"])
    try:
        page.evaluate(_START_FRAMES)
        yield result
        frames = sorted(page.evaluate(_STOP_FRAMES))
    finally:
        trace = browser.stop_tracing()
    result.smoothness = Smoothness(frames, sorted(_read_tasks(trace)))


def _read_tasks(trace: bytes) -> Iterator[float]:
    events: list[dict[str, Any]] = json.loads(trace)["traceEvents"]
    main_threads = {
        (event["pid"], event["tid"])
        for event in events
        if event.get("name") == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    for event in events:
        if event.get("name") in _TASKS and (event["pid"], event["tid"]) in main_threads:
            yield event.get("tdur", 0) / 1000


class Memory(NamedTuple):
    """The memory of a page after its garbage was collected."""

    heap_mb: float
    renderer_mb: float
    """The private memory of its process, with shared libraries left out."""


def read_memory(page: Page) -> Memory:
    """Return the memory of a page."""
    devtools = page.context.new_cdp_session(page)
    devtools.send("Performance.enable")
    devtools.send("HeapProfiler.collectGarbage")
    metrics = devtools.send("Performance.getMetrics")["metrics"]
    heap = next(row["value"] for row in metrics if row["name"] == "JSHeapUsedSize")
    assert page.context.browser is not None
    whole_browser = page.context.browser.new_browser_cdp_session()
    processes = whole_browser.send("SystemInfo.getProcessInfo")["processInfo"]
    sizes = [_private_mb(row["id"]) for row in processes if row["type"] == "renderer"]
    return Memory(heap / 1e6, max(sizes))


def read_private_mb() -> float:
    """Return the private memory of this process."""
    return _private_mb(os.getpid())


def _private_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1000


def _quantile(values: list[float], share: float) -> float:
    return values[min(len(values) - 1, int(len(values) * share))]
