"""Figures and graphs of imported history.

A result may be logged before the record of its call, so `stats` showed that a tool took -522 s, and a
model without a price came last however much it was used. `ctx log --graph` had the order of import, and
principals that left no room for words. Now: no negative durations, models by tokens, the order of time.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pexpect
import pytest

from harken.terminal.styled_text import cell_width
from tests.cli.kit import HARKEN, Cli
from tests.unit.formats.transcript_kit import Transcript, text_block, tool_use_block

CODES = re.compile(r"\x1b\[[0-9;]*[a-zA-Z]")
TIME = re.compile(r"2026-01-31 \d\d:\d\d")


def transcript(session: int, hour: int) -> Transcript:
    """A session of two prompts, at an hour of a day."""
    made = Transcript(f"5e55{session:04d}-0000-4000-8000-000000000001")
    made.user(
        f"Question {session} about tea in a cafe, with as many words as fit on a line or more?"
    )
    made.answer(text_block("Yes."), tool_use_block("c1"))
    made.result("c1", "ok")
    made.user("And now?")
    for record in made.records:
        record["timestamp"] = record["timestamp"].replace("T12:", f"T{hour:02d}:")
    return made


def write(cli: Cli, made: Transcript) -> Path:
    path = cli.home.parent / f"{made.session}.jsonl"
    path.write_bytes(made.data)
    return path


def test_a_result_that_was_logged_before_its_call_has_no_duration(cli: Cli) -> None:
    made = Transcript()
    made.user("Plan it.")
    for at in (1, 2):
        made.answer(tool_use_block(f"c{at}", "TaskCreate"))
        made.result(f"c{at}", "created")
    call, answer = made.records[1], made.records[2]
    call["timestamp"], answer["timestamp"] = "2026-01-31T12:09:00.000Z", "2026-01-31T12:00:18.000Z"
    cli.ok("import", write(cli, made))
    (tool,) = cli.ok("stats", "--json").json["tools"]["tools"]
    assert (tool["calls"], tool["unanswered"]) == (2, 0)
    assert tool["duration_s"] == 1


def test_models_are_listed_by_tokens(cli: Cli) -> None:
    made = Transcript()
    made.user("Hello.")
    for model, tokens in (
        ("claude-opus-4-5", 10),
        ("unpriced-1", 100_000),
        ("claude-haiku-4-5", 50),
    ):
        made.answer(text_block(model))
        message = made.records[-1]["message"]
        message["model"], message["id"] = model, f"msg_{model:_<20}"
        message["usage"] = {"input_tokens": tokens, "output_tokens": tokens}
    cli.ok("import", write(cli, made))
    models = [one["model"] for one in cli.ok("stats", "--json").json["models"]]
    assert models == ["unpriced-1", "claude-haiku-4-5", "claude-opus-4-5"]


@pytest.mark.parametrize("width", [40, 80])
def test_a_graph_of_imported_history_has_the_order_of_time_and_fits(cli: Cli, width: int) -> None:
    for session, hour in ((1, 12), (2, 9), (3, 20), (4, 15)):
        cli.ok("import", "--no-index", write(cli, transcript(session, hour)))
    terminal = pexpect.spawn(
        str(HARKEN),
        ["ctx", "log", "--graph", "--home", str(cli.home)],
        dimensions=(50, width),
        env={**os.environ, "COLUMNS": str(width), "TERM": "xterm-256color"},
        encoding="utf-8",
        timeout=60,
    )
    terminal.expect(pexpect.EOF)
    assert terminal.before is not None
    lines = [CODES.sub("", line) for line in terminal.before.splitlines()]
    assert max(cell_width(line) for line in lines) <= width
    times = TIME.findall("\n".join(lines))
    assert times == sorted(times, reverse=True)
    assert len(set(times)) == 4
    if width == 80:
        shown = [line for line in lines if "ctx-" in line]
        assert not [line for line in shown if re.search("  .?…$", line)], shown
