"""A session of 50,000 messages and 300 agents is shown at once, and scrolled without hitches.

The short form has fewer messages. The limits are those of a machine that does nothing else; one that
does more may take longer, by its load for each processor.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.ui_kit import show_home
from tests.web.browser_kit import Browser, Page, Tab, expect
from tests.web.large_scenes import (
    AGENTS,
    LARGE,
    LONG,
    count_main_items,
    write_large_log,
    write_long_log,
)
from tests.web.scale_kit import Smoothness, measure, read_memory, read_private_mb

SHORT_MESSAGES, FULL_MESSAGES = 6_000, 50_000
SHORT_TURNS, FULL_TURNS = 60, 500
MAX_TASK_MS = 50
FIRST_CONTENT_S, SLIDER_STEP_S = 1.0, 0.1
_SHARED_SLOWNESS = 10.0
_MAX_SLOWNESS = 6.0
MAX_MEMORY_MB = 300
MAX_TRANSFER_BYTES = 400_000

DRAGGED = 50
_SET_SLIDER = """
    const slider = document.querySelector("input[type=range]");
    const set = (value) => {
        slider.value = String(value);
        slider.dispatchEvent(new Event("input", { bubbles: true }));
    };"""
MOVE_SLIDER = f"""async (number) => {{{_SET_SLIDER}
    const startedAt = performance.now();
    set(number);
    while (!document.querySelector(`.context[data-step='${{number}}'] article .head`)) {{
        await new Promise(requestAnimationFrame);
    }}
    return performance.now() - startedAt;
}}"""
"""Moves the slider to a call, and returns when its messages are shown: polling from outside would
measure its own intervals."""
DRAG_SLIDER = f"""async (last) => {{{_SET_SLIDER}
    for (let number = 1; number <= last; number += 1) {{
        set(number);
        await new Promise(requestAnimationFrame);
    }}
}}"""

pytestmark = pytest.mark.parametrize(
    "size",
    [
        pytest.param((SHORT_MESSAGES, SHORT_TURNS), id="short"),
        pytest.param((FULL_MESSAGES, FULL_TURNS), id="full", marks=pytest.mark.full),
    ],
    scope="module",
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, size: tuple[int, int]) -> Path:
    """A home with the large sessions."""
    home = tmp_path_factory.mktemp("large")
    (home / "sessions").mkdir()
    write_large_log(home / "sessions" / f"{LARGE}.jsonl", messages=size[0])
    write_long_log(home / "sessions" / f"{LONG}.jsonl", turns=size[1])
    return home


@pytest.fixture
def address(home: Path) -> Iterator[str]:
    """The address of a viewer that has read nothing yet."""
    with show_home(home) as page:
        yield page.address


def slowness() -> float:
    """Return how much slower this machine may be because of other work: 1 for none."""
    if "PYTEST_XDIST_WORKER" in os.environ:  # Other tests run at the same time.
        return _SHARED_SLOWNESS
    return min(_MAX_SLOWNESS, max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)))


def check_smooth(smoothness: Smoothness, name: str) -> None:
    print(f"{name}: {smoothness}; load {slowness():.1f}")
    assert smoothness.tasks_ms[-1] < MAX_TASK_MS * slowness()


def test_first_content_of_a_session_that_nobody_read_yet(tab: Tab, size: tuple[int, int]) -> None:
    tab.open()
    started_at = time.monotonic()
    tab.page.goto(f"{tab.address}/#/session/{LARGE}")
    expect(tab.page.locator("article").first).to_be_visible()
    expect(tab.page.get_by_role("treeitem").first).to_be_visible()
    first_s = time.monotonic() - started_at
    total = count_main_items(size[0])
    expect(tab.page.locator("article").first).to_have_attribute(
        "aria-setsize", str(total), timeout=60_000
    )
    print(f"first content {first_s:.2f} s, complete {time.monotonic() - started_at:.2f} s")
    assert first_s < FIRST_CONTENT_S * slowness()
    tab.save_screenshot("large")


def test_scrolling_through_many_pages_and_to_the_end(
    browser: Browser, tab: Tab, size: tuple[int, int]
) -> None:
    page = tab.open(f"#/session/{LARGE}")
    expect(page.locator("article .call").first).to_be_visible()
    scroll(page, 10)  # The highlighter and its languages are loaded.
    with measure(browser, page) as scrolling:
        scroll(page, 25 if size[0] < FULL_MESSAGES else 120)
    check_smooth(scrolling.smoothness, "scrolling")
    with measure(browser, page) as jumping:
        page.keyboard.press("End")
        last = page.locator("article").last
        expect(last).to_have_attribute("aria-posinset", str(last.get_attribute("aria-setsize")))
        expect(last).to_be_in_viewport()
    check_smooth(jumping.smoothness, "jump to the end")
    memory, server_mb = read_memory(page), read_private_mb()
    print(f"page: {memory.heap_mb:.0f} MB heap, {memory.renderer_mb:.0f} MB process")
    print(f"server, with these tests: {server_mb:.0f} MB")
    assert memory.heap_mb < MAX_MEMORY_MB
    assert memory.renderer_mb < MAX_MEMORY_MB


def scroll(page: Page, pages: int) -> None:
    """Scroll with the wheel, until the rows at the end are those of messages."""
    page.mouse.move(800, 400)
    for _ in range(pages):
        for _ in range(6):
            page.mouse.wheel(0, 120)
        page.evaluate("() => new Promise(requestAnimationFrame)")
    expect(page.locator(".ghost.row")).to_have_count(0)


def test_the_timeline_and_the_tree_of_300_agents(browser: Browser, tab: Tab) -> None:
    page = tab.open(f"#/session/{LARGE}")
    tree = page.get_by_role("tree", name="Agents")
    page.get_by_role("button", name="Show all agents").click()
    expect(tree.get_by_role("treeitem").nth(12)).to_be_visible()
    with measure(browser, page) as tree_scrolling:
        tree.hover()
        for _ in range(40):
            page.mouse.wheel(0, 400)
            page.evaluate("() => new Promise(requestAnimationFrame)")
        page.get_by_role("searchbox", name="Find an agent").press_sequentially("worker 28")
        expect(page.locator("[role=treeitem]").filter(has_text="worker 289")).to_be_visible()
    check_smooth(tree_scrolling.smoothness, f"tree of {AGENTS} agents")
    page.goto(f"{tab.address}/#/session/{LARGE}/timeline")
    expect(page.locator(".event .text").first).to_be_visible()
    with measure(browser, page) as timeline:
        page.mouse.move(800, 500)
        for _ in range(60):
            page.mouse.wheel(0, 600)
            page.evaluate("() => new Promise(requestAnimationFrame)")
        expect(page.locator(".event .skeleton")).to_have_count(0)
    check_smooth(timeline.smoothness, "timeline")


def test_a_slider_over_many_turns_shows_each_call_at_once(
    browser: Browser, tab: Tab, size: tuple[int, int]
) -> None:
    turns = size[1]
    page = tab.open(f"#/session/{LONG}/step/1?agent=agent_001")
    slider = page.get_by_role("slider", name="Model call")
    expect(slider).to_have_attribute("max", str(turns))
    with measure(browser, page) as sliding:
        numbers = range(2, turns, max(1, turns // 30))
        durations_ms = sorted(page.evaluate(MOVE_SLIDER, number) for number in numbers)
    p95_ms = durations_ms[int(len(durations_ms) * 0.95)]
    print(f"slider: p50 {durations_ms[len(durations_ms) // 2]:.0f} ms, p95 {p95_ms:.0f} ms")
    check_smooth(sliding.smoothness, "slider")
    assert p95_ms < SLIDER_STEP_S * 1000 * slowness()


def test_a_slider_that_is_dragged_loads_few_of_the_calls(tab: Tab) -> None:
    page = tab.open(f"#/session/{LONG}/step/1?agent=agent_001")
    expect(page.locator(".context article .head").first).to_be_visible()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.evaluate(DRAG_SLIDER, DRAGGED)
    expect(page.locator(f".context[data-step='{DRAGGED}']")).to_be_visible()
    loaded = [url for url in requests if "/steps/" in url]
    # The first one, and that at which it rests; others only where a frame was late.
    assert 1 <= len(loaded) <= DRAGGED / 2


def test_the_page_is_small_on_the_wire(tab: Tab) -> None:
    network = tab.context.new_cdp_session(tab.page)
    names: dict[str, str] = {}
    sizes: dict[str, int] = {}

    def add_name(event: dict[str, Any]) -> None:
        names[event["requestId"]] = event["response"]["url"].removeprefix(tab.address)

    def add_size(event: dict[str, Any]) -> None:
        sizes[names[event["requestId"]]] = int(event["encodedDataLength"])

    network.on("Network.responseReceived", add_name)
    network.on("Network.loadingFinished", add_size)
    network.send("Network.enable")
    tab.open(f"#/session/{LARGE}")
    expect(tab.page.locator("article").first).to_be_visible()
    expect(tab.page.get_by_role("treeitem").first).to_be_visible()
    files_kb = sum(sizes[name] for name in sizes if "/api/" not in name) / 1000
    total_kb = sum(sizes.values()) / 1000
    print(f"{len(sizes)} answers, {total_kb:.0f} kB on the wire, {files_kb:.0f} kB of them files")
    assert files_kb > 50  # The files were counted.
    assert total_kb * 1000 < MAX_TRANSFER_BYTES
