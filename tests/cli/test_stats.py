"""`harken stats`: what a person sees, and what a program reads."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from harken.analytics.overview import overview, session_overview
from harken.analytics.scope import ALL, Scope
from harken.cli.commands.stats.overview import show_overview
from harken.cli.commands.stats.sections import bins_for, show_session
from harken.config.local_zone import LocalZone
from harken.index.session_index import SessionIndex
from harken.terminal.table import Sheet, TextColumn
from tests.cli.kit import Cli, start
from tests.unit.analytics.row_builder import MINUTE, RowBuilder, at
from tests.unit.formats.transcript_kit import Transcript, text_block
from tests.unit.interactions.kit import logger

MORNING = at("2026-03-02 09:00")


@pytest.fixture
def told(cli: Cli) -> Cli:
    """A home whose facts are a small story."""
    cli.home.mkdir(parents=True)
    facts = SessionIndex(cli.home / "facts.db")
    tell(RowBuilder(facts.database))
    facts.close()
    return cli


def tell(story: RowBuilder) -> RowBuilder:
    tea = story.session("claude:tea", title="Tea for two", outcome="success")
    story.say(tea, "prompt", MORNING, 10)
    answer = story.say(tea, "response", MORNING + 5 * MINUTE, 40, thinking=40)
    story.call(answer, "Read", 3 * MINUTE)
    story.request(tea, "opus", MORNING + 5 * MINUTE, (1000, 2_000_000, None, 500), 1.25)
    story.compaction(tea, MORNING + 8 * MINUTE)
    bar = story.session("codex:bar", project="/srv/bar")
    reader = story.agent(bar, "r", "reviewer")
    story.say(bar, "prompt", at("2026-03-05 20:00"), 10)
    looked = story.say(bar, "response", at("2026-03-05 20:01"), 10, agent=reader)
    story.call(looked, "Bash", 1, is_error=True)
    story.request(bar, "mystery", at("2026-03-05 20:01"), (5, None, None, 5), None)
    return story


def drawn(story: RowBuilder, width: int, encoding: str = "utf-8", *, one: int | None = None) -> str:
    """Return what a terminal of this width shows."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding)
    sheet = Sheet(stream, width)
    if one is None:
        show_overview(sheet, overview(story.database, ALL, LocalZone()), LocalZone())
    else:
        scope = Scope(session_id=one)
        show_session(sheet, session_overview(story.database, scope, bins_for(width)), LocalZone())
    stream.flush()
    stream.seek(0)
    return stream.read()


def test_the_overview_tells_what_was_done(told: Cli) -> None:
    out = told.ok("stats", "--utc").out
    for words in (
        "2 sessions in 2 projects",
        "2 prompts   2 responses   2 tool calls   2.0 M tokens",
        "≥ $1.25",
        "The price of 1 response is unknown.",
        "1 response and 1 tool call for each prompt",
        "1 compaction in 1 session, at most 1 in one",
        "Tea for two",
        "reviewer",
        "success",
    ):
        assert words in " ".join(out.split()) or words in out, words
    assert re.search(r"mystery +5 +\? +\? +5 +unknown", out)


def test_a_session_has_a_profile(told: Cli) -> None:
    """Five minutes to an answer that is half thoughts, three of a tool."""
    for name in ("claude:tea", "tea", "cl"):
        out = told.ok("stats", name, "--utc").out
        assert "Tea for two" in out
        assert "2026-03-02 09:00 to 2026-03-02 09:08, 8 min; outcome success; 1 compaction" in out
        assert re.search(r"thinking .* 2 min +31 % +1\n", out)
        assert re.search(r"tool .* 3 min +38 % +1\n", out)
    assert "codex:bar" in told.ok("stats", "latest").out


def test_json_has_all_of_it_under_documented_names(told: Cli) -> None:
    row = told.ok("stats", "--json", "--utc").json
    page = Path(__file__).parents[2] / "docs/how-to/show-statistics.md"
    names = set(re.findall(r"`(\w+)`", page.read_text()))
    assert set(row) <= names
    assert row["amplification"]["prompts"] == 2
    assert [one["session"] for one in row["sessions"]] == ["codex:bar", "claude:tea"]
    one = told.ok("stats", "tea", "--json", "--utc").json
    assert set(one) <= names
    assert one["profile"]["seconds"]["tool"] == 180.0
    assert one["usage"]["cost_usd"] == 1.25


def test_conditions_choose_what_counts(told: Cli) -> None:
    def sessions(*options: str) -> list[str]:
        return [
            one["session"] for one in told.ok("stats", "--json", "--utc", *options).json["sessions"]
        ]

    assert sessions("--since", "2026-03-03") == ["codex:bar"]
    assert sessions("--until", "2026-03-02") == ["claude:tea"]
    assert sessions("--project", "bar") == ["codex:bar"]
    assert sessions("--project", "/srv") == ["codex:bar", "claude:tea"]
    assert sessions("--runtime", "claude") == ["claude:tea"]
    assert sessions("--since", "2026-03-03", "--until", "2026-03-04") == []
    nothing = told.ok("stats", "--since", "2026-03-03", "--until", "2026-03-04")
    assert (nothing.out, nothing.err) == (
        "",
        "No messages in this range; choose a larger one.\n",
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--since", "soon"], "'soon' is not a time; write 2026-03-05"),
        (
            ["--project", "nowhere"],
            "project 'nowhere' not found; existing projects: /srv/bar, /srv/cafe",
        ),
        (["--runtime", "pi"], "runtime 'pi' not found; existing runtimes: claude, codex"),
        (
            ["nobody"],
            "session or commit 'nobody' not found; existing sessions or commits: codex:bar, claude:tea",
        ),
        (["c"], "'c' is ambiguous: claude:tea, codex:bar; use a longer name"),
        (["--html", "/not/there/x.html"], "/not/there/x.html: No such file or directory"),
    ],
)
def test_what_is_not_there_is_one_line(told: Cli, arguments: list[str], said: str) -> None:
    assert said in told.refused("stats", *arguments)


def test_an_empty_home_says_what_to_do(cli: Cli) -> None:
    ran = cli.ok("stats")
    assert ran.out == ""
    assert "`harken import`" in ran.err
    assert "`harken chat`" in ran.err
    assert ran.err.count("\n") == 1


def test_what_was_imported_and_what_harken_did_are_counted(cli: Cli, tmp_path: Path) -> None:
    made = Transcript()
    made.user("Is the cafe open?")
    made.answer(text_block("It is."))
    path = tmp_path / "a.jsonl"
    path.write_bytes(made.data)
    cli.ok("import", path)
    cli.ok("demo")
    row = cli.ok("stats", "--json").json
    assert {one["runtime"] for one in row["sessions"]} == {"claude", "harken"}
    claude = cli.ok("stats", "--json", "--runtime", "claude").json["amplification"]
    assert (claude["prompts"], claude["responses"]) == (1, 1)
    assert claude["output_per_input"] == round(len("It is.") / len("Is the cafe open?"), 2)


def test_in_a_narrow_terminal_numbers_stay_whole_and_a_text_keeps_its_beginning() -> None:
    stream = io.StringIO()
    columns = [
        TextColumn("session", is_text=True),
        *(TextColumn(f"a long heading {at}") for at in range(3)),
    ]
    Sheet(stream, 40).table(columns, [("cafe in the morning", "1,234,567", "890", "12")])
    head, row = stream.getvalue().splitlines()
    assert row.split() == ["cafe", "in…", "1,234,567", "890", "12"]
    assert head.split()[0] == "session"
    assert max(len(head), len(row)) <= 40


def test_a_rate_of_failures_is_of_what_is_known() -> None:
    story = RowBuilder()
    answer = story.say(story.session("codex:1"), "response", at("2026-03-02 09:00"))
    for name, *ends in (("exec", True, False, None), ("plan", None), ("look", False)):
        for end in ends:
            story.call(answer, name, 1, is_error=end)
    rows = [line.split() for line in drawn(story, 80).splitlines()]
    failed = {row[0]: row[5:7] for row in rows if row and row[0] in ("exec", "plan", "look")}
    assert failed == {"exec": ["50", "%"], "plan": ["?", "1"], "look": ["1", "s"]}


def test_a_page_is_written_for_a_browser(told: Cli) -> None:
    said = told.ok("stats", "--html", "page.html").out
    assert said.startswith("page.html: ")
    assert "Tea for two" in Path("page.html").read_text()
    told.ok("stats", "tea", "--html", "page.html")
    assert "<h1>Tea for two</h1>" in Path("page.html").read_text()


def test_a_pipe_gets_no_colours_and_a_reader_may_leave(told: Cli) -> None:
    ran = start(told.home, "stats", "--utc", PYTHONUTF8="1")
    assert ran.returncode == 0, ran.stderr
    assert b"\x1b" not in ran.stdout
    assert "Tea for two" in ran.stdout.decode()


@pytest.mark.parametrize("width", [40, 60, 80, 200])
@pytest.mark.parametrize("one", [None, 1])
def test_it_fits_into_every_terminal(width: int, one: int | None) -> None:
    shown = drawn(tell(RowBuilder()), width, one=one)
    assert max(map(len, shown.splitlines())) <= width
    assert "Tools" in shown


def test_a_terminal_without_blocks_gets_letters() -> None:
    for one in (None, 1):
        shown = drawn(tell(RowBuilder()), 80, "ascii", one=one)
        assert shown.isascii()
        assert ">= $1.25" in shown or one
        assert "\\u" not in shown


@pytest.mark.parametrize("one", [None, 1])
def test_names_are_neither_markup_nor_commands(one: int | None) -> None:
    evil = "[bold red]x[/bold red]\x1b]0;owned\x07\u202e[link=file:///etc]y\r\n"
    story = RowBuilder()
    id_ = story.session("claude:1", title=evil, project=f"/{evil}", outcome=evil)
    story.say(id_, "prompt", MORNING, 5)
    answer = story.say(id_, "response", MORNING + 5, 5)
    story.call(answer, evil, 1)
    story.request(id_, evil, MORNING, (1, 1, 1, 1), 0.5)
    story.say(story.session("claude:2", project=f"/b{evil}"), "prompt", MORNING)
    shown = drawn(story, 120, one=one)
    assert "[bold red]x[/bold red]" in shown
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", shown)


def test_the_hours_are_those_of_the_machine_or_of_utc(told: Cli) -> None:
    here = start(told.home, "stats", "--json", TZ="Asia/Kathmandu").stdout
    there = start(told.home, "stats", "--json", "--utc", TZ="Asia/Kathmandu").stdout
    assert json.loads(here)["activity"]["prompts"][0][14] == 1  # 09:00 is 14:45 there
    assert json.loads(there)["activity"]["prompts"][0][9] == 1


@pytest.mark.req("S3-33")
def test_tokens_and_latency_of_logged_calls_are_counted(cli: Cli) -> None:
    """Between the beginning of a call and its answer the clock ticks three times, a second each."""
    context: list[Any] = [{"role": "user", "content": "Tea?"}]
    for session, calls in (("one", 1), ("two", 2)):
        with logger(cli.home) as log:
            thread = log.start_thread(session)
            for number in range(calls):
                with log.call(thread, context, model="m") as asked:
                    asked.answer(f"Tea {number}.", usage={"input_tokens": 10, "output_tokens": 3})
    stats = cli.ok("stats", "two", "--json").json
    assert [(one["model"], one["responses"]) for one in stats["models"]] == [("m", 2)]
    assert (stats["usage"]["input_tokens"], stats["usage"]["output_tokens"]) == (20, 6)
    steps = [json.loads(line) for line in cli.ok("replay", "two", "--json").out.splitlines()]
    assert [step["latency_s"] for step in steps] == [3.0, 3.0]
    assert [step["usage"]["output_tokens"] for step in steps] == [3, 3]
    out = cli.ok("compare", "one", "two").out
    assert re.search(r"input tokens +10 +20\n", out)
    assert re.search(r"model time, s +3 +6\n", out)
