"""A session as conversations: what each agent said, and what others heard of it."""

from __future__ import annotations

import re

from tests.web.browser_kit import Locator, Page, Tab, expect
from tests.web.scenes import (
    ANSWER,
    DENIED,
    EXECUTED_CALL,
    IMAGE_SIZE,
    IMPORTED,
    REWRITTEN,
    SPOKEN,
    TASK,
)

MAIN, GUARD, ANN = "agent_001", "agent_002", "agent_003"
HARBOR = "#/session/harbor"


def panel_of(page: Page, name: str) -> Locator:
    """Return the panel of an agent, or of several."""
    return page.get_by_role("region", name=name, exact=True)


def test_a_session_is_a_conversation_of_its_first_agent(tab: Tab) -> None:
    page = tab.open(HARBOR)
    expect(page.get_by_role("heading", level=1)).to_have_text(TASK)
    items = panel_of(page, "main").locator("article")
    expect(items).to_have_count(6)
    expect(items.nth(1)).to_contain_text(TASK)
    expect(items.last).to_contain_text(ANSWER)
    expect(items.nth(2).locator("strong")).to_have_text("tour")  # It is Markdown.
    tab.save_screenshot("session")


def test_the_denied_draft_is_marked_and_the_rewritten_answer_shows_the_difference(tab: Tab) -> None:
    panel = panel_of(tab.open(f"{HARBOR}?agent={ANN}"), "Ann")
    expect(panel.locator("article")).to_have_count(5)
    drafts = panel.locator("article.label-draft")
    expect(drafts).to_have_count(2)
    expect(drafts.first).to_contain_text(DENIED)
    expect(drafts.first.locator(".tag")).to_have_text("denied by guard")
    expect(drafts.last).to_contain_text(SPOKEN)
    expect(drafts.last.locator("del")).to_have_text("secret 5678")
    expect(drafts.last.locator("ins")).to_have_text("hidden")
    expect(panel.locator("article.label-said")).to_have_count(0)
    tab.save_screenshot("drafts")


def test_the_listener_sees_what_it_heard_and_never_the_draft(tab: Tab) -> None:
    page = tab.open(HARBOR)
    panel = panel_of(page, "main")
    expect(panel.locator("article")).to_have_count(6)
    for line in panel.locator(".call > button").all():
        if line.get_attribute("aria-expanded") == "false":
            line.click()
    expect(panel.locator(".call .result")).to_have_count(3)
    expect(panel).to_contain_text(REWRITTEN)
    for secret in ("1234", "5678"):
        expect(page.locator("body")).not_to_contain_text(secret)


def test_a_call_unfolds_to_its_arguments_and_result(tab: Tab) -> None:
    panel = panel_of(tab.open(HARBOR), "main")
    call = panel.locator(".call").filter(has_text="send")
    expect(call.locator(".body")).to_have_count(0)
    expect(call.locator(".subject")).to_have_text(EXECUTED_CALL)  # What ran, not what was called.
    expect(call.locator(".preview")).to_have_text(f"sent {EXECUTED_CALL}")
    call.get_by_role("button").first.click()
    expect(call.locator(".arguments")).to_contain_text(EXECUTED_CALL)
    expect(call.locator(".rewritten ins").last).to_have_text("dusk")
    expect(call.locator(".result")).to_contain_text(f"sent {EXECUTED_CALL}")
    call.get_by_role("button").first.click()
    expect(call.locator(".body")).to_have_count(0)


def test_a_call_that_changes_a_file_shows_the_diff(tab: Tab) -> None:
    call = panel_of(tab.open(HARBOR), "main").locator(".call").filter(has_text="edit_file")
    expect(call.locator(".diff .dropped")).to_have_text("-by sea")
    expect(call.locator(".diff .added")).to_have_text("+by land")
    expect(call.locator(".size")).to_have_text("+1 −1")


def test_the_tree_selects_an_agent_and_back_returns(tab: Tab) -> None:
    page = tab.open(HARBOR)
    agents = page.get_by_role("treeitem")
    expect(agents).to_have_count(4)
    assert [agent.get_attribute("aria-level") for agent in agents.all()] == ["1", "2", "2", "3"]
    page.locator(f"[data-agent={GUARD}]").click()
    expect(panel_of(page, "guard").locator("article.label-verdict").first).to_contain_text("OK")
    page.go_back()
    expect(panel_of(page, "main")).to_be_visible()


def test_two_agents_are_shown_side_by_side(tab: Tab) -> None:
    page = tab.open(HARBOR)
    expect(panel_of(page, "main").locator("article")).to_have_count(6)
    page.locator(f"[data-agent={ANN}]").click(modifiers=["ControlOrMeta"])
    expect(panel_of(page, "Ann").locator("article")).to_have_count(5)
    boxes = [panel_of(page, name).bounding_box() for name in ("main", "Ann")]
    assert boxes[0] is not None
    assert boxes[1] is not None
    assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]
    assert page.url.endswith(f"?agent={MAIN}&agent={ANN}")
    expect(panel_of(page, "main")).not_to_contain_text("1234")
    tab.save_screenshot("panels")
    page.keyboard.press("x")
    expect(page.locator(".panel")).to_have_count(1)


def test_a_dialog_has_what_was_said_and_marks_drafts(tab: Tab) -> None:
    page = tab.open(HARBOR)
    page.get_by_role("button", name="Dialog").click()
    dialog = panel_of(page, "main, Ann")
    expect(dialog.locator("article.label-said").filter(has_text=REWRITTEN)).to_have_count(1)
    expect(dialog.locator("article.label-draft").filter(has_text=DENIED)).to_have_count(1)
    expect(dialog.locator("article.label-said").filter(has_text=DENIED)).to_have_count(0)
    tab.save_screenshot("dialog")


def test_the_details_of_a_message_tell_who_heard_it(tab: Tab) -> None:
    page = tab.open(f"{HARBOR}?agent={ANN}")
    answer = panel_of(page, "Ann").locator("article").last
    answer.hover()
    answer.get_by_role("button", name=re.compile("Details")).click()
    details = page.get_by_role("complementary")
    expect(details.get_by_role("heading", name="Who heard it 1")).to_be_visible()
    hearer = details.locator("h3:has-text('Who heard it') + ul .hop")
    expect(hearer).to_contain_text("main")
    expect(hearer).to_contain_text(REWRITTEN)
    expect(hearer.locator(".tag")).to_have_text("changed")
    tab.save_screenshot("details")
    details.get_by_role("button", name="Graph").click()
    expect(details.locator("svg").filter(has_text="main").first).to_be_visible()
    tab.save_screenshot("graph")
    page.keyboard.press("Escape")
    expect(details).to_have_count(0)


def test_a_denied_draft_has_its_verdict_and_did_not_reach_its_addressee(tab: Tab) -> None:
    page = tab.open(f"{HARBOR}?agent={ANN}&d=msg_035")
    details = page.get_by_role("complementary")
    expect(details.locator("h3:has-text('Verdicts') + ul")).to_contain_text("no codes")
    expect(details.locator("h3:has-text('Who heard it') + ul .hop")).to_have_count(0)


def test_keys_move_through_messages_and_open_details(tab: Tab) -> None:
    page = tab.open(HARBOR)
    expect(panel_of(page, "main").locator("article")).to_have_count(6)
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.locator("article.current")).to_have_attribute("aria-posinset", "2")
    page.keyboard.press("Enter")
    expect(page.get_by_role("complementary")).to_contain_text("msg_004")


def test_an_image_is_shown(tab: Tab) -> None:
    page = tab.open("#/session/album")
    expect(page.locator("article img")).to_be_visible()
    size = "(image) => image.decode().then(() => [image.naturalWidth, image.naturalHeight])"
    assert page.locator("article img").evaluate(size) == [*IMAGE_SIZE]
    tab.save_screenshot("image")


def test_an_imported_session_is_shown_like_a_recorded_one(tab: Tab) -> None:
    page = tab.open(f"#/session/{IMPORTED}")
    items = panel_of(page, "main").locator("article")
    expect(items).to_have_count(3)
    expect(items.nth(1).locator(".preview")).to_have_text("sencha")
    page.get_by_text("Continue in").click()
    expect(page.locator(".menu")).to_contain_text("harken resume claude:")


def test_an_unknown_session_is_an_error_that_leads_back(tab: Tab) -> None:
    tab.expect_problem("status of 404")
    page = tab.open("#/session/none")
    expect(page.get_by_role("alert")).to_contain_text("Not found")
    page.get_by_role("link", name="All sessions", exact=True).click()
    expect(page.locator("a.row").first).to_be_visible()
