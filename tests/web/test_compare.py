"""The comparison of runs: how to get there, outcomes, where they part, and the messages beside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.ui_kit import show_home
from tests.web.browser_kit import Browser, Tab, expect
from tests.web.history_scenes import QUIET, read_json

PAIR = "#/compare?session=demo&session=quiet"


@pytest.fixture(scope="module")
def address(history_home: Path) -> Iterator[str]:
    with show_home(history_home) as page:
        yield page.address


def test_a_fork_offers_the_comparison_with_its_original(tab: Tab) -> None:
    page = tab.open("#/session/demo")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.get_by_role("link", name="Compare with original")).to_have_count(0)
    page.goto(f"{tab.address}/#/session/quiet")
    page.get_by_role("link", name="Compare with original").click()
    assert page.url.endswith(PAIR)
    expect(page.get_by_role("separator")).to_contain_text("They part here")
    page.go_back()
    expect(page.get_by_role("link", name="Compare with original")).to_be_visible()


def test_sessions_of_the_list_are_chosen_by_checkbox_and_key(tab: Tab) -> None:
    page = tab.open()
    rows = page.locator("a.row")
    expect(rows).to_have_count(2)
    page.get_by_role("checkbox").first.check()
    expect(page.get_by_text("choose one more to compare")).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("c")
    expect(page.get_by_role("checkbox", checked=True)).to_have_count(2)
    tab.save_screenshot("sessions-chosen")
    page.get_by_role("status").get_by_role("link", name="Compare").click()
    expect(page.get_by_role("separator")).to_contain_text("They part here")
    page.go_back()
    expect(page.get_by_role("checkbox", checked=True)).to_have_count(2)
    page.get_by_role("button", name="Clear").click()
    expect(page.get_by_role("checkbox", checked=True)).to_have_count(0)


def test_outcomes_and_partings_are_those_of_the_command(tab: Tab, history_home: Path) -> None:
    page = tab.open(PAIR)
    printed = read_json(history_home, "compare", "demo", "quiet")
    partings = page.locator(".partings li")
    expect(partings).to_have_count(len(printed["partings"]))
    for shown, parting in zip(partings.all(), printed["partings"], strict=True):
        expect(shown).to_contain_text(f"{parting['agent']} after {parting['position']} equal")
    calls = page.get_by_role("row", name="Model calls").get_by_role("cell")
    sides = ("outcome_before", "outcome_after")
    expect(calls).to_have_text([str(printed[side]["model_calls"]) for side in sides])
    answers = page.locator(".answers dd")
    expect(answers).to_have_text([printed[side]["answer"] for side in sides])


def test_messages_are_beside_each_other_from_where_they_part(tab: Tab, history_home: Path) -> None:
    page = tab.open(PAIR)
    fold = page.get_by_role("button", name="before the fork")
    expect(fold).to_have_attribute("aria-expanded", "false")
    expect(page.locator(".row.same")).to_have_count(0)
    differing = page.locator("[data-position='0']")
    expect(differing.get_by_role("article")).to_have_count(2)
    spans = differing.locator(".differs")
    expect(spans.locator("ins").first).to_have_text("Say")
    added = "".join(
        spans.locator(".spans").evaluate(
            "(node) => [...node.childNodes].filter((part) => part.nodeName !== 'DEL').map((part) => part.textContent)"
        )
    )
    assert added == QUIET
    tab.save_screenshot("compare")
    fold.click()
    expect(page.locator(".row.same")).not_to_have_count(0)
    page.get_by_role("link", name="in its session").first.click()
    expect(page.locator("article.target")).to_be_visible()


def test_any_agents_are_compared_and_a_link_leads_there(tab: Tab) -> None:
    page = tab.open(PAIR)
    page.get_by_label("Agent of demo").select_option("Jack")
    expect(page.get_by_label("Agent of demo")).to_have_value("Jack")
    page.get_by_label("Agent of quiet").select_option("Jill")
    expect(page.get_by_role("separator")).to_be_visible()
    assert page.url.endswith("&agent=Jack&agent=Jill")
    other = tab.context.new_page()
    other.goto(page.url)
    expect(other.get_by_label("Agent of quiet")).to_have_value("Jill")
    other.get_by_role("button", name="Jill", exact=True).click()
    expect(other.get_by_label("Agent of demo")).to_have_value("Jill")
    other.go_back()
    expect(other.get_by_label("Agent of demo")).to_have_value("Jack")


def test_a_session_can_be_left_out_and_the_page_tells_what_to_do(tab: Tab) -> None:
    page = tab.open(PAIR)
    page.get_by_role("button", name="Leave out quiet").click()
    expect(page.get_by_role("heading", name="Choose two to four sessions")).to_be_visible()
    tab.save_screenshot("compare-empty")


def test_an_unknown_session_is_told(tab: Tab) -> None:
    tab.expect_problem("status of 404")
    page = tab.open("#/compare?session=demo&session=nothing")
    expect(page.get_by_role("alert").first).to_contain_text("'nothing'")


def test_the_comparison_is_dark_and_narrow(browser: Browser, tab: Tab) -> None:
    page = tab.page
    page.emulate_media(color_scheme="dark")
    tab.open(PAIR)
    expect(page.get_by_role("separator")).to_be_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 17, 21)"
    tab.save_screenshot("compare-dark")
    page.set_viewport_size({"width": 390, "height": 800})
    expect(page.get_by_role("separator")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    tab.save_screenshot("compare-narrow")
