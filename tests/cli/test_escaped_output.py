"""Whatever a log says, it cannot speak to the terminal that shows it."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from harken.agents.agent import log_birth
from harken.agents.agent_classes import register_agent_class
from harken.agents.hooks.hook import Hook
from harken.agents.load import load_session
from harken.agents.runtime import AgentLibrary, AgentRuntime
from harken.agents.smart_agent import SmartAgent
from harken.core.messages import Message
from harken.core.verdict import HookQuestion, Rewrite, Verdict
from harken.llm.base import ModelRequest
from harken.llm.scripted import FunctionModel
from harken.session.verify import verify
from harken.terminal.text import (
    escape_control_characters,
    indent,
    one_line,
    print_json,
    program_name,
)
from tests.agent_kit import call, call_message
from tests.cli.kit import Cli

HOSTILE = "a\x1b[31mred\x1b]0;title\x07\x9b2J\r\x08\x7f\u202edesrever\u2066\x00\udcffz"
HARMFUL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@register_agent_class("rude")
class Rude(Hook):
    """A hook that rewrites whatever is said or done."""

    points = frozenset({"action", "response"})

    def judge(self, question: HookQuestion) -> Verdict:
        if question.point == "action":
            return Rewrite(call("task", name="Ann", prompt=HOSTILE).function.arguments)
        return Rewrite(f"{HOSTILE} rewritten")

    def copy_for(self, agent: object) -> None:
        """Subagents are left alone."""


def answer(request: ModelRequest) -> str | Message:
    if request.agent == "main" and len(request.messages) == 2:
        return call_message(call("task", name=f"{HOSTILE}0", prompt="Hi"), text=HOSTILE)
    return HOSTILE


@pytest.fixture
def hostile(cli: Cli) -> Path:
    """The log of a session in which everything that can be is hostile."""
    log = Path("hostile.jsonl")
    runtime = AgentRuntime(
        model=FunctionModel(answer, name=HOSTILE), library=AgentLibrary(kinds={"rude": Rude})
    )
    root, session = load_session(log, runtime=runtime, system_prompt=HOSTILE, name="main")
    with session:
        Rude(session, runtime=runtime).install(root, f"{HOSTILE} hook")
        child = SmartAgent(session, HOSTILE, runtime=runtime)
        log_birth(child, root.state.birth, HOSTILE, "subagent")  # a model may not name one so
        asyncio.run(child.response(HOSTILE))
        asyncio.run(root.response(HOSTILE))
    assert verify(log) == []
    return log


VIEWS = [
    "tree",
    "dialog main agent_003",
    "perspective main",
    "transcript main",
    "flow {rewritten}",
    "refs {original}",
    "context {request}",
    "timeline",
    "hooks",
    "raw",
]


def message_ids(cli: Cli, log: Path) -> dict[str, str]:
    rows = cli.ok("view", log, "raw", "--json").json
    rewritten = next(row for row in rows if row.get("agent_id") == "user")
    return {
        "rewritten": rewritten["message_id"],
        "original": rewritten["substance"],
        "request": next(row for row in rows if row["event_type"] == "llm_request")["message_id"],
    }


@pytest.mark.req("D-07")
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_of_a_hostile_log_is_harmless_and_leaves_nothing_out(
    cli: Cli, hostile: Path, view: str
) -> None:
    words = view.format(**message_ids(cli, hostile)).split()
    text = cli.ok("view", hostile, *words)
    data = cli.ok("view", hostile, *words, "--json")
    for printed in (text.out, text.err, data.out, data.err):
        assert HARMFUL.search(printed) is None
    assert r"\x1b[31mred" in text.out
    if view != "tree":
        assert HOSTILE in everything(data.json)


def everything(value: object) -> str:
    """Return all texts in a JSON value."""
    if isinstance(value, dict):
        return " ".join(map(everything, value.values()))
    return " ".join(map(everything, value)) if isinstance(value, list) else str(value)


@pytest.mark.req("D-07")
def test_errors_and_lists_are_harmless_too(cli: Cli, hostile: Path) -> None:
    (cli.home / "sessions").mkdir(parents=True)
    hostile.rename(cli.home / "sessions" / "a\x1b[31m\n.jsonl")
    for arguments in (["sessions"], ["sessions", "--json"]):
        ran = cli.ok(*arguments)
        assert HARMFUL.search(ran.out + ran.err) is None
    for unknown in (["view", "a", "perspective", "\x1b[0m"], ["view", "\x1b[0m", "tree"]):
        assert HARMFUL.search(cli.refused(*unknown)) is None


def test_answers_in_a_chat_are_harmless(cli: Cli) -> None:
    script = Path("script.yaml")
    script.write_text('rules: [{pattern: bad, error: "\\e[31m"}, {answer: "\\e[31mred \\u202e"}]')
    ran = cli.ok("chat", "--model", "scripted:script.yaml", "-p", "hello")
    assert ran.out == "\\x1b[31mred \\u202e\n"
    ran = cli.ok("chat", "--model", "scripted:script.yaml", "-p", "hello", "--json")
    assert HARMFUL.search(ran.out) is None
    assert ran.json["text"] == "\x1b[31mred \u202e"
    failed = cli("chat", "--model", "scripted:script.yaml", "-p", "bad")
    assert HARMFUL.search(failed.err) is None


def test_control_characters_are_written_out() -> None:
    assert escape_control_characters("a\x1b[0m\x00\u202e\udcff") == r"a\x1b[0m\x00\u202e\udcff"
    assert escape_control_characters("Grüße\tan\nJürgen 🙂") == "Grüße\tan\nJürgen 🙂"
    assert HARMFUL.search(escape_control_characters(HOSTILE)) is None


def test_a_text_on_one_line_is_cut_where_it_is_too_long() -> None:
    assert one_line("a\n\n b\tc") == "a b c"
    assert one_line("x" * 101) == "x" * 99 + "…"
    assert one_line("x" * 100) == "x" * 100


def test_further_lines_stand_below_the_first() -> None:
    assert indent("a\nb", "  ") == "a\n  b"


def test_a_program_that_is_found_on_the_path_is_called_by_its_name() -> None:
    assert program_name() == "harken"


def test_what_nobody_can_see_is_written_out(capsys: pytest.CaptureFixture[str]) -> None:
    """Models read tags, so whoever looks at what they read must see them."""
    hidden = "a\U000e0068\U000e0069\u2028b\x7f"
    assert escape_control_characters(hidden) == r"a\U000e0068\U000e0069\u2028b\x7f"
    print_json(hidden)
    out = capsys.readouterr().out
    assert out.isascii()
    assert json.loads(out) == hidden
