"""Commits from the output stream of a client."""

from __future__ import annotations

import json

import pytest

from harken.capture.live.claude_code import parse_claude_line
from harken.capture.live.stream_commits import StreamCommits
from harken.context.checkpoint import CommitDraft, CommitOrigin, checkpoint
from harken.context.commit_content import read_contents
from harken.context.history import commit_history
from harken.context.materialize import materialize
from harken.core.clock import format_rfc3339
from harken.core.commits import CommitId
from harken.core.messages import Message, text_of
from harken.formats.events import MetricEvent, OutputEvent, SystemEvent
from harken.formats.events_v1 import decode_events
from harken.store.base import StoredCommit
from harken.store.memory import MemoryStore
from tests.unit.capture.live.client_lines import SESSION, Stream, use, words

NOW_US = 1_800_000_000_000_000


class StreamRun:
    """A chain and the commits that it created."""

    def __init__(self, store: MemoryStore | None = None) -> None:
        self.store = store or MemoryStore()
        self.chain = StreamCommits(self.store, "claude", lambda: NOW_US)

    def take(self, stream: Stream, *, is_end: bool = False) -> None:
        """Feed the stream lines written since the last call."""
        for line in stream.lines:
            self.chain.add(parse_claude_line(json.dumps(line).encode()))
        stream.lines.clear()
        if is_end:
            self.chain.note_silence()

    @property
    def tip(self) -> CommitId:
        assert self.chain.newest is not None
        return self.chain.newest

    def commits(self, ctx: CommitId | None = None) -> list[StoredCommit]:
        """Return the history, oldest first."""
        return commit_history(self.store, ctx or self.tip)[::-1]

    def root_messages(self) -> list[Message]:
        """Return the messages of the run, without its compactions."""
        return materialize(self.store, self.tip, "root").messages

    def read_texts(self, ctx: CommitId | None = None) -> list[str]:
        """Return the materialized conversation, one line per message."""
        messages = materialize(self.store, ctx or self.tip).messages
        return [
            f"{message.role}: {text_of(message.content)}"
            + "".join(f" [{call.function.name}]" for call in message.tool_calls or ())
            for message in messages
        ]


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


@pytest.mark.req("S2-37", "S2-30")
def test_commit_is_created_per_answer_and_at_the_end() -> None:
    ran = StreamRun()
    ran.take(conversation())
    commits = [stored.commit for stored in ran.commits()]
    assert [stored.checkpoint for stored in commits] == [
        "turn_boundary",
        "turn_boundary",
        "session_end",
    ]
    assert [stored.message_count for stored in commits] == [2, 2, 0]
    assert [stored.parent for stored in commits] == [None, *(stored.id for stored in commits[:-1])]
    assert {commit.format for commit in commits} == {"events-v1"}
    assert {(commit.principal, commit.session_id) for commit in commits} == {
        (f"claude:{SESSION}", f"claude:{SESSION}")
    }
    assert ran.read_texts() == [
        "user: List the files.",
        "assistant: I look. [Bash]",
        "tool: a\nb",
        "assistant: There are two.",
    ]


@pytest.mark.req("S2-37", "S2-36")
def test_last_commit_contains_events_that_are_no_messages() -> None:
    ran = StreamRun()
    stream = conversation()
    stream.lines.insert(1, {"type": "of_tomorrow"})
    ran.take(stream)
    (last,) = read_contents(ran.store, ran.commits()[-1:])
    started, unknown, metric = (event.payload for event in decode_events(last.data))
    assert isinstance(started, SystemEvent)
    assert unknown == OutputEvent('{"type": "of_tomorrow"}')
    assert isinstance(metric, MetricEvent)
    assert (metric.status, metric.cost_usd) == ("success", 0.25)
    assert ran.commits()[-1].notes.summary == "success, 2 turns, $0.2500"


def test_lines_of_one_response_become_one_message() -> None:
    ran = StreamRun()
    ran.take(conversation())
    (first,) = read_contents(ran.store, ran.commits()[:1])
    assert first.entries is not None
    prompt, answer = first.entries
    assert prompt.source == {"kind": "prompt", "uuid": "00000000-0000-4000-8000-000000000002"}
    assert answer.source is not None
    assert answer.source["id"] == "msg_1"
    assert len(answer.source["uuids"]) == 3
    assert answer.source["usage"] == {"input_tokens": 1, "output_tokens": 2}
    assert first.stored.commit.created_at == "2026-01-31T12:00:05.000000Z"


def test_answer_is_committed_before_its_tool_ends() -> None:
    ran = StreamRun()
    stream = Stream()
    stream.user("List the files.")
    stream.answer("msg_1", use("t1"))
    ran.take(stream)
    assert ran.chain.newest is None
    ran.take(stream, is_end=True)
    during = ran.tip
    assert ran.read_texts() == ["user: List the files.", "assistant:  [Bash]"]
    stream.result("t1", "a")
    stream.answer("msg_2", words("One."))
    stream.end()
    ran.take(stream)
    assert ran.commits()[0].id == during


def test_answer_continued_after_its_tool_started_is_committed_again() -> None:
    ran = StreamRun()
    stream = Stream()
    stream.user("Both.")
    stream.answer("msg_1", use("t1"))
    ran.take(stream, is_end=True)
    stream.answer("msg_1", use("t2"))
    ran.take(stream, is_end=True)
    assert ran.read_texts() == ["user: Both.", "assistant:  [Bash] [Bash]"]
    assert len(ran.commits()) == 1


def test_other_events_of_a_continued_answer_are_committed_once() -> None:
    ran = StreamRun()
    stream = Stream()
    stream.init()
    stream.user("Both.")
    stream.answer("msg_1", use("t1"))
    ran.take(stream, is_end=True)
    stream.add("system", subtype="status", status="running")
    stream.answer("msg_1", use("t2"))
    stream.end()
    ran.take(stream)
    assert ran.read_texts() == ["user: Both.", "assistant:  [Bash] [Bash]"]
    (last,) = read_contents(ran.store, ran.commits()[-1:])
    subtypes = [getattr(event.payload, "subtype", "end") for event in decode_events(last.data)]
    assert subtypes == ["init", "status", "end"]


def test_messages_after_a_result_without_messages_follow_its_commit() -> None:
    ran = StreamRun()
    stream = Stream()
    stream.init()
    stream.end()
    stream.user("Go on.")
    stream.end()
    ran.take(stream)
    assert [stored.commit.message_count for stored in ran.commits()] == [0, 1, 0]


def test_the_first_commit_of_a_subagent_is_its_spawn_even_at_a_compaction() -> None:
    ran = StreamRun()
    stream = Stream()
    stream.user("Ask Ann.")
    stream.answer("msg_1", use("t1", "Agent"))
    stream.add("system", subtype="compact_boundary", parent_tool_use_id="t1")
    summary = {"role": "user", "content": "This session is being continued ..."}
    stream.add("user", message=summary, parent_tool_use_id="t1", isSynthetic=True)
    stream.answer("msg_2", words("Tea."), call="t1")
    ran.take(stream)
    ran.chain.end()
    commits = [stored.commit for stored in ran.commits()]
    assert [(commit.type, commit.checkpoint, commit.message_count) for commit in commits] == [
        ("delta", "turn_boundary", 2),
        ("snapshot", "spawn", 1),
        ("delta", "session_end", 1),
    ]


@pytest.mark.req("S2-37")
def test_messages_before_a_compaction_are_committed_first() -> None:
    ran = StreamRun()
    stream = Stream()
    stream.user("One.")
    stream.answer("msg_1", words("First."))
    stream.user("Two.")
    second_answer = stream.answer("msg_2", words("Second."))
    about = {"trigger": "auto", "pre_tokens": 9, "preserved_messages": {"uuids": [second_answer]}}
    stream.add("system", subtype="compact_boundary", compact_metadata=about)
    stream.user("This session is being continued ...", isSynthetic=True)
    stream.user("Three.")
    stream.answer("msg_3", words("Third."))
    stream.end()
    ran.take(stream)
    commits = ran.commits()
    assert [stored.commit.type for stored in commits] == [
        "delta",
        "delta",
        "compaction",
        "delta",
        "delta",
    ]
    assert ran.read_texts() == [
        "user: This session is being continued ...",
        "assistant: Second.",
        "user: Three.",
        "assistant: Third.",
    ]
    assert ran.read_texts(commits[1].id)[-1] == "assistant: Second."


def pending_stream() -> Stream:
    """Return a run in which messages wait at its compaction and at its end."""
    stream = Stream()
    stream.init()
    stream.user("Look.")
    stream.answer("msg_1", use("t1", command="ls"))
    stream.result("t1", "a")
    stream.add(
        "system", subtype="compact_boundary", compact_metadata={"trigger": "auto", "pre_tokens": 9}
    )
    stream.user("This session is being continued ...", isSynthetic=True)
    stream.answer("msg_2", words("I go on."))
    stream.user("And?")
    stream.answer("msg_3", use("t2", command="cat"))
    stream.result("t2", "b")
    stream.end(subtype="error_max_turns", num_turns=3)
    return stream


@pytest.mark.req("S2-37")
def test_waiting_messages_are_committed_at_a_compaction_and_at_the_end() -> None:
    ran = StreamRun()
    ran.take(pending_stream())
    commits = ran.commits()
    assert [
        (stored.commit.type, stored.commit.checkpoint, stored.commit.message_count)
        for stored in commits
    ] == [
        ("delta", "turn_boundary", 2),
        ("delta", "compaction", 1),
        ("compaction", "compaction", 1),
        ("delta", "turn_boundary", 1),
        ("delta", "turn_boundary", 2),
        ("delta", "session_end", 1),
        ("delta", "session_end", 0),
    ]
    parents = [stored.commit.parent for stored in commits]
    assert parents == [None, *(stored.id for stored in commits[:-1])]
    (last,) = read_contents(ran.store, commits[-1:])
    assert [type(event.payload) for event in decode_events(last.data)] == [
        *(SystemEvent, SystemEvent, MetricEvent)
    ]


@pytest.mark.req("S2-37")
def test_every_line_of_a_run_is_in_one_commit() -> None:
    """Each prefix of a run that ends there has all its messages, once and in order."""
    full = StreamRun()
    full.take(pending_stream())
    expected = [text_of(message.content) for message in full.root_messages()]
    assert expected == ["Look.", "", "a", "I go on.", "And?", "", "b"]
    for length in range(2, len(pending_stream().lines) + 1):
        ran, stream = StreamRun(), pending_stream()
        del stream.lines[length:]
        count = len([line for line in stream.lines if is_message(line)])
        ran.take(stream)
        ran.chain.end()
        contents = [text_of(message.content) for message in ran.root_messages()]
        summary = ["This session is being continued ..."]
        assert contents in (expected[: len(contents)], [*expected[:3], *summary])
        assert len([text for text in contents if text not in summary]) == count


def is_message(line: dict[str, object]) -> bool:
    return line["type"] in ("user", "assistant") and not line.get("isSynthetic")


def test_subagent_has_its_own_chain_from_its_call() -> None:
    ran = StreamRun()
    stream = Stream()
    stream.user("Ask Ann.")
    stream.answer("msg_1", use("t1", "Agent", prompt="Tea or coffee?"))
    stream.answer("msg_a", use("t2"), call="t1")
    stream.result("t2", "tea", call="t1")
    stream.answer("msg_b", words("Tea."), call="t1")
    ran.take(stream)
    ran.chain.end()
    latest = ran.store.latest_commit(f"claude:{SESSION}/t1", "2026-12-31T00:00:00.000000Z")
    assert latest is not None
    assert ran.read_texts(latest) == [
        "user: Tea or coffee?",
        "assistant:  [Bash]",
        "tool: tea",
        "assistant: Tea.",
    ]
    main, first, _ = ran.commits(latest)
    assert (first.commit.type, first.commit.checkpoint) == ("snapshot", "spawn")
    assert main.commit.principal == f"claude:{SESSION}"
    stream.result("t1", "Tea.")
    stream.answer("msg_2", words("Ann wants tea."))
    stream.end()
    ran.take(stream)
    assert ran.read_texts()[-1] == "assistant: Ann wants tea."
    assert len(ran.read_texts()) == 4


def test_resumed_session_continues_its_chain() -> None:
    store = MemoryStore()
    first = StreamRun(store)
    first.take(conversation())
    resumed = StreamRun(store)
    stream = Stream()
    stream.init()
    stream.user("And now?")
    stream.answer("msg_9", words("Still two."))
    stream.end()
    resumed.take(stream)
    assert len(resumed.read_texts()) == 6
    assert first.tip in [stored.id for stored in resumed.commits()]


def test_runs_without_session_id_are_separate() -> None:
    store = MemoryStore()
    for _ in range(2):
        ran, stream = StreamRun(store), conversation()
        for line in stream.lines:
            del line["session_id"]
        ran.take(stream)
        assert ran.commits()[0].commit.parent is None
        assert len(ran.read_texts()) == 4


def test_run_without_result_keeps_messages_and_error() -> None:
    ran = StreamRun()
    stream = Stream()
    stream.user("One.")
    ran.take(stream)
    ran.chain.end()
    assert ran.read_texts() == ["user: One."]


def test_lines_without_time_get_their_arrival_time() -> None:
    ran = StreamRun()
    ran.chain.add(parse_claude_line(b'{"type": "assistant", "subtype": "text", "text": "Hi."}'))
    ran.chain.end()
    (stored,) = ran.commits()
    assert stored.commit.created_at == "2027-01-15T08:00:00.000000Z"
    assert stored.commit.principal == "claude"


def test_commits_that_a_proxy_makes_during_the_run_are_not_continued() -> None:
    """They have the same session and principal, and the same conversation in another form."""
    store = MemoryStore()
    ran, stream = StreamRun(store), conversation()
    session = f"claude:{stream.lines[0]['session_id']}"
    origin = CommitOrigin(session_id=session, principal=session)
    later = format_rfc3339(NOW_US + 1)
    messages = [Message("user", "One and one?"), Message("assistant", "Two.")]
    checkpoint(store, CommitDraft(messages=messages, origin=origin, created_at=later))
    ran.take(stream)
    assert ran.commits()[0].commit.parent is None
    assert len(ran.read_texts()) == 4
