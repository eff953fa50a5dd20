"""`resume` says how much of a conversation goes over to the client, and why the rest does not.

What happened: `resume` printed the number of messages that it wrote, so that after a compaction
nobody saw that 218 of 630 had become a summary. Why: what a client gets was counted, not what was
said. Now: both are counted, with the reason for each message that does not go over.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from harken.capture.resume.completeness import check_completeness
from harken.capture.resume.transfer import count_full_transfer, count_transfer
from harken.context.position import MessageCounts
from harken.core.messages import Message, TextPart, ThinkingPart
from harken.formats.base import ConversationEntry
from tests.cli.kit import Cli
from tests.unit.formats.transcript_kit import Transcript, text_block, tool_use_block

SESSION = "5e551011-0000-4000-8000-000000000001"


@pytest.fixture
def resume(cli: Cli, tmp_path: Path) -> tuple[str, ...]:
    """Import a session with a compaction; return the command that goes on with it.

    Ten messages are said, two of the first eight are repeated after the summary of them.
    """
    names = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "PI_CODING_AGENT_DIR")
    cli.environ = {name: str(tmp_path / name) for name in names}
    made = Transcript(SESSION)
    last = ""
    for at in range(4):
        made.user(f"Question {at}")
        last = made.answer(text_block(f"Answer {at}"))
    kept = [made.records[at]["uuid"] for at in (6, 7)]
    made.boundary(last, kept=kept)
    made.summary()
    made.user("And now?")
    made.answer(text_block("Now."))
    path = tmp_path / f"{SESSION}.jsonl"
    path.write_bytes(made.data)
    cli.ok("import", path)
    return ("resume", SESSION, "--print", "--folder", str(tmp_path), "--client")


def test_a_compaction_is_named_with_the_number_of_messages_it_stands_for(
    cli: Cli, resume: tuple[str, ...]
) -> None:
    told = "4 of 10 messages are transferred; 6 are summarized by a compaction\n"
    assert told in cli.ok(*resume, "claude").err
    assert told in cli.ok(*resume, "codex").err
    assert told in cli.ok(*resume, "harken").err


def test_where_nothing_is_kept_back_one_line_says_so(cli: Cli, resume: tuple[str, ...]) -> None:
    assert "all 8 messages are transferred\n" in cli.ok(*resume, "claude", "--at", "8").err
    assert "the only message is transferred\n" in cli.ok(*resume, "pi", "--at", "1").err


def test_what_a_client_cannot_hold_is_named_with_its_reason(cli: Cli, tmp_path: Path) -> None:
    made = Transcript(SESSION)
    made.user("Tea?")
    made.answer(text_block("API Error: 500"), model="<synthetic>", isApiErrorMessage=True)
    made.user("Tea?")
    made.answer(text_block("Yes."), tool_use_block("toolu_1"))
    path = tmp_path / f"{SESSION}.jsonl"
    path.write_bytes(made.data)
    cli.ok("import", path)
    cli.environ = {"CODEX_HOME": str(tmp_path / "codex")}
    err = cli.ok("resume", SESSION, "--print", "--folder", tmp_path, "--client", "codex").err
    assert "3 of 4 messages are transferred\n" in err
    assert "1 is skipped: " in err


def test_the_fields_add_up() -> None:
    entries = [
        ConversationEntry(Message("user", "What was said before: tea.")),
        ConversationEntry(Message("user", "Tea?")),
        ConversationEntry(Message("assistant", [ThinkingPart("Hm.")])),
        ConversationEntry(Message("assistant", [ThinkingPart("Well."), TextPart("Yes.")])),
    ]
    written = [entries[0], entries[1], ConversationEntry(Message("assistant", "Yes."))]
    said = MessageCounts(13, 10, frozenset({0}))
    found = count_transfer(said, check_completeness(entries, written)).as_json()
    (left_out,) = found.pop("left_out")
    assert found == {"messages": 13, "go_over": 2, "summarized": 10}
    assert (left_out["messages"], left_out["what"]) == (1, "thinking")
    assert count_full_transfer(said).go_over == 3
