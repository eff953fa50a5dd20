"""The page of commits: the graph, a commit, two compared, and changes of labels and branches."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.web.browser_kit import Browser, Locator, Page, Tab, expect, open_own_tab
from tests.web.history_scenes import (
    DOCUMENTED,
    FIXED,
    INSERTED,
    RECOVERY,
    SPLIT,
    SUMMARY,
    checkpoint,
    harken,
    read_json,
)


@pytest.fixture
def own_home(history_home: Path, tmp_path: Path) -> Path:
    """A copy of the home, in which a test may write."""
    return Path(shutil.copytree(history_home, tmp_path / "home"))


@pytest.fixture
def tab(browser: Browser, own_home: Path) -> Iterator[Tab]:
    with open_own_tab(browser, own_home) as tab:
        yield tab


def find_row(page: Page, text: str) -> Locator:
    return page.locator("[data-commit]").filter(has_text=text)


def id_of(page: Page, text: str) -> str:
    name = find_row(page, text).first.get_attribute("data-commit")
    assert name is not None
    return name


def open_commit(tab: Tab, text: str) -> Locator:
    """Open the history and select a commit. Return its panel."""
    page = tab.open("#/history")
    find_row(page, text).first.click()
    return page.get_by_role("complementary", name="Commit", exact=True)


def answer_question(page: Page, action: str, text: str | None = None) -> None:
    dialog = page.get_by_role("dialog")
    if text is not None:
        dialog.get_by_role("textbox").fill(text)
    dialog.get_by_role("button", name=action, exact=True).click()


def test_the_graph_shows_branches_compactions_agents_and_names(tab: Tab, own_home: Path) -> None:
    page = tab.open("#/history")
    rows = page.locator("[data-commit]")
    logged = read_json(own_home, "ctx", "log", "--all")
    expect(rows).to_have_count(len(logged))
    shown = [row.get_attribute("data-commit") for row in rows.all()]
    assert {*shown} == {row["id"] for row in logged}
    expect(find_row(page, DOCUMENTED)).to_contain_text("main")
    expect(find_row(page, SUMMARY)).to_contain_text("compaction")
    expect(find_row(page, FIXED)).to_contain_text("reviewed")
    expect(find_row(page, FIXED)).to_contain_text("bob")
    expect(rows.filter(has=page.get_by_text("spawn", exact=True))).not_to_have_count(0)
    # A branch has a lane beside the newest one, until the commit where they part.
    lanes = {text: lane_of(find_row(page, text)) for text in (DOCUMENTED, INSERTED, FIXED, SPLIT)}
    assert lanes[INSERTED] == lanes[FIXED] > lanes[DOCUMENTED] == lanes[SPLIT]
    tab.save_screenshot("history")


def lane_of(row: Locator) -> float:
    box = row.first.locator("path.sign").bounding_box()
    assert box is not None
    return round(box["x"] + box["width"] / 2)


def test_a_commit_shows_its_facts_and_messages_and_leads_to_its_agent(tab: Tab) -> None:
    panel = open_commit(tab, "Say nothing.")
    expect(panel).to_contain_text("harken")
    expect(panel.get_by_role("link", name="quiet")).to_be_visible()
    expect(panel.locator("li")).not_to_have_count(0)
    tab.save_screenshot("commit")
    panel.get_by_role("link", name="Inner").click()
    expect(tab.page.locator("article.target")).to_contain_text("Say nothing.")
    tab.page.go_back()
    expect(panel).to_be_visible()


def test_a_commit_leads_to_its_parent_and_children_and_back_returns(tab: Tab) -> None:
    panel = open_commit(tab, RECOVERY)
    page = tab.page
    first_url = page.url
    panel.get_by_role("button", name=SPLIT).click()
    expect(panel.get_by_role("button", name=INSERTED)).to_be_visible()
    expect(page.locator("[data-commit][aria-pressed=true]")).to_contain_text(SPLIT)
    page.go_back()
    expect(panel).to_contain_text("Recover from errors.")
    assert page.url == first_url


def test_two_commits_are_compared_word_by_word(tab: Tab, own_home: Path) -> None:
    panel = open_commit(tab, FIXED)
    page = tab.page
    panel.get_by_role("button", name="Compare with…").click()
    find_row(page, INSERTED).click()
    diff = page.get_by_role("complementary", name="Comparison of two commits")
    expect(diff.locator(".kind")).to_have_text(["3 kept", "1 rewritten"])
    expect(diff.locator(".changed del")).to_have_text(["but", "two", "fail"])
    expect(diff.locator(".changed ins")).to_have_text(["and", "all", "pass"])
    expect(diff.get_by_text(SPLIT)).to_have_count(0)
    diff.get_by_role("button", name="3 messages kept").click()
    expect(diff.locator(".message.same")).to_have_count(3)
    printed = read_json(own_home, "ctx", "diff", id_of(page, INSERTED), id_of(page, FIXED))
    assert [row["kind"] for row in printed["messages"]] == ["same", "same", "same", "changed"]
    tab.save_screenshot("commits-compared")
    diff.get_by_role("button", name="Swap").click()
    expect(diff.locator(".changed del")).to_have_text(["and", "all", "pass"])
    page.go_back()
    expect(diff.locator(".changed del")).to_have_text(["but", "two", "fail"])


def test_a_compaction_is_compared_with_its_parent(tab: Tab) -> None:
    panel = open_commit(tab, SUMMARY)
    panel.get_by_role("button", name="Compare with parent").click()
    diff = tab.page.get_by_role("complementary", name="Comparison of two commits")
    expect(diff.locator(".kind")).to_have_text(["4 dropped", "1 added"])


def test_links_lead_to_a_commit_and_to_a_comparison(tab: Tab) -> None:
    page = tab.open("#/history")
    before, after = id_of(page, INSERTED), id_of(page, FIXED)
    other = tab.context.new_page()
    other.goto(f"{tab.address}/#/history?commit={after}")
    expect(other.get_by_role("complementary", name="Commit", exact=True)).to_contain_text("bob")
    expect(other.locator("[data-commit][aria-pressed=true]")).to_contain_text(FIXED)
    other.goto(f"{tab.address}/#/history?commit={after}&with={before}")
    expect(other.locator(".counts .kind")).to_have_text(["3 kept", "1 rewritten"])


def test_an_unknown_commit_in_a_link_is_told(tab: Tab) -> None:
    tab.expect_problem("status of 404")
    page = tab.open(f"#/history?commit=ctx-{'0' * 64}")
    expect(page.get_by_role("alert")).to_contain_text("not found")


def test_a_session_shows_its_commits_in_the_colors_of_its_agents(tab: Tab) -> None:
    page = tab.open("#/session/quiet")
    page.get_by_role("link", name="History", exact=True).last.click()
    rows = page.locator("[data-commit]")
    expect(rows.first).to_be_visible()
    expect(find_row(page, SPLIT)).to_have_count(0)
    color = find_row(page, "Say nothing.").get_attribute("class") or ""
    panel_color = [name for name in color.split() if name.startswith("agent-")]
    page.goto(f"{tab.address}/#/session/quiet")
    badge = page.locator("[role=treeitem]").filter(has_text="Inner").locator(".badge")
    expect(badge).to_contain_class(panel_color[0])


def test_a_name_is_found_and_its_commit_is_shown(tab: Tab) -> None:
    tab.expect_problem("status of 404")
    page = tab.open("#/history")
    expect(page.locator("[data-commit]").first).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("rev")
    page.get_by_role("option", name="reviewed").click()
    expect(page.locator("[data-commit][aria-pressed=true]")).to_contain_text(FIXED)
    page.keyboard.press("/")
    page.keyboard.type("quiet")
    page.keyboard.press("Enter")
    expect(page.get_by_role("complementary", name="Commit", exact=True)).to_contain_text("quiet")
    page.keyboard.press("/")
    page.keyboard.type("no-such-thing")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("'no-such-thing' not found")


def test_keys_select_commits_and_compare_them(tab: Tab) -> None:
    page = tab.open("#/history")
    expect(page.locator("[data-commit]").first).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator("[data-commit][aria-pressed=true]")).to_have_count(1)
    page.keyboard.press("j")
    page.keyboard.press("c")
    diff = page.get_by_role("complementary", name="Comparison of two commits")
    expect(diff).to_be_visible()
    page.keyboard.press("Escape")
    expect(diff).to_have_count(0)
    page.keyboard.press("Escape")
    assert page.url.endswith("#/history")


def test_a_label_is_added_and_removed_after_a_question(tab: Tab, own_home: Path) -> None:
    panel = open_commit(tab, RECOVERY)
    page = tab.page
    panel.get_by_role("button", name="label", exact=True).click()
    answer_question(page, "Add the label", "good")
    expect(panel.locator(".name.label")).to_have_text(["good"])
    expect(find_row(page, RECOVERY).locator(".label")).to_have_text("good")
    name = id_of(page, RECOVERY)
    assert read_json(own_home, "ctx", "show", name)["labels"] == ["good"]
    panel.get_by_role("button", name="Remove the label good").click()
    expect(page.get_by_role("dialog")).to_contain_text("The commit and its messages stay.")
    tab.save_screenshot("label-removed")
    page.get_by_role("button", name="Cancel").click()
    assert read_json(own_home, "ctx", "show", name)["labels"] == ["good"]
    panel.get_by_role("button", name="Remove the label good").click()
    answer_question(page, "Remove the label")
    expect(panel.locator(".name.label")).to_have_count(0)
    assert not read_json(own_home, "ctx", "show", name).get("labels")


def test_a_label_of_another_commit_is_moved_after_a_question(tab: Tab, own_home: Path) -> None:
    panel = open_commit(tab, RECOVERY)
    page = tab.page
    panel.get_by_role("button", name="label", exact=True).click()
    answer_question(page, "Add the label", "draft")
    expect(page.get_by_role("dialog")).to_contain_text("It is removed there")
    answer_question(page, "Move the label")
    expect(panel.locator(".name.label")).to_have_text(["draft"])
    expect(find_row(page, INSERTED).locator(".label")).to_have_count(0)
    assert read_json(own_home, "ctx", "resolve", "draft")["id"] == id_of(page, RECOVERY)


def test_branches_are_added_renamed_moved_and_deleted(tab: Tab, own_home: Path) -> None:
    panel = open_commit(tab, RECOVERY)
    page = tab.page
    before = read_json(own_home, "ctx", "branch")
    panel.get_by_role("button", name="branch", exact=True).click()
    answer_question(page, "Add the branch", "try")
    expect(panel.locator(".name.branch")).to_have_text(["try"])
    panel.get_by_role("button", name="Rename the branch try").click()
    answer_question(page, "Rename", "best")
    expect(panel.locator(".name.branch")).to_have_text(["best"])
    panel.get_by_role("button", name="branch", exact=True).click()
    answer_question(page, "Add the branch", "insert")
    expect(page.get_by_role("dialog")).to_contain_text("will be at")
    answer_question(page, "Move the branch")
    expect(panel.locator(".name.branch")).to_have_text(["best", "insert"])
    name = id_of(page, RECOVERY)
    assert read_json(own_home, "ctx", "branch") == {**before, "best": name, "insert": name}
    panel.get_by_role("button", name="Delete the branch best").click()
    expect(page.get_by_role("dialog")).to_contain_text("Only the name is deleted.")
    answer_question(page, "Delete the branch")
    expect(panel.locator(".name.branch")).to_have_text(["insert"])
    assert read_json(own_home, "ctx", "branch") == {**before, "insert": name}


def test_a_change_that_conflicts_with_another_one_is_refused(tab: Tab, own_home: Path) -> None:
    tab.expect_problem("status of 409")
    panel = open_commit(tab, FIXED)
    page = tab.page
    name = id_of(page, FIXED)
    panel.get_by_role("button", name="Remove the label reviewed").click()
    harken(own_home, "ctx", "label", name, "reviewed", "theirs")
    answer_question(page, "Remove the label")
    expect(page.get_by_role("alert")).to_contain_text("changed by another process")
    tab.save_screenshot("conflict")
    assert read_json(own_home, "ctx", "show", name)["labels"] == ["reviewed", "theirs"]
    page.get_by_role("button", name="Cancel").click()
    expect(panel.locator(".name.label")).to_have_text(["reviewed", "theirs"])
    panel.get_by_role("button", name="Delete the branch fixed").click()
    harken(own_home, "ctx", "branch", "fixed", id_of(page, SPLIT), "--from", name)
    answer_question(page, "Delete the branch")
    expect(page.get_by_role("alert")).to_contain_text("another writer moved it")
    assert "fixed" in read_json(own_home, "ctx", "branch")


def test_an_invalid_name_is_refused_with_its_reason(tab: Tab) -> None:
    tab.expect_problem("status of 422")
    panel = open_commit(tab, RECOVERY)
    panel.get_by_role("button", name="branch", exact=True).click()
    answer_question(tab.page, "Add the branch", "not a name")
    expect(tab.page.get_by_role("alert")).to_contain_text("is not the name of a branch")


def test_a_new_commit_appears_while_the_page_is_open(tab: Tab, own_home: Path) -> None:
    page = tab.open("#/history")
    expect(page.locator("[data-commit]").first).to_be_visible()
    checkpoint(own_home, "One more.", "A new answer.", "--branch", "main")
    expect(find_row(page, "A new answer.")).to_contain_text("main")
    expect(find_row(page, DOCUMENTED).locator(".branch")).to_have_count(0)


def test_the_history_is_dark_and_narrow(browser: Browser, tab: Tab) -> None:
    page = tab.page
    page.emulate_media(color_scheme="dark")
    tab.open("#/history")
    expect(page.locator("[data-commit]").first).to_be_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 17, 21)"
    tab.save_screenshot("history-dark")
    page.set_viewport_size({"width": 390, "height": 800})
    find_row(page, FIXED).click()
    panel = page.get_by_role("complementary", name="Commit", exact=True)
    box = panel.bounding_box()
    assert box is not None
    assert (box["x"], box["width"]) == (0, 390)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    tab.save_screenshot("history-narrow")
    panel.get_by_role("button", name="Compare with…").click()
    find_row(page, INSERTED).click()
    diff = page.get_by_role("complementary", name="Comparison of two commits")
    expect(diff.locator(".kind")).to_have_text(["3 kept", "1 rewritten"])
    diff.get_by_role("button", name="End the comparison").click()
    panel.get_by_role("button", name="Close").click()
    expect(panel).to_have_count(0)


def test_every_control_has_a_name(tab: Tab) -> None:
    open_commit(tab, FIXED)
    unnamed = tab.page.evaluate(
        """() => [...document.querySelectorAll("main button, main input, main select, main a")]
            .filter((node) => !(node.ariaLabel || node.textContent.trim() || node.labels?.length))
            .map((node) => node.outerHTML)"""
    )
    assert unnamed == []
