"""Many agents and panels: the tree, finding in a conversation, panels at the same time, lanes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from harken.core.events import AgentMoved
from harken.session.session import Session
from tests.cli.ui_kit import show_home
from tests.session_kit import create_agent, log_user_message, session_options
from tests.web.browser_kit import Page, Tab, expect
from tests.web.large_scenes import AGENTS, LEADS, NEEDLE, write_large_log

CROWD, MOVED = "#/session/crowd", "#/session/moved"
MAIN, LEAD_1 = "agent_001", "agent_002"
GONE = re.compile(r"\bgone\b")
MARKS = "() => [...CSS.highlights.get('find') ?? []].map((range) => range.toString())"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a viewer with a session of many agents, and one in which agents moved."""
    home = tmp_path_factory.mktemp("crowd")
    (home / "sessions").mkdir()
    write_large_log(home / "sessions" / "crowd.jsonl", messages=4000)
    write_moved_log(home / "sessions" / "moved.jsonl")
    with show_home(home) as page:
        yield page.address


def write_moved_log(log: Path) -> None:
    """Write a session in which Bob becomes a hook of Ann, and goes."""
    with Session(log, options=session_options()) as session:
        ann = create_agent(session, relation="primary", name="Ann")
        bob = create_agent(session, cause=session.agent(ann).birth, name="Bob")
        log_user_message(session, ann, "Hello")
        session.append(AgentMoved(agent_id=bob, place="hook", parent=ann))
        session.append(AgentMoved(agent_id=bob, place="gone"))


def names_in_tree(page: Page) -> list[str]:
    return [
        str(text)
        for text in page.locator("[role=treeitem] .name > span:first-child").all_inner_texts()
    ]


def test_the_tree_of_many_agents_is_collapsed_and_can_be_filtered(tab: Tab) -> None:
    page = tab.open(CROWD)
    items = page.get_by_role("treeitem")
    expect(items).to_have_count(1 + LEADS)
    expect(items.nth(1)).to_have_attribute("aria-expanded", "false")
    expect(items.nth(1)).to_have_attribute("aria-setsize", str(LEADS))
    page.get_by_role("searchbox", name="Find an agent").fill("worker 12")
    expect(page.locator("[role=treeitem]").filter(has_text="worker 127")).to_be_visible()
    assert names_in_tree(page)[:3] == ["main", "lead 1", "worker 120"]
    tab.save_screenshot("tree-filtered")
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="worker 120", exact=True)).to_be_visible()
    page.get_by_role("searchbox", name="Find an agent").fill("nobody")
    expect(page.get_by_text("No agent has this name.")).to_be_visible()


def test_keys_move_in_the_tree_and_open_subtrees(tab: Tab) -> None:
    page = tab.open(CROWD)
    items = page.get_by_role("treeitem")
    items.first.focus()
    page.keyboard.press("ArrowDown")
    expect(items.nth(1)).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(items.nth(1)).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("ArrowRight")
    expect(page.locator("[role=treeitem]:focus")).to_contain_text("worker 10")
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="worker 10", exact=True)).to_be_visible()
    page.keyboard.press("ArrowLeft")
    expect(items.nth(1)).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(items).to_have_count(1 + LEADS)
    page.keyboard.press("End")
    expect(page.locator("[role=treeitem]:focus")).to_contain_text(f"lead {LEADS}")


def test_a_text_is_found_in_the_whole_conversation(tab: Tab) -> None:
    page = tab.open(CROWD)
    expect(page.locator("article").first).to_be_visible()
    page.keyboard.press("f")
    field = page.get_by_role("searchbox", name="Find in this conversation")
    expect(field).to_be_focused()
    field.fill(NEEDLE.upper())
    status = page.locator(".find .status")
    expect(status).to_have_text("1 of 22")
    expect(page.locator("article.current")).to_contain_text(f"the {NEEDLE}")
    assert set(page.evaluate(MARKS)) == {NEEDLE}
    page.keyboard.press("Shift+Enter")
    expect(status).to_have_text("22 of 22")
    expect(page.locator("article.current")).to_contain_text("Question 951: ")
    expect(page.locator("article.current")).to_be_in_viewport()
    tab.save_screenshot("find")
    field.fill("line 23 of the result of c999")
    expect(status).to_have_text("1 of 1")
    # The call is folded at first, and is opened to show the match.
    expect(page.locator("article.current .result")).to_contain_text("line 23 of the result of c999")
    field.fill("no such words")
    expect(status).to_have_text("not found")
    page.keyboard.press("Escape")
    expect(field).to_have_count(0)
    assert page.evaluate(MARKS) == []


def test_scrolling_a_panel_moves_the_others_to_the_same_time(tab: Tab) -> None:
    page = tab.open(f"{CROWD}?agent={MAIN}&agent={MAIN},{LEAD_1}")
    panels = page.locator(".panel")
    expect(panels.nth(1).locator("article").first).to_be_visible()
    page.mouse.move(500, 400)
    page.mouse.wheel(0, 60_000)
    expect(panels.nth(1).locator("article[aria-posinset='1']")).to_have_count(0)
    before = panels.nth(1).locator("article").first.get_attribute("aria-posinset")
    page.get_by_role("button", name="Aligned").click()
    page.mouse.move(500, 400)
    page.mouse.wheel(0, -200_000)
    expect(panels.nth(0).locator("article[aria-posinset='1']")).to_be_in_viewport()
    assert panels.nth(1).locator("article").first.get_attribute("aria-posinset") == before
    tab.save_screenshot("aligned")


def test_a_link_to_an_unknown_agent_offers_the_first_one(tab: Tab) -> None:
    tab.expect_problem("404")
    page = tab.open(f"{CROWD}?agent=agent_999")
    expect(page.locator("main [role=alert]")).to_contain_text("no agent agent_999")
    page.get_by_role("button", name="Show main").click()
    expect(
        page.get_by_role("region", name="main", exact=True).locator("article").first
    ).to_be_visible()


def test_the_tree_can_be_shown_as_it_was_after_a_move(tab: Tab) -> None:
    page = tab.open(MOVED)
    choice = page.get_by_label("Tree at a time")
    expect(choice.locator("option")).to_have_count(3)
    bob = page.locator("[role=treeitem]").filter(has_text="Bob")
    expect(bob).to_have_class(GONE)
    choice.select_option(index=1)
    expect(bob).to_have_attribute("aria-label", "Bob, hook, 0 verdicts")
    expect(bob).not_to_have_class(GONE)
    tab.save_screenshot("moves")
    choice.select_option("now")
    expect(bob).to_have_class(GONE)


def test_the_timeline_of_many_agents_groups_subtrees_and_zooms(tab: Tab) -> None:
    page = tab.open(f"{CROWD}/timeline")
    expect(page.get_by_text(f"Agents: 12 of {AGENTS}")).to_be_visible()
    expect(page.locator(".lanes .lane-name").first).to_have_text("main")
    page.get_by_role("button", name="Subtrees").click()
    expect(page.get_by_text(f"Agents: {1 + LEADS} of {AGENTS}")).to_be_visible()
    count = page.locator(".event .text").count()
    page.keyboard.press("-")
    expect(page.locator(".event.dense").first).to_be_visible()
    assert page.locator(".event .text").count() > count
    tab.save_screenshot("timeline-many")
    page.keyboard.press("-")
    expect(page.locator(".event.overview").first).to_be_visible()
    expect(page.get_by_role("button", name="Smaller rows")).to_be_disabled()
    page.get_by_text("Agents: 11").click()
    page.get_by_role("searchbox", name="Find an agent").fill("lead 2")
    page.get_by_role("checkbox", name="lead 2").uncheck()
    expect(page.locator(".lanes .lane")).to_have_count(LEADS)
