"""Texts of a hostile session stay texts: nothing runs, nothing is loaded, nothing is hidden."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from harken.core.events import TranscriptEntry
from harken.core.messages import ContentPart, ImagePart
from harken.session.session import Session
from tests.cli.ui_kit import show_home
from tests.session_kit import (
    call_dict,
    create_agent,
    log_answer,
    log_tool_result,
    log_user_message,
    session_options,
)
from tests.unit.formats.transcript_kit import Transcript, text_block, tool_use_block
from tests.web.browser_kit import Browser, Page, Tab, expect, open_own_tab
from tests.web.scenes import IMPORTED, png, run

RUN = "window.attacked=1"
TEXTS = [
    f"<script>{RUN}</script>",
    f"<img src=x onerror={RUN}>",
    f"<svg onload={RUN}><script>{RUN}</script></svg>",
    f"<iframe srcdoc='<script>parent.{RUN}</script>'></iframe>",
    f"[click](javascript:{RUN}) <javascript:{RUN}> [too](JaVaScRiPt&#58;{RUN})",
    f"[data](data:text/html,<script>{RUN}</script>) [vb](vbscript:{RUN})",
    "![pixel](https://evil.example/pixel.png) ![pixel][ref]\n\n[ref]: https://evil.example/ref.png",
    f"![x](x' onerror='{RUN}) [y](https://evil.example/'onmouseover='{RUN})",
    f'<a href="https://evil.example" ping="https://evil.example/ping" onclick="{RUN}">link</a>',
    "<style>@import url(https://evil.example/style.css); body {display: none}</style>",
    "<meta http-equiv=refresh content='0; url=https://evil.example'><base href=//evil.example>",
    "<form action=https://evil.example><button>send</button></form>",
    f"```html\n</code></pre><script>{RUN}</script>\n```\n\n~~~<img src=x onerror={RUN}>\nx\n~~~",
    f"| a |\n|---|\n| <img src=x onerror={RUN}> |\n\n> <svg/onload={RUN}>",
    "{{constructor.constructor('window.attacked=1')()}} ${window.attacked=1}",
    "right to left: \u202etxt.exe\u202c \u2066isolated\u2069 zero\u200bwidth tag\U000e0041",
    "colors: \x1b[31mred\x1b[0m \x1b]8;;https://evil.example\x07link\x1b]8;;\x07 \x9b2Jgone",
    "[" * 500 + "*" * 500 + "`" * 501 + ">" * 300 + " deep",
]
FACTS = """() => ({
    attacked: window.attacked ?? null,
    elements: [...document.querySelectorAll(
        "body script, iframe, object, embed, form:not([role=search]), style, base, " +
        "meta[http-equiv], .markdown img, .markdown svg, .markdown button, img:not([src^='blob:'])"
    )].map((node) => node.outerHTML),
    handlers: [...document.querySelectorAll("*")].flatMap((node) => [...node.attributes])
        .map((attribute) => attribute.name).filter((name) => /^on|^ping$|^srcdoc$/.test(name)),
    protocols: [...new Set([...document.querySelectorAll(".markdown a")].map((a) => a.protocol))],
    opens: [...document.querySelectorAll(".markdown a")]
        .filter((a) => !(a.relList.contains("noopener") && a.relList.contains("noreferrer"))).length,
    invisible: /[\\x00-\\x08\\x1b\\x9b\\u200b\\u202a-\\u202e\\u2066-\\u2069\\u{e0001}-\\u{e007f}]/u
        .exec(document.body.textContent + document.title)?.index ?? null,
})"""
HARMLESS: dict[str, object] = {
    "attacked": None,
    "elements": [],
    "handlers": [],
    "opens": 0,
    "invisible": None,
}


def write_hostile_log(log: Path, line_size: int) -> None:
    """Write a session with hostile texts in each place, and a result that is one long line."""
    name = f"<img src=x onerror={RUN}>\u202e\x1b[31m"
    with Session(log, options=session_options()) as session:
        agent = create_agent(session, relation="primary", name=name)
        for text in TEXTS:
            log_user_message(session, agent, text)
            log_answer(session, agent, text)
        calls = [
            call_dict("c1", f"<script>{RUN}</script>", '{"a": "<img src=x onerror=0>\\u202e"}')
        ]
        session.log_transcript_entry(agent, {"role": "assistant", "tool_calls": calls})
        log_tool_result(session, agent, "c1", "<b>" + "x" * line_size + "THE END")
        session.end("done")


@pytest.fixture(scope="module")
def hostile_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a hostile log, a hostile import, and nothing else."""
    folder = tmp_path_factory.mktemp("hostile")
    home = folder / "home"
    (home / "sessions").mkdir(parents=True)
    write_hostile_log(home / "sessions" / "hostile.jsonl", 1_000_000)
    transcript = Transcript()
    transcript.add("ai-title", aiTitle=f"<script>{RUN}</script>\x1b[31m\u202e")
    for number, text in enumerate(TEXTS):
        transcript.user(text)
        transcript.answer(text_block(text), tool_use_block(f"c{number}", "Bash", command=text))
        transcript.result(f"c{number}", text)
    (folder / "imports").mkdir()
    (folder / "imports" / "a.jsonl").write_bytes(transcript.data)
    run(home, "import", folder / "imports")
    run(home, "search", "attacked")
    return home


@pytest.fixture
def hostile_tab(hostile_home: Path, browser: Browser) -> Iterator[Tab]:
    """A page of the viewer of the hostile home."""
    with show_home(hostile_home) as server, browser.new_context() as context:
        tab = Tab(context, server.address)
        tab.page.set_viewport_size({"width": 1280, "height": 6000})
        yield tab
        assert tab.problems == []
        context.close()


def assert_harmless(page: Page, own: Sequence[str] = ()) -> None:
    """Assert that no text of the session became markup, ran, or is hidden.

    `own`: elements of the page itself that are not looked for elsewhere.
    """
    facts = page.evaluate(FACTS)
    facts["elements"] = [element for element in facts["elements"] if element not in own]
    assert set(facts.pop("protocols")) <= {"https:", "mailto:", "http:"}
    assert facts == HARMLESS


@pytest.mark.parametrize("name", ["hostile", IMPORTED])
def test_a_conversation_runs_and_loads_nothing(hostile_tab: Tab, name: str) -> None:
    page = hostile_tab.open(f"#/session/{name}")
    for text in (f"<script>{RUN}</script>", "image: pixel", "⟨U+202E⟩txt.exe", "deep"):
        expect(page.locator("article").filter(has_text=text).first).to_be_visible()
    for line in page.locator(".call > button[aria-expanded=false]").all()[:5]:
        line.click()
    assert_harmless(page)
    hostile_tab.save_screenshot(f"hostile-{name[:6]}")


@pytest.mark.parametrize("name", ["hostile", IMPORTED])
@pytest.mark.parametrize("view", ["timeline", "step"])
def test_other_views_run_and_load_nothing(hostile_tab: Tab, name: str, view: str) -> None:
    page = hostile_tab.open(f"#/session/{name}/{view}")
    loaded = page.locator(".event .text, .context article, main.empty")
    expect(loaded.first).to_be_visible()
    assert_harmless(page)


def test_the_list_and_its_hits_run_and_load_nothing(hostile_tab: Tab) -> None:
    page = hostile_tab.open()
    expect(page.locator("a.row").filter(has_text=f"<script>{RUN}</script>").first).to_be_visible()
    page.get_by_placeholder("Search sessions").fill("attacked")
    expect(page.locator(".hits a").first).to_contain_text(RUN)
    assert_harmless(page)


def test_the_details_of_a_hostile_message_run_nothing(hostile_tab: Tab) -> None:
    page = hostile_tab.open("#/session/hostile?d=msg_003")
    page.get_by_text("Event as logged").click()
    expect(page.locator("aside pre")).to_contain_text(RUN)
    assert_harmless(page)


@pytest.mark.parametrize(
    "size", [1_000_000, pytest.param(10_000_000, marks=pytest.mark.full)], ids=["1MB", "10MB"]
)
def test_a_long_line_opens_to_its_end(browser: Browser, tmp_path: Path, size: int) -> None:
    home = tmp_path / "home"
    (home / "sessions").mkdir(parents=True)
    write_hostile_log(home / "sessions" / "long.jsonl", size)
    with show_home(home) as server, browser.new_context() as context:
        tab = Tab(context, server.address)
        page = tab.open("#/session/long")
        expect(page.locator("article").first).to_be_visible()
        page.keyboard.press("End")
        call = page.locator(".call")
        call.get_by_role("button").first.click()
        call.get_by_role("button", name="Show all").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.locator("pre").first).to_contain_text("<b>xxx")
        scroller = dialog.locator(".scroller")
        expect(scroller.locator("pre").first).to_be_visible()
        scroller.evaluate("(node) => void (node.scrollTop = node.scrollHeight)")
        expect(dialog.get_by_text("THE END")).to_be_visible()
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
        assert tab.problems == []
        context.close()


def test_images_that_cannot_be_shown_are_named_without_an_error(
    tmp_path: Path, browser: Browser
) -> None:
    svg = b"<svg xmlns='http://www.w3.org/2000/svg' onload='window.attacked=1'/>"
    datas = [
        base64.b64encode(svg).decode(),
        "no base64!",
        base64.b64encode(png(4, 4)[:20]).decode(),
    ]
    (tmp_path / "sessions").mkdir()
    with Session(tmp_path / "sessions" / "images.jsonl", options=session_options()) as session:
        agent = create_agent(session, relation="primary", name="Painter")
        images: list[ContentPart] = [ImagePart(media_type="image/png", data=data) for data in datas]
        session.append(TranscriptEntry(agent_id=agent, role="user", content=images))
    with open_own_tab(browser, tmp_path) as tab:
        page = tab.open("#/session/images")
        notes = page.locator("article figure .absent")
        expect(notes).to_have_count(3)
        expect(notes.first).to_contain_text("its data is not PNG, JPEG, GIF or WebP")
        expect(notes.last).to_contain_text("its data is damaged")
        expect(page.locator("article img")).to_have_count(0)
        tab.save_screenshot("images-not-shown")
