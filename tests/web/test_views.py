"""The other views of a session, dark mode, and a narrow screen."""

from __future__ import annotations

import pytest

from tests.web.browser_kit import Tab, expect
from tests.web.scenes import ANSWER, TASK

VIEWS = {
    "sessions": ("#/", "a.row"),
    "session": ("#/session/harbor", "article"),
    "details": ("#/session/harbor?agent=agent_003&m=msg_040&d=msg_040", "aside .hop"),
    "steps": ("#/session/harbor/step/4", ".context .message"),
    "timeline": ("#/session/harbor/timeline", ".timeline .event .text"),
}
"""Name -> its address, and an element that it has when it is loaded."""
WIDE_ELEMENTS = """() => [...document.querySelectorAll("*")]
    .filter((node) => node.scrollWidth > node.clientWidth && (
        ["HTML", "BODY", "MAIN"].includes(node.tagName) ||
        node.tagName !== "PRE" && /auto|scroll/.test(getComputedStyle(node).overflowX)))
    .map((node) => node.outerHTML.slice(0, 200))"""
"""Return the elements that scroll sideways. Code may: its lines are not wrapped."""
LUMINANCE = """() => {
    const sum = (color) => color.match(/[\\d.]+/g).slice(0, 3).map(Number)
        .reduce((total, part) => total + part / 765, 0);
    const style = getComputedStyle(document.body);
    return [sum(style.backgroundColor), sum(style.color)];
}"""


def test_the_slider_selects_a_model_call_and_new_messages_are_marked(tab: Tab) -> None:
    page = tab.open("#/session/harbor/step?agent=agent_001")
    slider = page.get_by_role("slider", name="Model call")
    expect(slider).to_have_value("4")
    messages = page.locator(".context article")
    expect(messages).to_have_count(8)
    expect(messages.locator(".tag.added")).to_have_count(2)
    expect(page.get_by_role("region", name="Outcome")).to_contain_text(ANSWER)
    tab.save_screenshot("steps")
    slider.fill("1")
    expect(messages).to_have_count(2)
    expect(messages.last).to_contain_text(TASK)
    expect(page.locator(".context")).not_to_contain_text(ANSWER)
    page.keyboard.press("ArrowRight")
    expect(messages).to_have_count(4)
    expect(messages.first).not_to_contain_text("new")
    expect(messages.last.locator(".tag.added")).to_have_text("new")


def test_the_timeline_has_all_events_and_where_messages_came_from(tab: Tab) -> None:
    tab.page.set_viewport_size({"width": 1280, "height": 2000})
    page = tab.open("#/session/harbor/timeline")
    delivery = page.locator(".event").filter(has_text="from main: Which code?")
    expect(delivery).to_have_count(1)
    expect(delivery.locator(".arrow")).to_have_count(1)
    expect(page.locator(".lanes .lane")).to_have_count(4)
    tab.save_screenshot("timeline")
    delivery.click()
    expect(page.get_by_role("complementary")).to_contain_text("msg_032")


@pytest.mark.parametrize("name", VIEWS)
def test_dark_mode_is_that_of_the_system(tab: Tab, name: str) -> None:
    route, element = VIEWS[name]
    tab.page.emulate_media(color_scheme="dark")
    expect(tab.open(route).locator(element).first).to_be_visible()
    background, text = tab.page.evaluate(LUMINANCE)
    assert background < 0.3
    assert text > 0.6
    tab.save_screenshot(f"{name}-dark")


def test_the_colors_can_be_chosen_and_stay(tab: Tab) -> None:
    page = tab.open()
    page.get_by_role("button", name="Colors").click()
    page.get_by_role("button", name="Change to dark").click()
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    background, _ = page.evaluate(LUMINANCE)
    assert background < 0.3


@pytest.mark.parametrize("name", VIEWS)
def test_a_phone_scrolls_in_one_direction_only(tab: Tab, name: str) -> None:
    route, element = VIEWS[name]
    tab.page.set_viewport_size({"width": 390, "height": 844})
    expect(tab.open(route).locator(element).first).to_be_visible()
    assert tab.page.evaluate(WIDE_ELEMENTS) == []
    tab.save_screenshot(f"{name}-390")
