"""The walks of the how-tos: what they say is done in Chromium, on a machine of its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.web.browser_kit import Browser, Locator, Page, expect
from tests.web.walk_kit import Walk
from tests.web.walk_scenes import (
    ANSWER,
    CODEX_COUNT,
    CORRECTION,
    COUNT,
    REQUEST,
    SHOP_SESSION,
    TITLE,
    write_machine,
)

NEXT_FRAMES = """() => new Promise((resolve) =>
    requestAnimationFrame(() => requestAnimationFrame(resolve)))"""
StartWalk = Callable[[str], Walk]


@pytest.fixture
def start_walk(browser: Browser) -> Iterator[StartWalk]:
    """Return the function that starts the walk of a how-to.

    The path of the folder is short, so that it is nowhere cut in pictures.
    """
    with TemporaryDirectory(prefix="ann-") as user:
        yield lambda name: Walk(Path(user), name, browser)


def panel_of(page: Page, name: str) -> Locator:
    """Return the panel of an agent, or of several."""
    return page.get_by_role("region", name=name, exact=True)


def agent_in_tree(page: Page, name: str) -> Locator:
    """Return an agent of the tree."""
    return page.get_by_role("treeitem", name=name).first


def test_a_researcher_sees_who_heard_what(start_walk: StartWalk) -> None:
    walk = start_walk("see-who-heard-what")
    walk.run_commands()
    with walk.view("harken ui cafe") as page:
        walk.click(agent_in_tree(page, "Jill"), "Jill")
        walk.click(agent_in_tree(page, "Jack"), "Jack", modifiers=["Control"])
        jill, jack = panel_of(page, "Jill"), panel_of(page, "Jack")
        drafts = jill.locator("article.label-draft")
        expect(drafts.first).to_contain_text("denied by discreet")
        expect(drafts.last.locator("del")).to_have_text("at 12 Mill Lane")
        expect(drafts.last.locator("ins")).to_have_text("nearby")
        expect(jack).to_contain_text("I live nearby and write novels")
        expect(jack).not_to_contain_text("murderer")
        expect(jack).not_to_contain_text("Mill Lane")
        drafts.last.scroll_into_view_if_needed()
        walk.take_picture(page, "said-and-heard")
        see_dialog(walk, page)
        see_details(walk, page)
        see_time(walk, page)
    walk.check_controls()


def see_dialog(walk: Walk, page: Page) -> None:
    """Hide thoughts, align panels, and read the dialog."""
    walk.click(page.get_by_role("button", name="Aligned"), "Aligned")
    walk.click(page.get_by_role("button", name="Thoughts"), "Thoughts")
    walk.click(page.get_by_role("button", name="Dialog"), "Dialog")
    dialog = panel_of(page, "Jill, Jack")
    expect(dialog.locator("article.label-said").filter(has_text="nearby")).to_have_count(1)
    expect(dialog.locator("article.label-draft").filter(has_text="murderer")).to_have_count(1)


def see_details(walk: Walk, page: Page) -> None:
    """Follow Jill's answer."""
    for _ in range(2):
        page.locator(".panel").last.get_by_role("button", name="Close").click()
    answer = panel_of(page, "Jill").locator("article.label-draft").last
    answer.hover()
    answer.get_by_role("button", name=re.compile("Details")).click()
    details = page.get_by_role("complementary")
    expect(details.locator("ins")).to_have_text("nearby")
    walk.click(details.get_by_role("button", name="Graph"), "Graph")
    expect(details.locator("svg").filter(has_text="Jack").first).to_be_visible()
    walk.take_picture(page, "who-heard-it")


def scroll_until(page: Page, wanted: Locator) -> None:
    """Scroll a long list until it shows something."""
    page.mouse.move(600, 500)
    for _ in range(40):
        if wanted.count() and wanted.is_visible():
            break
        page.mouse.wheel(0, 200)
        page.evaluate(NEXT_FRAMES)
    expect(wanted).to_be_in_viewport()


def see_time(walk: Walk, page: Page) -> None:
    """Look at the timeline and at the model calls."""
    walk.click(page.get_by_role("link", name="Timeline"), "Timeline")
    answer = page.locator(".event").filter(has_text="I live at 12 Mill Lane")
    delivery = (
        page.locator(".event").filter(has_text="I live nearby").filter(has=page.locator(".arrow"))
    )
    scroll_until(page, delivery.first)
    page.mouse.wheel(0, 150)
    page.evaluate(NEXT_FRAMES)
    expect(answer.first).to_be_visible()
    walk.take_picture(page, "timeline")
    walk.click(page.get_by_role("link", name="Model calls"), "Model calls")
    expect(page.get_by_label("What the model read").locator("article").first).to_be_visible()


def test_an_engineer_finds_the_session_of_a_function_and_continues_it(
    start_walk: StartWalk,
) -> None:
    walk = start_walk("find-and-continue-earlier-work")
    repository = write_machine(walk.user)
    walk.reader.folder = repository.folder
    with walk.view("harken ui") as page:
        import_all(walk, page)
        find_by_words(page)
        find_by_lines(walk, page)
        read_edit(walk, page)
        command = copy_command(walk, page)
        printed = walk.run(f"{command} --print")
        assert "all 7 messages are transferred" in printed
        assert re.search(r"^codex resume \S+$", printed, re.MULTILINE)
        continue_here(walk, page)
    assert command.replace(f"{SHOP_SESSION}", SHOP_SESSION[:15]) in walk.text
    printed = walk.run("harken why src/orders.py:delivery_fee")
    assert CORRECTION in printed
    walk.check_controls()


def import_all(walk: Walk, page: Page) -> None:
    """Import what the first visit offers, and look for more."""
    expect(page.locator("fieldset label")).to_have_count(2)
    expect(page.locator("fieldset")).to_contain_text(f"{COUNT - CODEX_COUNT} sessions")
    expect(page.locator("fieldset")).to_contain_text(f"{CODEX_COUNT} sessions")
    walk.take_picture(page, "import")
    walk.click(page.get_by_role("button", name="Import all"), "Import all")
    expect(page.get_by_text(f"Import complete: {COUNT} sessions")).to_be_visible()
    walk.click(page.get_by_role("link", name="Import", exact=True), "Import")
    expect(page.locator("fieldset")).to_contain_text("all imported")
    page.go_back()


def find_by_words(page: Page) -> None:
    """Search messages, and open the first one."""
    expect(page.locator("a.row").first).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("delivery_fee")
    hits = page.get_by_role("region", name="Messages that match").get_by_role("link")
    expect(hits.filter(has_text=TITLE).first).to_be_visible()
    hits.filter(has_text=ANSWER[:5]).first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(TITLE)
    target = page.locator("article.target, article.current")
    expect(target).to_contain_text("otherwise 4.90")
    expect(target).to_be_in_viewport()


def find_by_lines(walk: Walk, page: Page) -> None:
    """Go from a line to its reason."""
    walk.click(page.get_by_role("link", name="Why", exact=True), "Why")
    walk.click(page.get_by_role("button", name="src"), "src")
    walk.click(page.get_by_role("link", name="orders.py"), "orders.py")
    expect(page.locator(".code .line").nth(19)).to_contain_text("def delivery_fee")
    page.get_by_role("link", name="Why line 23", exact=True).click()
    answer = page.get_by_role("complementary")
    expect(answer).to_contain_text(REQUEST)
    expect(answer).to_contain_text("All amounts are in cents")
    expect(page.locator(".working")).to_have_count(0)
    walk.take_picture(page, "why")
    copy = "Copy the command: Continue in Claude Code"
    walk.see(answer.get_by_text("Continue in Claude Code"), "Continue in Claude Code")
    answer.get_by_role("button", name=copy).click()
    command = page.evaluate("navigator.clipboard.readText()")
    assert "claude --resume" in walk.run(f"{command} --print")


def read_edit(walk: Walk, page: Page) -> None:
    """Read the message with the edit, and see what is left of it."""
    name = "The message in its conversation"
    walk.click(page.get_by_role("complementary").get_by_role("link", name=name), name)
    edit = page.locator("article.target, article.current").first
    expect(edit).to_contain_text("+def delivery_fee(order):")
    walk.click(edit.get_by_role("button", name="Lines today"), "Lines today")
    expect(edit.locator(".today")).to_contain_text("today has")


def copy_command(walk: Walk, page: Page) -> str:
    """Return the command that continues the session in Codex."""
    walk.click(page.get_by_text("Continue in…"), "Continue in…")
    page.get_by_role("button", name="Copy the command for Codex").click()
    walk.take_picture(page, "continue")
    page.keyboard.press("Escape")
    return str(page.evaluate("navigator.clipboard.readText()"))


def continue_here(walk: Walk, page: Page) -> None:
    """Run the session in the server of the page."""
    walk.click(page.get_by_role("button", name="Continue here"), "Continue here")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Model").fill("scripted:demo")
    dialog.get_by_role("button", name="Continue here").click()
    field = page.get_by_role("textbox", name="Message to main")
    field.fill("And abroad?")
    field.press("Enter")
    expect(panel_of(page, "main").get_by_text("still in the cafe")).to_be_visible()


def test_a_shared_page_is_read_on_another_machine(start_walk: StartWalk) -> None:
    walk = start_walk("share-a-session")
    walk.run_commands()
    file = walk.reader.folder / "demo.html"
    assert str(walk.user).encode() not in file.read_bytes()
    with walk.open_file(file) as page:
        walk.click(page.get_by_text("Shared copy"), "Shared copy")
        expect(page.get_by_text("Dialogs of other groups of agents")).to_be_visible()
        walk.take_picture(page, "shared-copy")
        page.keyboard.press("Escape")
        agent_in_tree(page, "Jill").click()
        answer = panel_of(page, "Jill").locator("article.label-said")
        expect(answer).to_contain_text("Hello Jack, I'm Jill")
        answer.click()
        expect(page.locator("article.current")).to_contain_text("Hello Jack, I'm Jill")
        page.keyboard.press("y")
        link = str(page.evaluate("navigator.clipboard.readText()"))
        walk.click(page.get_by_role("link", name="Model calls"), "Model calls")
        expect(page.get_by_label("What the model read").locator("article").first).to_be_visible()
    place = link.partition("#")[2]
    with walk.view("harken ui demo") as page:
        agent_in_tree(page, "Jill").click()
        expect(panel_of(page, "Jill").locator("article")).to_have_count(6)
        panel_of(page, "Jill").get_by_role("button", name="discuss Inner").click()
        walk.take_picture(page, "session")
        page.evaluate("(hash) => void (location.hash = hash)", place)
        message = page.locator("article.target, article.current").first
        expect(message).to_contain_text("Hello Jack, I'm Jill")
    walk.check_controls()
