"""Summaries from the command line: by hand, and by a model for all that lack one."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from harken.context.checkpoint import CommitDraft, CommitOrigin, checkpoint
from harken.core.messages import Message
from harken.store.sqlite.store import SqliteStore
from tests.cli.kit import HARKEN, Cli
from tests.forks import processes

KEY = "sk-ant-" + "api03-" + "k" * 40
SUMMARIES = """\
rules:
  - agent: summarizer
    pattern: "say (\\\\d+)"
    answer: 'It said \\1.'
    expand: true
    usage: {input_tokens: 100, output_tokens: 5}
  - agent: summarizer
    pattern: broken
    error: the model is away
"""


@pytest.fixture
def small(tmp_path: Path) -> str:
    path = tmp_path / "small.yaml"
    path.write_text(SUMMARIES)
    return f"scripted:{path}"


@pytest.fixture
def told(cli: Cli) -> Cli:
    """A home with five commits that nobody summarized, and one that somebody did."""
    cli.home.mkdir()
    store = SqliteStore(cli.home / "store.db")
    parent = None
    for at in range(6):
        messages = [Message("user", f"ask {at} {KEY}"), Message("assistant", f"say {at}")]
        draft = CommitDraft(
            messages=messages,
            parent=parent,
            created_at=f"2026-01-0{at + 1}T00:00:00.000000Z",
            origin=CommitOrigin(principal="bob" if at == 1 else "ann"),
            summary="By hand." if at == 5 else "",
        )
        parent = checkpoint(store, draft)
    store.close()
    return cli


def summaries(cli: Cli) -> list[str]:
    return [row["summary"] for row in cli.ok("ctx", "log", "--json").json][::-1]


@pytest.mark.req("S2-62")
def test_all_that_lack_one_get_a_summary(told: Cli, small: str) -> None:
    ran = told.ok("ctx", "summarize", "--missing", "--model", small)
    assert summaries(told) == [*(f"It said {at}." for at in range(5)), "By hand."]
    assert ran.out.splitlines() == [
        "5 commits summarized: 500 tokens in, 25 out",
        "5 credentials redacted",
    ]
    again = told.ok("ctx", "summarize", "--missing", "--model", small).out
    assert again.startswith("0 commits summarized")


def test_a_dry_run_says_what_it_would_use_and_asks_nobody(told: Cli) -> None:
    before = summaries(told)
    name = "anthropic/claude-opus-4-5"
    line = told.ok("ctx", "summarize", "--missing", "--dry-run", "--model", name).out
    assert line.startswith(f"5 commits for {name}: at most 1,")
    assert "$0.0" in line
    row = told.ok("ctx", "summarize", "--missing", "--dry-run", "--model", name, "--json").json
    assert (row["commits"], row["model"]) == (5, name)
    assert row["usage"]["output_tokens"] == 300
    assert row["cost_usd"] > 0
    assert summaries(told) == before


def test_dry_run_refuses_a_model_that_cannot_be_called(told: Cli) -> None:
    for model, reason in (("scripted:nope.yaml", "nope.yaml"), ("antropic/x", "'anthropic'")):
        arguments = ["ctx", "summarize", "--missing", "--dry-run", "--model", model]
        assert reason in told.refused(*arguments)


def test_principal_without_commits_is_refused(told: Cli, small: str) -> None:
    refusal = told.refused("ctx", "summarize", "--missing", "--model", small, "--principal", "bbo")
    assert refusal.startswith("principal 'bbo' not found; existing principals: ")
    assert "bob" in refusal


def test_some_are_chosen_by_principal_and_age(told: Cli, small: str) -> None:
    given = ["ctx", "summarize", "--missing", "--model", small, "--json"]
    assert len(told.ok(*given, "--principal", "bob").json["summarized"]) == 1
    assert told.ok(*given, "--older-than", "99999d").json["summarized"] == []
    assert len(told.ok(*given, "--older-than", "0s").json["summarized"]) == 4


def test_all_may_be_done_again(told: Cli, small: str) -> None:
    ran = told.ok("ctx", "summarize", "--missing", "--all", "--model", small, "--json").json
    assert len(ran["summarized"]) == 6
    assert summaries(told)[5] == "It said 5."
    assert ran["usage"] == {"input_tokens": 600, "output_tokens": 30}
    assert ran["cost_usd"] is None
    assert ran["redacted"] == 6


def test_what_fails_is_told_at_the_end(told: Cli, tmp_path: Path) -> None:
    path = tmp_path / "failing.yaml"
    path.write_text(SUMMARIES.replace("say (", "say ([0-2])|(never "))
    ran = told("ctx", "summarize", "--missing", "--model", f"scripted:{path}")
    assert ran.code == 1
    assert ran.out.startswith("3 commits summarized")
    assert ran.err.count("has no new summary: ") == 2
    assert summaries(told)[:3] == ["It said 0.", "It said 1.", "It said 2."]


def test_what_makes_no_sense_is_refused(told: Cli, small: str) -> None:
    for given in (
        ["ctx"],
        [],
        [told.ok("ctx", "log", "--json").json[0]["id"], " "],
        ["ctx", "text", "--missing"],
        ["--missing", "--per-minute", "0"],
        ["--missing", "--model", "nonsense"],
        ["--missing", "--model", "openai/gpt-5"],
    ):
        told.refused("ctx", "summarize", *given)


def test_the_pace_and_the_whole_are_options(told: Cli, small: str) -> None:
    begun = time.monotonic()
    given = ["--per-minute", "1200", "--concurrency", "2", "--full", "--model", small]
    told.ok("ctx", "summarize", "--missing", *given)
    assert time.monotonic() - begun > 0.2
    assert summaries(told)[4] == "It said 0."  # the whole begins with the first


def test_a_run_that_is_interrupted_keeps_what_it_did(told: Cli, tmp_path: Path) -> None:
    path = tmp_path / "slow.yaml"
    path.write_text(SUMMARIES.replace("    expand", "    delay_s: 0.1\n    expand"))
    model = f"scripted:{path}"
    given = ["ctx", "summarize", "--missing", "--model", model, "--concurrency", "1"]
    ran = processes.start(
        [HARKEN, *given],
        env={**os.environ, "HARKEN_HOME": str(told.home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while sum(text.startswith("It said") for text in summaries(told)) < 2:
        assert ran.poll() is None
    ran.send_signal(signal.SIGINT)
    out, err = ran.communicate(timeout=20)
    assert (ran.returncode, err.strip()) == (130, "harken: interrupted")
    done = sum(text.startswith("It said") for text in summaries(told))
    assert out.startswith(f"{done} commit")
    rest = told.ok("ctx", "summarize", "--missing", "--model", model, "--json").json
    assert len(rest["summarized"]) == 5 - done
