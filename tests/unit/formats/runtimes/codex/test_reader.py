"""Reading Codex rollouts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.core.messages import (
    FunctionCall,
    Message,
    TextPart,
    ThinkingPart,
    ToolCall,
    UnknownPart,
)
from harken.formats.base import ConversationEntry
from harken.formats.providers.openai_responses import build_items
from harken.formats.runtimes.base import ReadReport
from harken.formats.runtimes.codex.reader import NATIVE
from harken.formats.runtimes.codex.resume_request import (
    build_resume_request,
)
from harken.testing import odd_conversation, plain_conversation
from tests.unit.formats.native_kit import (
    HOSTILE,
    encode_lines,
    open_source,
    read_context,
    read_steps,
    store_and_load,
    texts_of_entries,
)

META = {"id": "0199-a", "timestamp": "2026-01-31T12:00:00Z", "cwd": "/w", "cli_version": "0.142.2"}
USER = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Look."}]}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
SAID = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "I look."}],
    "phase": "commentary",
}
CALL = {
    "type": "function_call",
    "id": "fc_1",
    "name": "exec_command",
    "arguments": '{"cmd": "ls"}',
    "call_id": "call_1",
}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "a.txt\n"}
DONE = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a."}]}
ITEMS: list[dict[str, Any]] = [
    USER,
    {"type": "message", "role": "developer", "content": []},
    {"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": "u:1"}]},
    {
        "type": "message",
        "role": "user",
        "content": [
            {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "high"},
            {"type": "input_audio", "audio_url": "data:,"},
            {"type": "input_text", "text": ""},
        ],
        "internal_chat_message_metadata_passthrough": {"turn_id": "t"},
    },
    THOUGHT,
    {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "A"}, {"type": "summary_text", "text": "B"}],
        "content": [{"type": "reasoning_text", "text": "C"}],
        "encrypted_content": None,
    },
    SAID,
    {
        "type": "message",
        "role": "assistant",
        "content": [
            {"type": "output_text", "text": "one", "annotations": []},
            {"type": "output_text", "text": "two"},
            {"type": "refusal", "refusal": "no"},
        ],
    },
    {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
    {"type": "message", "role": "assistant", "content": []},
    CALL,
    {**CALL, "call_id": "call_2", "namespace": "mcp__x", "future": [{"deep": 1}]},
    {"type": "custom_tool_call", "call_id": "c3", "name": "apply_patch", "input": "*** Begin"},
    {
        "type": "local_shell_call",
        "call_id": "c4",
        "status": "completed",
        "action": {"type": "exec", "command": ["ls"], "timeout_ms": 5},
    },
    {
        "type": "tool_search_call",
        "call_id": "c5",
        "execution": "client",
        "status": "completed",
        "arguments": {"query": "q"},
    },
    {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "search"}},
    {"type": "compaction", "id": "cmp", "encrypted_content": "gAAA"},
    {"type": "of_the_future", "value": 1},
    OUTPUT,
    {**OUTPUT, "call_id": "call_2", "output": [{"type": "input_text", "text": "x"}]},
    {**OUTPUT, "call_id": "c9", "output": {"content": "boom", "success": False}},
    {"type": "custom_tool_call_output", "call_id": "c3", "output": "ok", "name": "apply_patch"},
    {"type": "tool_search_output", "call_id": "c5", "execution": "client", "tools": [{"a": 1}]},
]


def line(kind: str, payload: dict[str, Any], second: int = 0) -> dict[str, Any]:
    return {"timestamp": f"2026-01-31T12:00:{second:02}Z", "type": kind, "payload": payload}


def item(payload: dict[str, Any], second: int = 0) -> dict[str, Any]:
    return line("response_item", payload, second)


def rollout(*payloads: dict[str, Any]) -> bytes:
    return encode_lines(line("session_meta", META), *(item(payload) for payload in payloads))


def read_tip(data: bytes) -> list[ConversationEntry]:
    steps, reading = read_steps(NATIVE, data)
    return read_context(steps, reading.tips[""])


def text_item(role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def test_turn_is_a_step_and_an_answer_is_one_message() -> None:
    steps, reading = read_steps(NATIVE, rollout(USER, THOUGHT, SAID, CALL, OUTPUT, DONE))
    assert [[e.message.role for e in step.entries] for step in steps] == [
        ["user", "assistant", "tool"],
        ["assistant"],
    ]
    answer = steps[0].entries[1].message
    assert [type(part) for part in answer.content or ()] == [ThinkingPart, TextPart]
    assert [call.id for call in answer.tool_calls or ()] == ["call_1"]
    assert (reading.session_id, reading.folder, reading.version) == ("0199-a", "/w", "0.142.2")
    assert (reading.title, reading.used_lines, dict(reading.uninterpreted)) == (
        "Look.",
        6,
        {"session_meta": 1},
    )


def test_all_items_round_trip_also_through_a_store() -> None:
    assert build_items(store_and_load(read_tip(rollout(*ITEMS)))) == ITEMS


@given(st.lists(st.sampled_from(ITEMS), min_size=1))
def test_items_are_read_in_any_order(items: list[dict[str, Any]]) -> None:
    steps, _ = read_steps(NATIVE, rollout(*items))
    assert build_items([entry for step in steps for entry in step.entries]) == items


def test_client_instructions_are_read_first_and_after_a_compaction() -> None:
    instructions = {"base_instructions": {"text": "You are Codex."}}
    data = encode_lines(
        line("session_meta", {**META, **instructions}),
        item(USER),
        item(DONE),
        line("compacted", {"message": "short", "replacement_history": [USER]}),
    )
    steps, _ = read_steps(NATIVE, data)
    assert texts_of_entries(read_context(steps, steps[0].id))[0] == ("system", "You are Codex.")
    assert texts_of_entries(steps[-1].entries) == [("system", "You are Codex."), ("user", "Look.")]
    assert build_resume_request(steps[-1].entries)[0] == text_item("developer", "You are Codex.")


def test_compaction_contains_exactly_its_replacement_history() -> None:
    history = [USER, {"type": "compaction", "encrypted_content": "gAAA"}]
    data = encode_lines(
        line("session_meta", META),
        item(USER),
        item(DONE),
        line("compacted", {"message": "short", "replacement_history": history}, 7),
        item(text_item("user", "Go on."), 8),
    )
    steps, reading = read_steps(NATIVE, data)
    compaction = steps[1]
    assert (compaction.type, compaction.trigger, compaction.summary) == (
        "compaction",
        "compaction",
        "short",
    )
    assert compaction.parent == steps[0].id
    assert build_items(compaction.entries) == history
    assert build_items(read_context(steps, reading.tips[""])) == [
        *history,
        text_item("user", "Go on."),
    ]


def test_compaction_of_an_old_version_keeps_latest_prompts_and_summary() -> None:
    long = "x" * 79_990
    data = encode_lines(
        line("session_meta", META),
        item(text_item("user", "abcdefgh" * 10)),
        item(text_item("user", "<environment_context>no prompt</environment_context>")),
        item(text_item("user", long)),
        item(DONE),
        line("compacted", {"message": "Summed up."}),
    )
    steps, _ = read_steps(NATIVE, data)
    first, second, last = texts_of_entries(steps[-1].entries)
    assert first == ("user", "abcd…18 tokens truncated…efgh")
    assert second == ("user", long)
    assert last == ("user", "Summed up.")


def test_rollback_returns_before_the_prompt_and_leaves_a_branch() -> None:
    back = line("event_msg", {"type": "thread_rolled_back", "num_turns": 1})
    first, second, third = (text_item("user", name) for name in "abc")
    data = encode_lines(
        line("session_meta", META),
        item(first),
        item(DONE),
        item(second),
        item(DONE),
        back,
        item(third),
    )
    steps, reading = read_steps(NATIVE, data)
    assert build_items(read_context(steps, reading.tips[""])) == [first, DONE, third]
    assert [step for _, step in reading.branches] == [steps[1].id]


@pytest.mark.parametrize("turns", [-1, 0, None, "1", 10**30])
def test_invalid_rollback_changes_nothing(turns: object) -> None:
    back = line("event_msg", {"type": "thread_rolled_back", "num_turns": turns})
    assert build_items(read_tip(encode_lines(item(USER), item(DONE), back, item(USER)))) == [
        USER,
        DONE,
        USER,
    ]


def test_usage_is_the_increase_of_the_total() -> None:
    def spent(total: int, last: int) -> dict[str, Any]:
        def counts(tokens: int) -> dict[str, int]:
            both = {"input_tokens": tokens, "output_tokens": tokens}
            return {**both, "cached_input_tokens": 1, "reasoning_output_tokens": tokens - 4}

        info = {"total_token_usage": counts(total), "last_token_usage": counts(last)}
        return line("event_msg", {"type": "token_count", "info": info})

    data = encode_lines(
        item(USER), item(SAID), spent(10, 10), spent(10, 10), item(DONE), spent(25, 15), spent(5, 5)
    )
    steps, reading = read_steps(NATIVE, data)
    usages = [(e.source or {}).get("usage") for step in steps for e in step.entries[-1:]]
    assert usages == [
        {
            "input_tokens": tokens,
            "output_tokens": tokens,
            "cache_read_tokens": 1,
            "reasoning_tokens": thoughts,
        }
        for tokens, thoughts in ((10, 6), (20, 16))
    ]
    assert reading.uninterpreted["event_msg/token_count"] == 4


def test_synthetic_user_text_of_codex_is_marked() -> None:
    names = [
        "# AGENTS.md instructions for /w",
        "<Environment_Context>",
        "<turn_aborted>x",
        "hi <skill>",
    ]
    entries = read_tip(rollout(*(text_item("user", name) for name in names)))
    assert [e.source and e.source["kind"] for e in entries] == ["system"] * 3 + ["prompt"]


def test_second_header_of_a_fork_is_that_of_its_origin() -> None:
    custom = {**META, "forked_from_id": "0199-origin"}
    _, reading = read_steps(
        NATIVE,
        encode_lines(line("session_meta", custom), line("session_meta", {"id": "x"}), item(USER)),
    )
    assert (reading.session_id, reading.parent) == ("0199-a", "0199-origin")


def test_subagent_names_its_parent() -> None:
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": "0199-p", "depth": 1}}}
    steps, reading = read_steps(
        NATIVE,
        encode_lines(
            line("session_meta", {**META, "source": spawned}), item(USER), item(DONE), item(USER)
        ),
    )
    assert reading.parent == "0199-p"
    assert [(step.agent, step.type, step.trigger) for step in steps] == [
        ("0199-a", "snapshot", "spawn"),
        ("0199-a", "delta", "import"),
    ]
    _, reading = read_steps(
        NATIVE, encode_lines(line("session_meta", {**META, "source": "cli"}), item(USER))
    )
    assert reading.parent == ""


@pytest.mark.parametrize(
    "event",
    [
        {"type": "collab_agent_spawn_end", "new_thread_id": "0199-c"},
        {
            "type": "item_completed",
            "item": {"tool": "spawn_agent", "receiver_agents": [{"thread_id": "0199-c"}]},
        },
    ],
)
def test_session_names_its_subagents_and_their_spawn_positions(event: dict[str, Any]) -> None:
    event = line("event_msg", event)
    steps, reading = read_steps(
        NATIVE, encode_lines(item(USER), item(CALL), event, item(OUTPUT), item(DONE))
    )
    assert reading.spawned == {"0199-c": steps[0].id}


def test_items_of_the_first_versions_without_wrapper_are_read() -> None:
    head = {"id": "old", "timestamp": "2025-06-01T00:00:00Z", "instructions": None, "git": None}
    data = encode_lines(head, {"record_type": "state"}, USER, SAID, CALL, OUTPUT)
    assert NATIVE.is_session_file("x.jsonl", data)
    assert build_items(read_tip(data)) == [USER, SAID, CALL, OUTPUT]
    assert read_steps(NATIVE, data)[1].session_id == "old"


def test_events_and_damage_do_not_change_the_model_context() -> None:
    event = line("event_msg", {"type": "agent_message", "message": "I look."})
    data = encode_lines(item(USER), event, b'{"torn', b"\xff\xff", b"", item(SAID), {"type": "new"})
    steps, reading = read_steps(NATIVE, data)
    assert build_items(read_context(steps, reading.tips[""])) == [USER, SAID]
    assert [bad.number for bad in reading.bad] == [3, 4]
    assert dict(reading.uninterpreted) == {"event_msg/agent_message": 1, "blank": 1, "new": 1}


def test_growing_file_changes_only_its_last_step() -> None:
    document = rollout(USER, THOUGHT, SAID, CALL, OUTPUT, THOUGHT, DONE, USER, DONE)
    full, _ = read_steps(NATIVE, document)
    for end in range(len(document)):
        try:
            steps, _ = read_steps(NATIVE, document[:end])
        except ValueError:
            continue
        assert steps[:-1] == full[: max(0, len(steps) - 1)]


def test_call_without_output_is_closed_and_orphan_output_is_dropped() -> None:
    custom = {"type": "custom_tool_call", "call_id": "c3", "name": "apply_patch", "input": ""}
    search = {"type": "tool_search_call", "call_id": "c5", "execution": "client", "arguments": {}}
    orphan = {"type": "function_call_output", "call_id": "no", "output": ""}
    request_items = build_resume_request(read_tip(rollout(USER, CALL, custom, search, orphan)))
    assert request_items == [
        USER,
        CALL,
        {
            "type": "function_call_output",
            "id": "fco_d08ee114-ed5d-5706-8dbd-16ccacd40aa4",
            "call_id": "call_1",
            "output": "aborted",
        },
        custom,
        {"type": "custom_tool_call_output", "call_id": "c3", "output": "aborted"},
        search,
        {
            "type": "tool_search_output",
            "call_id": "c5",
            "status": "completed",
            "execution": "client",
            "tools": [],
        },
    ]


def test_items_for_the_service_or_for_no_recipient_are_not_sent() -> None:
    internal = {**USER, "internal_chat_message_metadata_passthrough": {"turn_id": "t"}}
    ghost = {"type": "ghost_snapshot", "ghost_commit": {}}
    system = text_item("system", "old")
    unusual = {"type": "message", "role": "assistant", "content": [{"type": "refusal"}]}
    assert build_resume_request(read_tip(rollout(internal, ghost, system, unusual))) == [USER]


def test_foreign_members_of_a_call_are_not_sent() -> None:
    assert build_resume_request(read_tip(rollout(USER, {**CALL, "summary": "Looks."}, OUTPUT))) == [
        USER,
        CALL,
        OUTPUT,
    ]


def test_shell_call_of_the_first_versions_gets_its_defaults() -> None:
    action = {"type": "exec", "command": ["ls"]}
    call = {"type": "local_shell_call", "call_id": "call_1", "action": action}
    nothing = dict.fromkeys(["env", "timeout_ms", "user", "working_directory"])
    assert build_resume_request(read_tip(rollout(call, OUTPUT))) == [
        {**call, "action": {**action, **nothing}},
        OUTPUT,
    ]


def test_thinking_is_sent_with_all_its_members() -> None:
    bare = {"type": "reasoning", "summary": []}
    assert build_resume_request(read_tip(rollout(bare))) == [
        {**bare, "content": None, "encrypted_content": None}
    ]


def test_conversations_of_other_runtimes_become_items() -> None:
    request_items = build_items(plain_conversation())
    assert [element["type"] for element in request_items] == [
        "message",
        "message",
        "function_call",
        "function_call_output",
        "message",
    ]
    assert all(element["type"] for element in build_items(odd_conversation()))


def test_thinking_of_other_runtimes_is_not_written() -> None:
    thought = Message("assistant", [ThinkingPart("hm", {"signature": "x"}), UnknownPart("x", "{}")])
    assert build_items([ConversationEntry(thought)]) == []


@pytest.mark.parametrize("data", HOSTILE)
def test_hostile_bytes_are_rejected_or_reported(data: bytes) -> None:
    for document in (data, rollout(USER) + data + b"\n" + rollout(SAID)):
        reading = ReadReport()
        try:
            steps = list(NATIVE.steps(open_source(document), reading))
        except ValueError:
            continue
        store_and_load([entry for step in steps for entry in step.entries])
    NATIVE.is_session_file("rollout-x.jsonl", data)


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.sampled_from(["type", "message"]),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "type",
                        "role",
                        "content",
                        "text",
                        "call_id",
                        "id",
                        "summary",
                        "output",
                        "arguments",
                        "payload",
                    ]
                ),
                inner,
            )
        ),
    ),
    st.sampled_from(
        ["function_call", "reasoning", "message", "function_call_output", "tool_search_output", "x"]
    ),
)
def test_item_may_contain_any_json(value: Any, kind: str) -> None:
    state = value if isinstance(value, dict) else {"content": value, "output": value, "id": value}
    steps, _ = read_steps(NATIVE, rollout({**state, "type": kind}))
    entries = store_and_load([entry for step in steps for entry in step.entries])
    assert len(build_items(entries)) == 1
    build_resume_request(entries)


def test_call_keeps_the_id_that_its_result_names() -> None:
    calls = read_tip(rollout(CALL))[0].message.tool_calls
    function, meta = FunctionCall("exec_command", '{"cmd": "ls"}'), {"item": {"id": "fc_1"}}
    assert calls == [ToolCall("call_1", function, meta={"codex": meta})]
