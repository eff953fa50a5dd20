"""The commits of some streams, by name: a commit is its content, so equal names are equal commits.

Each row is a commit in the order of writing: type, trigger, number of messages, agent, name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from harken.capture.live.claude_code import parse_claude_line
from harken.capture.live.codex import CodexLines
from harken.capture.live.stream_commits import StreamCommits
from harken.capture.live.stream_event import LineParser
from harken.context.checkpoint import CommitIdentity
from tests.unit.capture.live.client_lines import Stream, use, words
from tests.unit.context.watched_store import WatchedStore

SILENCE: dict[str, object] = {}
"""In place of a line: a moment without output."""
Lines = list[dict[str, object]]


def write_commits(lines: Lines, parse: LineParser, store: WatchedStore | None = None) -> list[str]:
    """Commit a run. Return a row for each new commit."""
    store = store or WatchedStore()
    known_count = len(store.made)
    identity = CommitIdentity(principal="jack", template="coder", machine="cafe", ticket_id="T1")
    chain = StreamCommits(store, "claude", lambda: 1_800_000_000_000_000, identity)
    for line in lines:
        if line is SILENCE:
            chain.note_silence()
        else:
            chain.add(parse(json.dumps(line).encode()))
    chain.end()
    names = store.made[known_count:]
    commits = store.commits(names)
    return [
        f"{commit.type} {commit.checkpoint} {commit.message_count} {commit.principal} {name[4:16]}"
        for name, commit in ((name, commits[name].commit) for name in names)
    ]


def silent(stream: Stream) -> None:
    stream.lines.append(SILENCE)


def boundary(stream: Stream, *preserved: str) -> None:
    about = {"trigger": "auto", "pre_tokens": 9, "preserved_messages": {"uuids": [*preserved]}}
    stream.add("system", subtype="compact_boundary", compact_metadata=about)


def summary(stream: Stream) -> None:
    stream.user("This session is being continued ...", isSynthetic=True)


def conversation() -> Stream:
    stream = Stream()
    stream.init()
    stream.user("List the files.")
    stream.answer("msg_1", {"type": "thinking", "thinking": "Easy.", "signature": "sig"})
    stream.answer("msg_1", words("I look."))
    stream.answer("msg_1", use("t1", command="ls"))
    stream.result("t1", "a\nb")
    stream.answer("msg_2", words("There are two."))
    stream.end()
    return stream


def conversation_without_session() -> Stream:
    stream = conversation()
    for line in stream.lines:
        del line["session_id"]
    return stream


def two_turns() -> Stream:
    """Two turns with the same texts, and a result line after each."""
    stream = Stream()
    for number in range(2):
        stream.user("Go on.")
        stream.answer(f"msg_{number}", words("I go on."))
        stream.end()
    return stream


def compactions() -> Stream:
    """Two compactions; the second preserves a message that the first one preserved, too."""
    stream = Stream()
    stream.user("One.")
    stream.answer("msg_1", words("First."))
    stream.user("Go on.")
    second = stream.answer("msg_2", words("Second."))
    boundary(stream, second)
    stream.add("system", subtype="status", status="compacting")
    summary(stream)
    stream.user("Go on.")
    third = [stream.answer("msg_3", words("A")), stream.answer("msg_3", use("t1"))]
    stream.result("t1", "a")
    boundary(stream, second, third[1])
    summary(stream)
    stream.answer("msg_4", words("Fourth."))
    stream.end()
    return stream


def compaction_at_the_start() -> Stream:
    stream = Stream()
    boundary(stream)
    summary(stream)
    stream.answer("msg_1", words("First."))
    return stream


def silences() -> Stream:
    """An answer that is committed when its tool starts."""
    stream = Stream()
    stream.user("Look.")
    stream.answer("msg_1", use("t1"))
    silent(stream)
    silent(stream)
    stream.result("t1", "a")
    stream.answer("msg_2", use("t2"))
    silent(stream)
    stream.result("t2", "b")
    stream.answer("msg_3", words("One."))
    silent(stream)
    stream.end()
    return stream


def answer_continued_at_the_start() -> Stream:
    """The first answer goes on after its tool has started."""
    stream = Stream()
    stream.user("Both.")
    stream.answer("msg_1", use("t1"))
    silent(stream)
    stream.answer("msg_1", use("t2"))
    silent(stream)
    stream.result("t1", "a")
    stream.result("t2", "b")
    stream.answer("msg_2", words("Both done."))
    stream.end()
    return stream


def answer_continued_later() -> Stream:
    """The second answer goes on after its tool has started."""
    stream = Stream()
    stream.user("Look.")
    stream.answer("msg_1", use("t1"))
    stream.result("t1", "a")
    stream.answer("msg_2", use("t2"))
    silent(stream)
    stream.answer("msg_2", use("t3"))
    stream.result("t2", "b")
    stream.result("t3", "c")
    stream.answer("msg_3", words("Done."))
    stream.end()
    return stream


def subagents() -> Stream:
    """Two subagents side by side. One has a prompt that no call has."""
    stream = Stream()
    stream.user("Ask Ann and Bob.")
    stream.answer("msg_1", use("t1", "Agent", prompt="Tea or coffee?"))
    stream.answer("msg_1", use("t2", "Agent"))
    stream.answer("msg_a", use("t3"), call="t1")
    silent(stream)
    stream.answer("msg_b", words("Cake."), call="t2")
    stream.result("t3", "tea", call="t1")
    stream.answer("msg_c", words("Tea."), call="t1")
    stream.result("t2", "Cake.")
    stream.result("t1", "Tea.")
    stream.answer("msg_2", words("Tea and cake."))
    stream.end()
    return stream


def subagent_first() -> Stream:
    stream = Stream()
    stream.answer("msg_a", words("Tea."), call="t1")
    stream.user("Ask Ann.")
    stream.answer("msg_1", words("She said tea."))
    stream.end()
    return stream


def broken_run() -> Stream:
    """A run without a result, with an error and a line of an unknown type."""
    stream = Stream()
    stream.init()
    stream.add("of_tomorrow", text="hm")
    stream.user("One.")
    stream.add("assistant", error="overloaded", message={"id": "msg_1", "content": []})
    return stream


def codex_lines() -> Iterator[dict[str, object]]:
    yield {"type": "thread.started", "thread_id": "th-1"}
    yield {"type": "turn.started"}
    yield {"type": "item.completed", "item": {"id": "i0", "type": "reasoning", "text": "Hm."}}
    command = {"id": "i1", "type": "command_execution", "command": "ls", "aggregated_output": ""}
    yield {"type": "item.started", "item": {**command, "status": "in_progress"}}
    yield SILENCE
    yield {
        "type": "item.completed",
        "item": {**command, "aggregated_output": "a", "exit_code": 0, "status": "completed"},
    }
    yield {"type": "item.completed", "item": {"id": "i2", "type": "agent_message", "text": "a"}}
    yield {"type": "turn.completed", "usage": {"input_tokens": 3, "output_tokens": 4}}


EXPECTED: dict[Callable[[], Stream], list[str]] = {
    conversation: [
        "delta turn_boundary 2 jack aa09623277da",
        "delta turn_boundary 2 jack cc523c9a3bd0",
        "delta session_end 0 jack 39ed91fd19ba",
    ],
    conversation_without_session: [
        "delta turn_boundary 2 jack 049f6066052c",
        "delta turn_boundary 2 jack 7613368206bc",
        "delta session_end 0 jack ff15152d4806",
    ],
    two_turns: [
        "delta turn_boundary 2 jack 58eb55488816",
        "delta session_end 0 jack 724ddec6a603",
        "delta turn_boundary 2 jack afb187e2f53e",
        "delta session_end 0 jack 57c7a45ce4e5",
    ],
    compactions: [
        "delta turn_boundary 2 jack 64f7c0f28083",
        "delta turn_boundary 2 jack 0dfd29060780",
        "compaction compaction 2 jack e9402569ad11",
        "delta turn_boundary 2 jack 0a268251bbfa",
        "delta compaction 1 jack 1675cb7f2d62",
        "compaction compaction 3 jack 721a281589cb",
        "delta turn_boundary 1 jack dcf9200aa72e",
        "delta session_end 0 jack 95011fb0266d",
    ],
    compaction_at_the_start: [
        "compaction compaction 1 jack 24b7e178987e",
        "delta session_end 1 jack 1b64af3b9dd8",
    ],
    silences: [
        "delta turn_boundary 2 jack 4e4f21f43831",
        "delta turn_boundary 2 jack f0db454f7575",
        "delta turn_boundary 2 jack 7eb6b069c40f",
        "delta session_end 0 jack 51f1e91f3b29",
    ],
    answer_continued_at_the_start: [
        "delta turn_boundary 2 jack 4fafeca15c3b",
        "delta turn_boundary 2 jack bc0e61f657ef",
        "delta turn_boundary 3 jack b0436cc39925",
        "delta session_end 0 jack a1d42815e970",
    ],
    answer_continued_later: [
        "delta turn_boundary 2 jack 4e4f21f43831",
        "delta turn_boundary 2 jack 81478d47c366",
        "delta turn_boundary 2 jack 77cac1459635",
        "delta turn_boundary 3 jack f9b93abb7d9c",
        "delta session_end 0 jack 9d3e1a77a5d4",
    ],
    subagents: [
        "delta turn_boundary 2 jack c7a5a7310f98",
        "snapshot spawn 2 jack/t1 52fb57f8b8e7",
        "delta turn_boundary 3 jack 9fd90f26f805",
        "delta session_end 0 jack 01381d95e033",
        "delta session_end 2 jack/t1 bf13ca4d8d4f",
        "snapshot spawn 1 jack/t2 9428004c18c9",
    ],
    subagent_first: [
        "delta turn_boundary 2 jack 0aa5afa131a2",
        "delta session_end 0 jack bd1c0984077b",
        "snapshot spawn 1 jack/t1 bcff099264eb",
    ],
    broken_run: [
        "delta session_end 1 jack 90c36a062d7f",
    ],
}


@pytest.mark.parametrize("make", EXPECTED, ids=lambda make: make.__name__)
def test_stream_has_these_commits(make: Callable[[], Stream]) -> None:
    assert write_commits(make().lines, parse_claude_line) == EXPECTED[make]


def test_stream_of_codex_has_these_commits() -> None:
    assert write_commits([*codex_lines()], CodexLines().parse_line) == [
        "delta turn_boundary 1 jack 7c4752d4deb6",
        "delta turn_boundary 2 jack eefd55964941",
        "delta session_end 0 jack ecce29c87ef0",
    ]


def test_run_that_only_fails_has_this_commit() -> None:
    lines: Lines = [
        {"type": "thread.started", "thread_id": "th-1"},
        {"type": "item.completed", "item": {"id": "i0", "type": "reasoning", "text": "Hm."}},
        {"type": "error", "message": "overloaded"},
    ]
    assert write_commits(lines, CodexLines().parse_line) == [
        "delta session_end 1 jack cb30751f8cfa",
        "delta session_end 0 jack 7c7f6b33e52f",
    ]
    assert write_commits([lines[0], lines[2]], CodexLines().parse_line) == [
        "delta session_end 0 jack 9a6c74ac3aac"
    ]


def test_outcome_of_a_run_follows_the_commits_of_its_file() -> None:
    store = WatchedStore()
    write_commits(conversation().lines, parse_claude_line, store)
    chain = StreamCommits(store, "claude", lambda: 0)
    parsed = [parse_claude_line(json.dumps(line).encode()) for line in conversation().lines]
    chain.end_after(store.made[1], [parsed[0], parsed[-1]])
    assert (chain.newest, str(store.made[-1])[4:16]) == (store.made[-1], "5fa4968739e8")


def test_resumed_run_continues_with_these_commits() -> None:
    store = WatchedStore()
    write_commits(conversation().lines, parse_claude_line, store)
    rows = write_commits(two_turns().lines, parse_claude_line, store)
    assert rows == [
        "delta turn_boundary 2 jack 6c2bcf3006c3",
        "delta session_end 0 jack c1ca8187b572",
        "delta turn_boundary 2 jack b80ac087271a",
        "delta session_end 0 jack f6879d0556c8",
    ]
    rows = write_commits(compaction_at_the_start().lines, parse_claude_line, store)
    assert rows == [
        "compaction compaction 1 jack 9214c5b8e3a4",
        "delta session_end 1 jack a18c5a5052fb",
    ]
    rows = write_commits(subagent_first().lines, parse_claude_line, store)
    assert rows == [
        "delta turn_boundary 2 jack cd0889211687",
        "delta session_end 0 jack d4a66c0eb41f",
        "snapshot spawn 1 jack/t1 1355796277df",
    ]
