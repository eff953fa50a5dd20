"""The list of sessions, and how a browser gets to one."""

from __future__ import annotations

import pytest

from tests.cli.ui_kit import TOKEN
from tests.web.browser_kit import Tab, expect
from tests.web.scenes import ANSWER, IMPORTED_TITLE, TASK

TITLES = ["Look at this picture.", TASK, IMPORTED_TITLE]


def test_all_sessions_are_listed_with_their_facts(tab: Tab) -> None:
    page = tab.open()
    rows = page.locator("a.row")
    expect(rows).to_have_count(len(TITLES))
    for title in TITLES:
        expect(rows.filter(has_text=title)).to_have_count(1)
    expect(rows.filter(has_text=IMPORTED_TITLE)).to_contain_text("claude")
    expect(rows.filter(has_text=TASK)).to_contain_text("4 agents")
    expect(page).to_have_title("Sessions · Harken")
    tab.save_screenshot("sessions")


def test_a_filter_keeps_the_sessions_of_one_runtime(tab: Tab) -> None:
    page = tab.open()
    page.get_by_label("Runtime").select_option("claude")
    expect(page.locator("a.row .title .text")).to_have_text([IMPORTED_TITLE])
    assert page.url.endswith("#/?runtime=claude")


def test_a_search_finds_messages_and_leads_to_them(tab: Tab) -> None:
    page = tab.open()
    expect(page.locator("a.row")).to_have_count(len(TITLES))
    page.keyboard.press("/")
    page.keyboard.type("keeps the code")
    hit = page.locator(".hits a")
    expect(hit).to_contain_text(ANSWER)
    tab.save_screenshot("search")
    hit.click()
    expect(page.locator("article.target")).to_contain_text(ANSWER)


def test_a_search_without_matches_offers_all_sessions(tab: Tab) -> None:
    page = tab.open()
    page.get_by_placeholder("Search sessions").fill("zzznothing")
    page.get_by_role("button", name="Show all sessions").click()
    expect(page.locator("a.row")).to_have_count(len(TITLES))


def test_keys_select_a_session_and_back_returns_to_the_list(tab: Tab) -> None:
    page = tab.open()
    expect(page.locator("a.row")).to_have_count(len(TITLES))
    page.keyboard.press("j")
    page.keyboard.press("j")
    second = page.locator("a.row").nth(1)
    expect(second).to_contain_class("current")
    title = second.locator(".text").inner_text()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(title)
    page.go_back()
    expect(page.locator("a.row")).to_have_count(len(TITLES))


def test_a_deep_link_opens_its_message_in_another_tab(tab: Tab) -> None:
    expect(tab.open().locator("a.row")).to_have_count(len(TITLES))
    other = tab.context.new_page()
    other.goto(f"{tab.address}/#/session/harbor?agent=agent_003&m=msg_040")
    expect(other.locator("article.target")).to_have_attribute("data-message", "msg_040")
    expect(other.locator("[data-agent=agent_003]")).to_have_attribute("aria-selected", "true")


def test_the_token_is_taken_out_of_the_address(tab: Tab) -> None:
    tab.page.goto(f"{tab.address}/#token={TOKEN}&session=harbor")
    expect(tab.page.get_by_role("heading", level=1)).to_have_text(TASK)
    assert TOKEN not in tab.page.url


@pytest.mark.parametrize("fragment", ["", "#token=an-earlier-one", "#/session/harbor"])
def test_a_link_without_the_token_shows_how_to_get_one(tab: Tab, fragment: str) -> None:
    tab.page.goto(f"{tab.address}/{fragment}")
    expect(tab.page.get_by_role("heading", level=1)).to_have_text(
        "This page needs the link that harken ui printed"
    )
    expect(tab.page.locator("main")).to_contain_text("start harken ui")
    tab.save_screenshot("no-token")
