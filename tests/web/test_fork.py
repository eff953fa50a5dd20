"""A session is forked from the page, at a model call and at a message."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.session_kit import read_lines
from tests.web.browser_kit import Browser, Tab, expect, open_own_tab
from tests.web.scenes import ANSWER, run


@pytest.fixture
def own_home(home: Path, tmp_path: Path) -> Path:
    """A home that a test may change."""
    shutil.copytree(home, tmp_path / "home")
    return tmp_path / "home"


@pytest.fixture
def own_tab(browser: Browser, own_home: Path) -> Iterator[Tab]:
    with open_own_tab(browser, own_home) as tab:
        yield tab


def read_session(home: Path, name: str) -> list[dict[str, object]]:
    rows = read_lines(home / "sessions" / f"{name}.jsonl")
    own = ("sum", "session_id")
    return [{key: value for key, value in row.items() if key not in own} for row in rows]


def test_a_model_call_is_forked_with_one_click(own_home: Path, own_tab: Tab) -> None:
    page = own_tab.open("#/session/harbor/step/2")
    page.get_by_role("button", name="Fork from here").click()
    done = page.get_by_role("status").filter(has_text="harbor-fork")
    expect(done).to_contain_text("fork of harbor up to msg_")
    expect(done.get_by_role("link", name="Compare with the original")).to_have_attribute(
        "href", "#/compare?session=harbor&session=harbor-fork"
    )
    own_tab.save_screenshot("fork")
    request = read_session(own_home, "harbor-fork")[-1]["message_id"]
    run(own_home, "fork", "harbor", "--at", str(request), "--name", "by-command")
    by_page, by_command = (read_session(own_home, name) for name in ("harbor-fork", "by-command"))
    assert by_page == by_command
    done.get_by_role("link", name="Open the fork").click()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert "#/session/harbor-fork" in page.url
    page.go_back()
    expect(page.get_by_role("button", name="Fork from here")).to_be_visible()


def test_a_message_has_another_text_in_a_fork(own_home: Path, own_tab: Tab) -> None:
    page = own_tab.open("#/session/harbor")
    page.get_by_text(ANSWER).last.click()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="With changes…").click()
    dialog = page.get_by_role("dialog", name="Fork at")
    text = dialog.get_by_label("Text of the message in the fork")
    expect(text).to_have_value(ANSWER)
    text.fill("It's <b>open</b>.")
    dialog.get_by_label("Name").fill("open code")
    expect(dialog.locator("code")).to_contain_text("""--edit 'It'"'"'s <b>open</b>.' --name""")
    own_tab.expect_problem("422")
    dialog.get_by_role("button", name="Fork", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("not a valid session name")
    dialog.get_by_label("Name").fill("open")
    own_tab.save_screenshot("fork-dialog")
    dialog.get_by_role("button", name="Fork", exact=True).click()
    expect(dialog).to_be_hidden()
    page.get_by_role("link", name="Open the fork").click()
    expect(page.get_by_text("It's <b>open</b>.")).to_be_visible()
    rows = read_session(own_home, "open")
    assert [row.get("content") for row in rows if row.get("role") == "assistant"][-1] == (
        "It's <b>open</b>."
    )


def test_an_import_cannot_be_forked_and_says_how_it_goes_on(own_tab: Tab) -> None:
    page = own_tab.open("#/session/claude%3A5e551011-0000-4000-8000-000000000001/step")
    expect(page.get_by_role("navigation", name="Model calls")).to_be_visible()
    expect(page.get_by_role("button", name="Fork from here")).to_have_count(0)
    page.get_by_text("Continue in…").click()
    expect(page.get_by_role("heading", name="Claude Code")).to_be_visible()
