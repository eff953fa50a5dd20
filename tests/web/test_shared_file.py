"""`harken view SESSION --html FILE`: the file works from disk, without a server and a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.web.browser_kit import Browser, Page, expect
from tests.web.scenes import ANSWER, DENIED, IMPORTED, IMPORTED_TITLE, TASK
from tests.web.shared_kit import FileTab, write_page
from tests.web.test_hostile import RUN, assert_harmless, hostile_home
from tests.web.test_session import ANN, GUARD, MAIN, panel_of

__all__ = ["hostile_home"]

HARBOR = "#/session/harbor"
OpenFile = Callable[..., FileTab]


@pytest.fixture
def open_file(browser: Browser, tmp_path: Path) -> Iterator[OpenFile]:
    """Write the page of a session, and return a tab that will open it.

    The test fails if the page does what no page may do, also if it sends any request.
    """
    tabs: list[FileTab] = []

    def open_file(home: Path, name: str, *, no_redact: bool = False, height: int = 800) -> FileTab:
        file = write_page(home, name, tmp_path / f"{len(tabs)}.html", no_redact=no_redact)
        context = browser.new_context(viewport={"width": 1280, "height": height})
        tabs.append(FileTab(context, file))
        return tabs[-1]

    yield open_file
    for tab in tabs:
        tab.context.close()
        assert tab.problems == []


def go(page: Page, route: str) -> None:
    """Enter another address of the page."""
    page.evaluate("(hash) => void (location.hash = hash)", route)


def test_the_file_opens_as_the_conversation_and_states_that_it_is_a_copy(
    home: Path, open_file: OpenFile
) -> None:
    tab = open_file(home, "harbor")
    page = tab.open()
    expect(page.get_by_role("heading", level=1)).to_have_text(TASK)
    items = panel_of(page, "main").locator("article")
    expect(items).to_have_count(6)
    expect(items.last).to_contain_text(ANSWER)
    about = page.get_by_label("About this copy")
    expect(about).to_contain_text("Shared copy")
    expect(about).to_contain_text("Feb 2, 2026")
    expect(about).to_contain_text("Harken 0.1.0")
    expect(about.locator(".tag")).to_have_text("redacted")
    about.click()
    expect(page.get_by_text("Dialogs of other groups of agents")).to_be_visible()
    tab.save_screenshot("shared-about")
    page.keyboard.press("Escape")
    expect(page.get_by_text("Dialogs of other groups of agents")).to_be_hidden()
    # There is no list of sessions, and nothing that needs the server.
    expect(page.get_by_role("link", name="Sessions")).to_have_count(0)
    expect(page.get_by_text("Continue in")).to_have_count(0)
    for key in ("g", "/"):
        page.keyboard.press(key)
        expect(items).to_have_count(6)
    tab.save_screenshot("shared")


def test_panels_drafts_and_dialogs_are_in_the_file(home: Path, open_file: OpenFile) -> None:
    tab = open_file(home, "harbor")
    page = tab.open(f"{HARBOR}?agent={MAIN}&agent={ANN}")
    drafts = panel_of(page, "Ann").locator("article.label-draft")
    expect(drafts).to_have_count(2)
    expect(drafts.first).to_contain_text(DENIED)
    expect(drafts.last.locator("del")).to_have_text("secret 5678")
    page.get_by_role("button", name="Dialog").click()
    dialog = panel_of(page, "main, Ann")
    expect(dialog.locator("article").first).to_contain_text(TASK)
    tab.save_screenshot("shared-dialog")
    # A pair of which neither received anything from the other.
    go(page, f"{HARBOR}?agent={GUARD},agent_004")
    expect(page.get_by_role("alert")).to_contain_text("is not in this file")


def test_the_details_of_a_message_and_its_place_are_in_the_file(
    home: Path, open_file: OpenFile
) -> None:
    tab = open_file(home, "harbor")
    page = tab.open(HARBOR)
    last = panel_of(page, "main").locator("article").last
    expect(last).to_be_visible()
    message = page.evaluate("harken.get('sessions/harbor/items', {agent: 'agent_001'})")
    id_ = message["items"][-1]["message_id"]
    go(page, f"{HARBOR}?d={id_}")
    details = page.get_by_role("complementary")
    expect(details).to_contain_text("Model calls that read it")
    details.get_by_text("Event as logged").click()
    expect(details.locator("pre")).to_contain_text(ANSWER)
    # A link to a message alone finds the agent that has it.
    go(page, f"{HARBOR}?m={id_}")
    expect(
        panel_of(page, "main").locator("article[aria-current=true], article.target").first
    ).to_contain_text(ANSWER)
    tab.save_screenshot("shared-details")


def test_model_calls_and_the_timeline_are_in_the_file(home: Path, open_file: OpenFile) -> None:
    tab = open_file(home, "harbor")
    page = tab.open(f"{HARBOR}/step/6")
    expect(page.get_by_role("heading", name="main call 4")).to_be_visible()
    messages = page.get_by_label("What the model read").locator("article")
    expect(messages).to_have_count(8)
    expect(messages.locator(".tag.added")).to_have_count(2)
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("heading", name="Ann call 2")).to_be_visible()
    page.get_by_role("link", name="Timeline").click()
    expect(page.locator(".event").filter(has_text=TASK).first).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="Ann call 2")).to_be_visible()
    page.locator("select").select_option(label="Ann")
    expect(page.locator("nav .call")).to_have_count(2)
    tab.save_screenshot("shared-step")


def test_images_are_in_the_file(home: Path, open_file: OpenFile) -> None:
    tab = open_file(home, "album")
    page = tab.open()
    image = page.locator("article img")
    expect(image).to_be_visible()
    assert image.evaluate("(node) => node.decode().then(() => node.naturalWidth)") == 24


def test_an_imported_session_opens_and_says_that_it_is_not_redacted(
    home: Path, open_file: OpenFile
) -> None:
    tab = open_file(home, IMPORTED, no_redact=True)
    page = tab.open()
    expect(page.get_by_role("heading", level=1)).to_have_text(IMPORTED_TITLE)
    about = page.get_by_label("About this copy")
    expect(about.locator(".tag")).to_have_text("not redacted")
    about.click()
    expect(page.get_by_text("It may contain passwords and keys")).to_be_visible()


def test_an_address_of_another_session_is_answered_with_a_way_back(
    home: Path, open_file: OpenFile
) -> None:
    page = open_file(home, "harbor").open("#/session/other")
    expect(page.get_by_role("heading", name="This file has one session")).to_be_visible()
    page.get_by_role("link", name="Show the session").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(TASK)


def test_the_file_is_dark_and_narrow_where_the_reader_is(home: Path, open_file: OpenFile) -> None:
    tab = open_file(home, "harbor")
    tab.page.set_viewport_size({"width": 390, "height": 800})
    tab.page.emulate_media(color_scheme="dark")
    page = tab.open()
    expect(page.locator("article").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 17, 21)"
    tab.save_screenshot("shared-narrow-dark")


def test_a_damaged_file_says_so(home: Path, tmp_path: Path, browser: Browser) -> None:
    file = write_page(home, "harbor", tmp_path / "page.html")
    data = file.read_bytes()
    at = data.index(b'id="contents">') + 2000
    file.write_bytes(data[:at] + b"AAAAAAAA" + data[at + 8 :])
    with browser.new_context() as context:
        page = FileTab(context, file).open()
        expect(page.get_by_text("This file is incomplete or damaged")).to_be_visible()
        context.close()


@pytest.mark.parametrize("name", ["hostile", IMPORTED])
def test_a_hostile_session_runs_and_loads_nothing(
    hostile_home: Path, open_file: OpenFile, name: str
) -> None:
    tab = open_file(hostile_home, name, height=6000)
    page = tab.open()
    for text in (f"<script>{RUN}</script>", "image: pixel", "⟨U+202E⟩txt.exe", "deep"):
        expect(page.locator("article").filter(has_text=text).first).to_be_visible()
    assert_file_harmless(page)
    for view in ("timeline", "step"):
        go(page, f"#/session/{name}/{view}")
        loaded = page.locator(".event .text, .context article, main.empty")
        expect(loaded.first).to_be_visible()
        assert_file_harmless(page)
    message = page.evaluate(
        f"harken.get('sessions/{name}/timeline').then((t) => t.events[3].message_id)"
    )
    go(page, f"#/session/{name}?d={message}")
    page.get_by_text("Event as logged").click()
    expect(page.locator("aside pre")).to_be_visible()
    assert_file_harmless(page)
    tab.save_screenshot(f"shared-hostile-{name[:6]}")


def assert_file_harmless(page: Page) -> None:
    """Assert that the page is harmless. The script, the style and the policy of the file are its own."""
    page.evaluate(
        "() => document.querySelectorAll('body > script').forEach((node) => node.remove())"
    )
    own = page.evaluate(
        "() => [...document.querySelectorAll('head > style, head > meta[http-equiv]')]"
        ".map((node) => node.outerHTML)"
    )
    assert len(own) == 2
    assert_harmless(page, own)
