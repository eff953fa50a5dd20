"""A session runs in the server of the page: messages, questions, interruptions, several tabs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.cli.ui_kit import show_home
from tests.cli.ui_run_kit import LONG_COMMAND, Runs, folder, model
from tests.web.browser_kit import Browser, Locator, Page, Tab, expect
from tests.web.test_live import LOST_CONNECTION

__all__ = ["folder", "model"]


class Stage:
    """A server, its runs, and tabs that show them."""

    def __init__(self, browser: Browser, home: Path, address: str, runs: Runs) -> None:
        self.home, self.address, self.runs = home, address, runs
        self._browser = browser
        self._tabs: list[Tab] = []

    def open_tab(
        self, route: str = "#/session/tea", *, width: int = 1280, dark: bool = False
    ) -> Tab:
        """Open another browser at a page."""
        context = self._browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme="dark" if dark else "light"
        )
        tab = Tab(context, self.address)
        tab.open(route)
        self._tabs.append(tab)
        return tab

    def close(self) -> None:
        """Check and close all tabs."""
        problems = [problem for tab in self._tabs for problem in tab.problems]
        for tab in self._tabs:
            tab.context.close()
        assert problems == []


@pytest.fixture
def stage(browser: Browser, tmp_path: Path) -> Iterator[Stage]:
    with show_home(tmp_path / "home") as server:
        stage = Stage(browser, tmp_path / "home", server.address, Runs(server))
        yield stage
        stage.close()


@pytest.fixture
def tea(stage: Stage, model: str, folder: Path) -> str:
    stage.runs.start(model=model, folder=str(folder), name="tea")
    return "tea"


def composer(page: Page) -> Locator:
    return page.get_by_role("region", name="Write to an agent")


def say(page: Page, text: str) -> None:
    field = composer(page).get_by_role("textbox")
    field.fill(text)
    field.press("Enter")
    expect(field).to_have_value("")


def panel(page: Page, name: str = "main") -> Locator:
    return page.get_by_role("region", name=name, exact=True)


def question(page: Page, name: str = "main wants to use bash") -> Locator:
    return page.get_by_role("form", name=name)


def test_a_message_is_sent_with_enter_and_a_line_begun_with_shift_enter(
    stage: Stage, tea: str
) -> None:
    tab = stage.open_tab()
    field = composer(tab.page).get_by_role("textbox", name="Message to main")
    field.press_sequentially("hello")
    field.press("Shift+Enter")
    field.press_sequentially("there")
    expect(field).to_have_value("hello\nthere")
    field.press("Enter")
    expect(panel(tab.page).get_by_text("Hi there.")).to_be_visible()
    expect(field).to_have_value("")
    assert stage.runs.said(tea) == [("Heard", "hello\nthere"), ("Said", "Hi there.")]
    tab.save_screenshot("run")


def test_a_message_to_a_subagent_goes_to_the_active_panel(stage: Stage, tea: str) -> None:
    tab = stage.open_tab()
    page = tab.page
    say(page, "make Ann")
    expect(panel(page).get_by_text("Done.")).to_be_visible()
    page.get_by_role("treeitem", name="Ann").first.click()
    expect(composer(page).get_by_role("textbox", name="Message to Ann")).to_be_visible()
    say(page, "Coffee?")
    expect(panel(page, "Ann").get_by_text("Coffee is fine, too.")).to_be_visible()
    tab.save_screenshot("run-subagent")
    composer(page).get_by_label("Write to", exact=True).select_option(label="main")
    say(page, "hello")
    page.get_by_role("treeitem", name="main").first.click()
    expect(panel(page).get_by_text("Hi there.")).to_be_visible()


@pytest.mark.parametrize("is_allowed", [True, False])
def test_an_action_is_allowed_or_denied(
    stage: Stage, tea: str, folder: Path, *, is_allowed: bool
) -> None:
    tab = stage.open_tab(dark=not is_allowed)
    page = tab.page
    say(page, "touch it")
    expect(question(page)).to_contain_text("touch made.txt")
    tab.save_screenshot(f"run-question-{'light' if is_allowed else 'dark'}")
    if is_allowed:
        question(page).get_by_role("button", name="Allow once").click()
    else:
        question(page).get_by_role("button", name="Deny with a reason…").click()
        reason = question(page).get_by_label("Reason or instruction")
        reason.fill("use <b>tea</b>")
        reason.press("Enter")
    expect(question(page)).to_have_count(0)
    expect(panel(page).get_by_text("Done.")).to_be_visible()
    assert (folder / "made.txt").exists() == is_allowed
    if not is_allowed:
        expect(panel(page).get_by_text("denied it: use <b>tea</b>").first).to_be_visible()


def test_an_action_is_shown_with_what_a_terminal_would_hide(stage: Stage, tea: str) -> None:
    """A shell runs what stands in the sequences of a terminal: `. ./made`, and `>0m`."""
    page = stage.open_tab().page
    say(page, "hide it")
    expect(question(page)).to_contain_text("true ⟨U+001B⟩[;. ./made⟨U+009B⟩>0m")
    question(page).get_by_role("button", name="Deny", exact=True).click()
    expect(panel(page).get_by_text("Done.")).to_be_visible()


def test_all_of_a_long_action_can_be_read_before_it_is_allowed(stage: Stage, tea: str) -> None:
    tab = stage.open_tab()
    page = tab.page
    say(page, "long command")
    expect(question(page)).to_contain_text("Only the beginning is shown here")
    assert len(question(page).locator(".preview").inner_text()) < len(LONG_COMMAND)
    question(page).get_by_role("button", name="Show all").click()
    text = page.get_by_role("dialog")
    text.locator(".scroller").evaluate("(node) => void (node.scrollTop = node.scrollHeight)")
    expect(text.get_by_text("the end ⟨U+001B⟩[;. ./made")).to_be_visible()
    tab.save_screenshot("run-long-question")
    page.keyboard.press("Escape")
    question(page).get_by_role("button", name="Deny", exact=True).click()
    expect(panel(page).get_by_text("Done.")).to_be_visible()


def test_an_action_that_is_always_allowed_is_not_asked_again(
    stage: Stage, tea: str, folder: Path
) -> None:
    page = stage.open_tab().page
    say(page, "touch it")
    question(page).get_by_role("button", name="Always allow…").click()
    expect(question(page).get_by_label("bash(touch made.txt)")).to_be_checked()
    page.keyboard.press("Escape")
    question(page).get_by_role("button", name="Always allow…").click()
    question(page).get_by_role("button", name="Always allow", exact=True).click()
    expect(panel(page).get_by_text("Done.")).to_be_visible()
    (folder / "made.txt").unlink()
    say(page, "touch again")
    expect(panel(page).get_by_text("Done.")).to_have_count(2)
    assert (folder / "made.txt").exists()


def test_the_first_answer_of_two_tabs_counts_and_the_other_sees_it(stage: Stage, tea: str) -> None:
    first, second = stage.open_tab(), stage.open_tab()
    say(first.page, "touch it")
    for tab in (first, second):
        expect(question(tab.page)).to_be_visible()
    question(second.page).get_by_role("button", name="Deny", exact=True).click()
    for tab in (first, second):
        expect(question(tab.page)).to_have_count(0)
        expect(panel(tab.page).get_by_text("Done.")).to_be_visible()
    say(second.page, "hello")
    expect(panel(first.page).get_by_text("Hi there.")).to_be_visible()


def test_a_question_of_an_agent_is_answered_after_a_reload(stage: Stage, tea: str) -> None:
    tab = stage.open_tab()
    page = tab.page
    say(page, "ask me")
    expect(question(page, "main asks")).to_contain_text("Which tea?")
    composer(page).get_by_role("textbox").fill("not sent yet")
    page.reload()
    expect(composer(page).get_by_role("textbox")).to_have_value("not sent yet")
    question(page, "main asks").get_by_role("button", name="green").click()
    expect(panel(page).get_by_text("You said green.")).to_be_visible()
    say(page, "ask me")
    answer = question(page, "main asks").get_by_label("Your answer")
    answer.fill("green, with <i>milk</i>")
    answer.press("Enter")
    expect(panel(page).get_by_text("You said green.")).to_have_count(2)


def test_a_turn_is_streamed_interrupted_and_what_waited_is_given_back(
    stage: Stage, tea: str
) -> None:
    tab = stage.open_tab()
    page = tab.page
    say(page, "slow")
    writing = page.get_by_role("group", name="main is writing")
    expect(writing).to_contain_text("one")
    page.reload()
    expect(writing).to_contain_text("one")
    say(page, "hello")
    expect(composer(page).get_by_text("then hello")).to_be_visible()
    tab.save_screenshot("run-streaming")
    composer(page).get_by_role("button", name="Stop").click()
    expect(writing).to_have_count(0)
    expect(composer(page)).to_contain_text("Not sent")
    composer(page).get_by_role("button", name="Put it back").click()
    field = composer(page).get_by_role("textbox")
    expect(field).to_have_value("hello")
    field.press("Enter")
    expect(panel(page).get_by_text("Hi there.")).to_be_visible()


def test_escape_stops_the_turn_and_a_button_continues_it(stage: Stage, tea: str) -> None:
    page = stage.open_tab().page
    say(page, "touch it")
    expect(question(page)).to_be_visible()
    composer(page).get_by_role("textbox").press("Escape")
    expect(question(page)).to_have_count(0)
    composer(page).get_by_role("button", name="Continue the turn").click()
    question(page).get_by_role("button", name="Allow once").click()
    expect(panel(page).get_by_text("Done.")).to_be_visible()


def test_a_failed_model_call_is_shown_where_the_message_was_written(stage: Stage, tea: str) -> None:
    page = stage.open_tab().page
    say(page, "fail")
    expect(composer(page).get_by_role("alert")).to_contain_text("the key is not valid")
    say(page, "hello")
    expect(panel(page).get_by_text("Hi there.")).to_be_visible()
    expect(composer(page).get_by_role("alert")).to_have_count(0)


def test_a_session_ends_and_is_continued_here(stage: Stage, tea: str, folder: Path) -> None:
    tab = stage.open_tab()
    page = tab.page
    expect(page.get_by_role("button", name="Continue here")).to_have_count(0)
    say(page, "hello")
    expect(panel(page).get_by_text("Hi there.")).to_be_visible()
    composer(page).get_by_role("button", name="End", exact=True).click()
    expect(composer(page)).to_have_count(0)
    page.get_by_role("button", name="Continue here").click()
    dialog = page.get_by_role("dialog", name="Continue here")
    expect(dialog.get_by_label("Working folder")).to_have_value(str(folder))
    tab.save_screenshot("run-continue")
    dialog.get_by_label("Working folder").fill("/none")
    tab.expect_problem("422")
    expect(dialog.get_by_role("alert")).to_contain_text("no such folder")
    dialog.get_by_label("Working folder").fill(str(folder))
    dialog.get_by_role("button", name="Continue here").click()
    say(page, "hello")
    expect(panel(page).get_by_text("Hi there.")).to_have_count(2)


def test_a_new_chat_begins_with_its_message(stage: Stage, model: str, folder: Path) -> None:
    tab = stage.open_tab("#/chat")
    page = tab.page
    page.get_by_label("Model").fill("nobody/nothing")
    page.get_by_label("Working folder").fill(str(folder))
    page.get_by_label("Message").fill("hello")
    tab.expect_problem("422")
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("alert")).to_contain_text("nobody")
    page.get_by_label("Model").fill(model)
    tab.save_screenshot("new-chat")
    page.get_by_label("Message").press("Enter")
    expect(panel(page).get_by_text("Hi there.")).to_be_visible()
    assert "#/session/session_" in page.url
    page.go_back()
    running = page.get_by_role("region", name="Running here")
    expect(running.get_by_role("link")).to_contain_text("waits for a message")
    running.get_by_role("link").click()
    expect(panel(page).get_by_text("Hi there.")).to_be_visible()


def test_a_fork_runs_beside_its_original(stage: Stage, tea: str) -> None:
    page = stage.open_tab().page
    say(page, "hello")
    expect(panel(page).get_by_text("Hi there.")).to_be_visible()
    panel(page).get_by_text("Hi there.").click()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Fork from here").click()
    page.get_by_role("link", name="Open the fork").click()
    page.get_by_role("button", name="Continue here").click()
    dialog = page.get_by_role("dialog", name="Continue here")
    dialog.get_by_role("button", name="Continue here").click()
    say(page, "make Ann")
    expect(panel(page).get_by_text("Done.")).to_be_visible()
    assert stage.runs.said(tea)[-1] == ("Said", "Hi there.")


def test_a_page_outlives_the_server_and_continues_the_session(
    stage: Stage, browser: Browser, tmp_path: Path, model: str
) -> None:
    with browser.new_context() as context:
        with show_home(tmp_path / "other") as server:
            runs = Runs(server)
            runs.start(model=model, folder=str(tmp_path), name="tea")
            tab = Tab(context, server.address)
            tab.expect_problem(LOST_CONNECTION)
            page = tab.open("#/session/tea")
            say(page, "slow")
            expect(page.get_by_role("group", name="main is writing")).to_contain_text("one")
            say(page, "hello")
        with show_home(tmp_path / "other", urlsplit(server.address).port or 0):
            page.get_by_role("button", name="Continue here").click()
            dialog = page.get_by_role("dialog", name="Continue here")
            dialog.get_by_role("button", name="Continue here").click()
            field = composer(page).get_by_role("textbox")
            expect(field).to_have_value("hello")
            field.press("Enter")
            expect(panel(page).get_by_text("Hi there.")).to_be_visible()
            expect(panel(page).get_by_text("slow", exact=True)).to_have_count(1)
            assert tab.problems == []
            context.close()


def test_a_run_is_usable_on_a_phone(stage: Stage, tea: str) -> None:
    tab = stage.open_tab(width=390)
    page = tab.page
    say(page, "touch it")
    question(page).get_by_role("button", name="Allow once").scroll_into_view_if_needed()
    tab.save_screenshot("run-phone")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    question(page).get_by_role("button", name="Allow once").click()
    expect(panel(page).get_by_text("Done.")).to_be_visible()


def test_a_session_that_waits_for_an_answer_is_marked_in_the_list(stage: Stage, tea: str) -> None:
    tab = stage.open_tab("#/")
    row = tab.page.locator("a.row")
    expect(row).to_contain_text("live")
    stage.runs.send(tea, "touch it")
    stage.runs.wait_question(tea)
    tab.page.reload()
    expect(row.locator(".tag")).to_have_text("waits for you")
    tab.save_screenshot("sessions-waiting")
    row.click()
    question(tab.page).get_by_role("button", name="Deny").first.click()
    expect(question(tab.page)).to_have_count(0)
    tab.page.go_back()
    tab.page.reload()
    expect(row.locator(".tag")).to_have_text("live")


def test_a_command_of_the_terminal_is_not_sent_by_mistake(stage: Stage, tea: str) -> None:
    page = stage.open_tab().page
    field = composer(page).get_by_role("textbox")
    field.fill("/usr/bin is a folder")
    expect(composer(page).get_by_role("status")).to_have_count(0)
    field.fill("/talkwith Ann")
    field.press("Enter")
    hint = composer(page).get_by_role("status")
    expect(hint).to_contain_text("/talkwith is not understood here")
    expect(hint).to_contain_text("Choose the agent below")
    expect(field).to_have_value("/talkwith Ann")
    hint.get_by_role("button", name="Send it as text").click()
    expect(panel(page).get_by_text("/talkwith Ann")).to_be_visible()
