"""The page Why: from a line to its message and back, as the commands answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.cli.git_kit import Repository
from tests.cli.kit import HARKEN
from tests.cli.ui_kit import show_home
from tests.forks import processes
from tests.web.browser_kit import Browser, Locator, Page, Tab, expect
from tests.web.test_views import LUMINANCE, WIDE_ELEMENTS
from tests.web.why_scenes import (
    FIRST,
    FREE_REASON,
    HOSTILE_NAME,
    LONG_LINES,
    REASON,
    REQUEST,
    SECOND,
    write_shop,
)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """The repository. Its home is in the same folder."""
    folder = tmp_path_factory.mktemp("why")
    return write_shop(folder / "home", folder)


@pytest.fixture(scope="module")
def address(shop: Repository, home: Path) -> Iterator[str]:
    """The address of a viewer that was started in the repository."""
    with show_home(shop.folder.parent / "home", start=shop.folder) as page:
        yield page.address


@pytest.fixture
def tab(shop: Repository, address: str, browser: Browser) -> Iterator[Tab]:
    """A page of the viewer, with an own clipboard."""
    options: Any = {"viewport": {"width": 1280, "height": 800}}
    with browser.new_context(**options) as context:
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        tab = Tab(context, address)
        yield tab
        assert tab.problems == []


def link(shop: Repository, **params: str) -> str:
    """Return the address of a file, a line or a commit on the page."""
    words = {"repository": str(shop.folder), **params}
    return "#/why?" + "&".join(f"{name}={quote(text, safe='')}" for name, text in words.items())


def line_of(page: Page, number: int) -> Locator:
    """Return a line of the file."""
    return page.locator(".code .line").filter(
        has=page.get_by_role("link", name=f"Why line {number}", exact=True)
    )


def answer_of(page: Page) -> Locator:
    """Return the answer beside the file."""
    return page.get_by_role("complementary")


def test_a_line_leads_to_its_message_and_back(tab: Tab, shop: Repository) -> None:
    page = tab.open("#/why")
    page.get_by_role("button", name="src", exact=False).click()
    page.get_by_role("link", name="orders.py").click()
    expect(line_of(page, 4)).to_contain_text("def total(order):")
    expect(line_of(page, 1).locator(".gutter")).to_contain_text("Claude Code")
    expect(answer_of(page)).to_contain_text("Sessions that edited this file")
    page.get_by_role("link", name="Why line 5", exact=True).click()
    answer = answer_of(page)
    expect(answer).to_contain_text("Written by Claude Code")
    expect(answer).to_contain_text(REQUEST)
    expect(answer).to_contain_text(FREE_REASON)
    expect(answer).to_contain_text("claude-opus-4-5-20251101")
    tab.save_screenshot("why")
    message = answer.get_by_role("link", name="The message in its conversation")
    expect(answer.get_by_role("link", name="What the model saw: model call 2")).to_be_visible()
    message.click()
    target = page.locator("article.target, article.current").first
    expect(target).to_contain_text(FREE_REASON)
    fold = target.locator(".call > button").first
    if fold.get_attribute("aria-expanded") == "false":
        fold.click()
    target.get_by_role("button", name="Lines today").click()
    expect(target.locator(".today")).to_contain_text("today has 2 lines of this call: 5-6")
    tab.save_screenshot("why-lines-today")
    target.locator(".today").get_by_role("link", name="5-6").click()
    expect(page.get_by_role("heading", name="Line 5-6")).to_be_visible()
    expect(line_of(page, 6)).to_have_class(re.compile(r"\bselected\b"))
    page.go_back()
    expect(target).to_contain_text(FREE_REASON)


def test_the_lines_have_the_agents_that_blame_names(tab: Tab, shop: Repository) -> None:
    page = tab.open(link(shop, path="src/orders.py"))
    expect(page.locator(".working")).to_have_count(0)
    lines = page.locator(".code .line")
    expect(lines).to_have_count(14)
    expect(lines.nth(13).locator(".gutter")).to_have_attribute("title", re.compile("Jill"))
    agents = ["agent" in (lines.nth(n).get_attribute("class") or "").split() for n in range(14)]
    assert agents == [row["by"] == "agent" for row in blame_rows(shop, "src/orders.py")]
    expect(line_of(page, 11).locator(".gutter .tag")).to_have_text("changed")
    expect(line_of(page, 12).locator(".gutter")).to_contain_text("Jill")
    expect(line_of(page, 5).locator(".text .hljs-keyword").first).to_have_text("if")


def blame_rows(shop: Repository, path: str) -> list[Any]:
    """Return the rows of `harken blame --json`, run in a process of its own."""
    home = shop.folder.parent / "home"
    ran = processes.run(
        [HARKEN, "blame", path, "--json", "--home", str(home)],
        cwd=shop.folder,
        capture_output=True,
        check=True,
    )
    rows: list[Any] = json.loads(ran.stdout)
    return rows


def test_a_link_to_a_line_opens_its_answer_and_commands_are_copied(
    tab: Tab, shop: Repository
) -> None:
    page = tab.open(link(shop, path="src/orders.py", line="11"))
    answer = answer_of(page)
    expect(answer).to_contain_text("Changed by Jill from a line")
    expect(answer).to_contain_text("Round discounts")
    answer.get_by_role("button", name="Copy the command: Ask the agent").click()
    command = page.evaluate("navigator.clipboard.readText()")
    assert command.startswith(f"cd {shop.folder} && harken why src/orders.py:11 --ask ")
    page.keyboard.press("k")
    expect(page.get_by_role("heading", name="Line 10")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("heading", name="Sessions that edited this file")).to_be_visible()


def test_the_line_of_a_person_is_theirs(tab: Tab, shop: Repository) -> None:
    page = tab.open(link(shop, path="src/orders.py", line="14"))
    expect(answer_of(page)).to_contain_text("No recorded edit wrote this line")
    expect(answer_of(page)).to_contain_text("Jill")


def test_a_file_has_the_sessions_that_edited_it(tab: Tab, shop: Repository) -> None:
    page = tab.open(link(shop, path="src/orders.py"))
    rows = answer_of(page).locator("a.row")
    expect(rows).to_have_count(2)
    expect(rows.filter(has_text="2 edits")).to_have_attribute("href", session_link(FIRST))
    expect(rows.filter(has_text="1 edit ")).to_have_attribute("href", session_link(SECOND))


def session_link(name: str) -> str:
    """Return the address of a session."""
    return f"#/session/{quote(name, safe='')}"


def test_a_narrow_page_shows_the_sessions_on_demand(tab: Tab, shop: Repository) -> None:
    tab.page.set_viewport_size({"width": 390, "height": 844})
    page = tab.open(link(shop, path="src/orders.py"))
    expect(line_of(page, 4)).to_be_visible()
    expect(answer_of(page)).to_be_hidden()
    page.get_by_role("button", name="Sessions", exact=True).click()
    expect(answer_of(page).locator("a.row")).to_have_count(2)
    page.get_by_role("button", name="Close").click()
    expect(answer_of(page)).to_be_hidden()
    page.get_by_role("button", name="Files").click()
    expect(page.get_by_role("navigation", name="Files").get_by_text("orders.py")).to_be_visible()


def test_a_commit_has_the_origins_of_its_lines(tab: Tab, shop: Repository) -> None:
    page = tab.open(link(shop, path="src/orders.py", line="5"))
    answer_of(page).locator(".commit a").click()
    origins = page.get_by_role("main").locator(".origin")
    expect(origins.first).to_contain_text("src/orders.py")
    expect(page.get_by_role("main")).to_contain_text(REASON)
    tab.save_screenshot("why-commit")
    origins.first.locator(".file a").click()
    expect(page.get_by_role("main")).to_contain_text("show today's")


def test_the_shares_of_folders_are_counted_on_demand(tab: Tab, shop: Repository) -> None:
    page = tab.open(link(shop))
    files = page.get_by_role("navigation", name="Files")
    expect(files.get_by_role("button", name="src")).to_be_visible()
    expect(files.locator(".share")).to_have_count(0)
    files.get_by_role("button", name="Shares").click()
    share = files.get_by_role("button", name="src").locator(".share")
    expect(share).to_contain_text("75 %")
    expect(files.get_by_role("button", name="docs").locator(".share")).to_contain_text("0 %")
    tab.save_screenshot("why-shares")


def test_files_are_filtered_by_their_path(tab: Tab, shop: Repository) -> None:
    page = tab.open(link(shop))
    expect(page.get_by_role("button", name="src")).to_be_visible()
    page.keyboard.press("f")
    page.keyboard.type("srcorders")
    hit = page.get_by_role("list", name="Files that match").get_by_role("link")
    expect(hit).to_have_text("src/orders.py")
    page.keyboard.press("Enter")
    expect(line_of(page, 4)).to_be_visible()


def test_a_long_file_is_a_virtual_list(tab: Tab, shop: Repository) -> None:
    page = tab.open(link(shop, path="docs/long.py", line=str(LONG_LINES - 5)))
    expect(line_of(page, LONG_LINES - 5)).to_contain_text(f"line_{LONG_LINES - 6} = ")
    gutter = line_of(page, LONG_LINES - 5).locator(".gutter")
    expect(gutter).to_have_attribute("title", re.compile("Jill"))
    assert page.locator(".code .line").count() < 120
    expect(page.locator(".working")).to_have_count(0)
    page.locator(".code .scroller").evaluate("(node) => void (node.scrollTop = 0)")
    expect(line_of(page, 1).locator(".gutter")).to_contain_text("Jill")


def test_a_hostile_file_runs_nothing(tab: Tab, shop: Repository) -> None:
    page = tab.open(link(shop))
    page.get_by_role("link", name="<img src=x").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("<img src=x onerror=alert(1)>")
    expect(line_of(page, 1)).to_contain_text("<script>alert(1)</script>")
    assert "\u202e" not in page.locator("body").inner_text()
    assert "\u202e" in HOSTILE_NAME


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"path": "missing.py"}, "missing.py: no file"),
        ({"path": "data.bin"}, "a binary file"),
        ({"path": "empty.txt"}, "The file is empty"),
        ({"path": "src/orders.py", "revision": "nonsense"}, "no such git commit"),
        ({"repository": "/etc", "path": "passwd"}, "repository '/etc' not found"),
        ({"path": "src/orders.py", "line": "99"}, "line 99 is out of range"),
        ({"commit": "nonsense"}, "no such git commit"),
    ],
)
def test_a_problem_is_told(tab: Tab, shop: Repository, params: dict[str, str], text: str) -> None:
    tab.expect_problem("status of (404|422)")
    page = tab.open(link(shop, **params))
    expect(page.locator("body")).to_contain_text(text)


@pytest.mark.parametrize("name", ["line", "commit", "start"])
def test_the_page_in_the_dark_and_on_a_phone(tab: Tab, shop: Repository, name: str) -> None:
    routes = {
        "line": (link(shop, path="src/orders.py", line="5"), ".origin .links a"),
        "commit": (link(shop, commit="HEAD~1"), ".origin .links a"),
        "start": (link(shop), ".node"),
    }
    route, element = routes[name]
    tab.page.emulate_media(color_scheme="dark")
    page = tab.open(route)
    expect(page.locator(element).first).to_be_visible()
    background, text = page.evaluate(LUMINANCE)
    assert background < 0.3
    assert text > 0.6
    tab.save_screenshot(f"why-{name}-dark")
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.locator(element).first).to_be_attached()
    assert page.evaluate(WIDE_ELEMENTS) == []
    tab.save_screenshot(f"why-{name}-390")
    page.set_viewport_size({"width": 2560, "height": 1300})
    tab.save_screenshot(f"why-{name}-2560")


def test_an_attribution_can_be_left(tab: Tab, shop: Repository) -> None:
    held: list[Any] = []
    # The server is as slow as the test wants.
    tab.page.route("**/api/why/blame**", lambda route: held.append(route))  # noqa: PLW0108
    page = tab.open(link(shop, path="src/orders.py"))
    expect(line_of(page, 4)).to_contain_text("def total(order):")
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("main")).to_contain_text("Stopped.")
    page.unroute("**/api/why/blame**")
    page.get_by_role("button", name="Go on").click()
    expect(line_of(page, 1).locator(".gutter")).to_contain_text("Claude Code")
