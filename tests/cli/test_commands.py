"""Slash commands: what the chat itself can be asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken.agents.runtime import AgentRuntime
from harken.agents.turn.compaction import CompactionResult
from harken.chat.commands.base import COMMANDS, Command, is_command, run_command
from harken.chat.commands.views import format_compaction
from harken.cli.commands.demo import play as play_demo
from harken.core.events import Segment, ToolsDefined, TranscriptEdited, Usage
from harken.core.ids import AgentId
from harken.core.logged_string import LoggedString
from harken.core.messages import Message, TextPart, ThinkingPart
from harken.core.stream import Chunk, Finish, TextDelta, ThinkingDelta
from harken.errors import ModelError
from harken.views.viewer import SessionViewer
from harken.world.local_world import LocalWorld
from harken.world.permissions.permissions import Permissions
from tests.agent_kit import Stage, call, call_message, open_stage, script_model
from tests.cli.chat_kit import Talking

USAGE = Usage(input_tokens=1500, output_tokens=20, cache_read_tokens=1000)
ANSWER: list[Chunk] = [TextDelta("Hot."), Finish(stop_reason="end_turn", usage=USAGE, cost_usd=0.5)]


@pytest.fixture
def one(tmp_path: Path) -> Stage:
    thought = Message("assistant", [ThinkingPart("hm, tea"), TextPart("Let me ask.")])
    asks = call_message(call("task", name="Ann", prompt="Tea?"))
    return open_stage(
        tmp_path, script_model(main=[thought, asks, ANSWER, ANSWER], Ann=["Tea.\nHot."])
    )


@pytest.fixture
def talk(one: Stage) -> Talking:
    one.ask("think")
    one.ask("ask Ann")
    return Talking(one)


def test_a_text_is_a_command_unless_its_first_word_is_a_path(tmp_path: Path) -> None:
    for text in ("/help", "/nope", "/show 3", "/c"):
        assert is_command(text, {})
    for text in ("help", " /help", "/", "/etc/hosts is odd", str(tmp_path), "/tmp", "// no"):
        assert not is_command(text, {})


def test_the_beginning_of_a_name_is_enough_where_it_is_the_only_one(talk: Talking) -> None:
    assert "/quit" in talk("/he")
    assert talk("/q") == ""
    assert talk.ended


def test_an_unknown_command_names_the_near_ones(talk: Talking) -> None:
    assert not run_command(talk, "/contekst")
    assert "command /contekst not found; did you mean '/context'" in talk.said[0]
    assert not run_command(talk, "/zzz")
    assert talk.said[1] == "command /zzz not found (/help lists commands)"


def test_a_beginning_of_several_names_says_of_which(talk: Talking) -> None:
    assert not run_command(talk, "/co")
    assert talk.said == ["/co is ambiguous: /context or /compact or /cost; type more letters"]


def test_a_command_that_fails_does_not_end_the_chat(talk: Talking) -> None:
    def fail(_: object, rest: str) -> None:
        raise FileNotFoundError(2, "No such file", "tea.md") if rest else KeyError("cup")

    talk.user_commands = {"fail": Command("fail", "fails", fail)}
    assert talk("/fail file") == "/fail: tea.md: No such file"
    assert talk("/fail") == "/fail: a bug in Harken (KeyError: 'cup')"


def test_an_event_that_is_no_message_is_shown_as_json_and_not_without_end(talk: Talking) -> None:
    defined = next(
        e for e in SessionViewer(talk.session.path).events if isinstance(e, ToolsDefined)
    )
    lines = talk(f"/show {defined.message_id}").splitlines()
    assert lines[0] == "{"
    assert len(lines) == 61
    assert lines[-1].endswith("more lines: `/view raw` has the events")


def test_help_lists_every_command_and_the_keys(talk: Talking) -> None:
    text = talk("/help")
    assert all(f"/{name}" in text for name in COMMANDS)
    assert talk.keys in text


def test_context_says_what_the_model_reads_and_what_was_counted(talk: Talking) -> None:
    text = talk("/context")
    assert "7 messages in the context:" in text
    assert "  assistant      3   ~" in text
    assert "the last request had 1.5k tokens, 1.0k of them cached" in text
    assert "its first 4 messages equal the previous request: all can be cached" in text


def test_context_says_where_a_changed_context_broke_the_cache(one: Stage, talk: Talking) -> None:
    kept = [Segment(start=0, stop=1), Segment(start=2, stop=7)]
    one.session.append(TranscriptEdited(agent_id=AgentId(one.root.agent_id), segments=kept))
    one.ask("again")
    assert "its cached prefix ended at message 1: user 'think' is gone" in talk("/context")


def test_context_of_a_session_without_a_call(tmp_path: Path) -> None:
    talk = Talking(open_stage(tmp_path, script_model()))
    assert talk("/context").startswith("1 message in the context:")
    assert talk("/cost") == "no model calls yet"
    assert talk("/thinking") == "no thinking recorded yet"


def test_cost_is_told_for_each_agent_and_together(talk: Talking) -> None:
    assert talk("/cost").splitlines() == [
        "main      1.5k in (1.0k cached) · 20 out · at least $0.5000 · 3 model calls",
        "Ann       cost unknown · 1 model call",
        "together  1.5k in (1.0k cached) · 20 out · at least $0.5000 · 4 model calls",
    ]


def test_agents_are_shown_as_a_tree_with_what_they_do(one: Stage, talk: Talking) -> None:
    talk.doing = {AgentId(one.id_of("Ann")): "thinking"}
    main, ann = talk("/agents").splitlines()
    assert main.startswith("main  play, idle, 1.5k in")
    assert ann.startswith("  Ann  play, thinking, cost unknown")


def test_the_views_of_harken_view_are_there(talk: Talking) -> None:
    assert "Ann" in talk("/view tree")
    assert "Ann: Tea." in talk("/view dialog main Ann")
    assert "/view timeline     Show all events" in talk("/view")
    assert talk("/view dialog") == talk("/view dialog main")
    assert talk("/view flow") == "Missing argument 'MESSAGE'; it takes: MESSAGE"
    assert "No such command 'nonsense'; existing commands: conversation, context, dialog," in talk(
        "/view nonsense"
    )
    assert "agent 'Bob' not found" in talk("/view dialog Bob")
    assert "No closing quotation" in talk("/view dialog 'Ann")


@pytest.mark.req("S3-28")
def test_this_session_and_past_ones_are_stepped_through(
    one: Stage, talk: Talking, tmp_path: Path
) -> None:
    assert "── request 1 of 4 · main (1 of 3)" in talk("/replay")
    assert talk("/replay --agent Ann").count("── request") == 1
    (tmp_path / "new").mkdir()
    assert "nothing to replay" in Talking(open_stage(tmp_path / "new", script_model()))("/replay")
    past = tmp_path / "past.jsonl"
    play_demo(past)
    assert "── request 4 of 9 · Jack" in talk(f"/replay {past} --at 4")
    assert "model call '99' not found" in talk("/replay --at 99")
    assert "No closing quotation" in talk("/replay 'x")


def test_a_message_is_shown_in_full(one: Stage, talk: Talking) -> None:
    [row] = one.select_lines(role="assistant", agent_id=one.id_of("Ann"))
    assert talk(f"/show {row['message_id'].removeprefix('msg_')}") == "Tea.\nHot."
    assert "session_started" in talk("/show 0")
    assert "no message given" in talk("/show")
    assert "message '9999' not found" in talk("/show 9999")


def test_the_last_thought_is_shown(talk: Talking) -> None:
    assert talk("/thinking") == "hm, tea"


def test_the_last_thought_may_be_of_an_answer_that_did_not_end(tmp_path: Path) -> None:
    whole: list[Chunk] = [
        ThinkingDelta("hm, tea"),
        TextDelta("Tea."),
        Finish(stop_reason="end_turn"),
    ]
    cut: list[Chunk] = [ThinkingDelta("or "), ThinkingDelta("coffee"), TextDelta("Cof")]
    one = open_stage(tmp_path, script_model(main=[whole, cut]))
    one.ask("What?")
    with pytest.raises(ModelError):
        one.ask("Sure?")
    assert Talking(one)("/thinking") == "or coffee"


def test_the_permission_mode_is_told_and_changed(tmp_path: Path) -> None:
    permissions = Permissions()
    runtime = AgentRuntime(model=script_model(), world=LocalWorld(permissions=permissions))
    talk = Talking(open_stage(tmp_path, script_model(), runtime=runtime))
    assert talk("/permission").startswith("ask: reading is allowed")
    assert talk("/permission edits").startswith("edits:")
    assert permissions.mode == "edits"
    assert "mode 'x' not found" in talk("/permission x")
    assert permissions.mode == "edits"


def test_a_world_without_permissions_says_so(talk: Talking) -> None:
    assert talk("/permission all") == "this chat has no permission modes"


def test_compact_says_what_to_keep_and_what_went_wrong(talk: Talking) -> None:
    assert talk("/compact the colours of the cups") == "no tea: the colours of the cups"
    assert format_compaction(None) == "the context is too short to compact"
    done = CompactionResult(
        LoggedString("Tea."), messages=41, tokens_before=120_000, tokens_after=900
    )
    assert format_compaction(done) == (
        "41 messages summarized: the context has ~900 tokens, before ~120.0k"
    )


NAMED = {
    "subagents": "main",
    "hooks": "add",
    "talkwith": "Ann",
    "agents": "",
    "plan": "on",
    "context": "Ann",
    "compact": "",
    "fork": "",
    "dump": "",
    "restore": "",
    "undo": "",
    "cost": "",
    "tools": "Ann",
    "mcp": "",
    "replay": "",
    "export": "narrative-v1",
    "view": "tree",
    "help": "export",
}
"""The commands of a chat, and what completes one that takes a word."""


@pytest.mark.parametrize(("name", "word"), NAMED.items())
def test_every_command_says_what_it_takes_and_completes_it(
    talk: Talking, name: str, word: str
) -> None:
    command = COMMANDS[name]
    assert talk(f"/help {name}").startswith(f"/{name}")
    assert command.meaning in talk.said[0]
    if word:
        assert command.arguments
        assert word in command.completes(talk, [])
    assert not [*command.completes(talk, ["x", "y", "z"])] or name in ("task", "export", "dump")


def test_files_to_restore_and_agents_to_dump_are_completed(tmp_path: Path) -> None:
    model = script_model(main=["Hello."])
    one = open_stage(
        tmp_path, model, runtime=AgentRuntime(model=model, world=LocalWorld(folder=tmp_path))
    )
    talk = Talking(one)
    talk("/task Ann You are Ann.")
    talk("/dump ann.json Ann")
    assert "ann.json" in COMMANDS["restore"].completes(talk, [])
    assert [*COMMANDS["dump"].completes(talk, ["x.json"])] == ["Ann"]
