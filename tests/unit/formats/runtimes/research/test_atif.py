"""ATIF: trajectories are read as conversations, and conversations are written as valid trajectories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from atif import Trajectory
from hypothesis import given
from hypothesis import strategies as st

from harken.capture.files.importer import Importer
from harken.capture.files.sources import iter_files
from harken.context.materialize import materialize
from harken.core.commits import CommitId
from harken.core.messages import FunctionCall, ImagePart, Message, TextPart, ThinkingPart, ToolCall
from harken.errors import FormatError
from harken.formats.base import ConversationEntry
from harken.formats.runtimes.base import ImportStep, ReadReport, SessionFile
from harken.formats.runtimes.registry import detect_runtime_format
from harken.formats.runtimes.research import atif
from harken.index.catalogue import Catalogue
from harken.store.memory import MemoryStore

NOON = "2026-01-31T12:00:00.000000Z"
CHILD = {
    "schema_version": "ATIF-v1.7",
    "trajectory_id": "child",
    "agent": {"name": "helper", "version": "1"},
    "steps": [
        {"step_id": 1, "source": "user", "message": "Look at the back door."},
        {"step_id": 2, "source": "agent", "message": "It is open.", "model_name": "small"},
    ],
}
STORY: dict[str, Any] = {
    "schema_version": "ATIF-v1.7",
    "session_id": "s-1",
    "agent": {"name": "terminus", "version": "2.0", "model_name": "large"},
    "steps": [
        {"step_id": 1, "source": "system", "message": "You watch a door."},
        {"step_id": 2, "source": "user", "message": "Who is there?", "timestamp": NOON},
        {
            "step_id": 3,
            "source": "agent",
            "message": "I look.",
            "reasoning_content": "Two doors.",
            "tool_calls": [
                {"tool_call_id": "a", "function_name": "look", "arguments": {"at": "front"}},
                {"tool_call_id": "b", "function_name": "send", "arguments": {}},
            ],
            "observation": {
                "results": [
                    {"source_call_id": "a", "content": "Nobody."},
                    {
                        "source_call_id": "b",
                        "content": "Sent.",
                        "subagent_trajectory_ref": [{"trajectory_id": "child"}],
                    },
                ]
            },
            "metrics": {"prompt_tokens": 50, "completion_tokens": 9, "cached_tokens": 40},
        },
        {"step_id": 4, "source": "agent", "message": "Nobody, but it is open.", "model_name": "m2"},
    ],
    "subagent_trajectories": [CHILD],
}


def _steps(value: object) -> tuple[list[ImportStep], ReadReport]:
    reading = ReadReport()
    data = json.dumps(value).encode()
    return list(atif.iter_steps(SessionFile("", lambda: [data]), reading)), reading


def _entry_texts(entries: list[ConversationEntry]) -> list[tuple[str, str]]:
    return [(entry.message.role, str(entry.message.content)) for entry in entries]


def test_trajectory_is_detected_by_its_first_bytes() -> None:
    Trajectory.model_validate(STORY)
    for data in (json.dumps(STORY), json.dumps(STORY, indent=2, sort_keys=True)):
        native = detect_runtime_format("run/trajectory.json", data.encode())
        assert native is not None
        assert native.name == "atif-v1"


def test_step_of_an_agent_becomes_an_answer_and_its_results() -> None:
    result, reading = _steps(STORY)
    main = [entry for step in result if not step.agent for entry in step.entries]
    assert [entry.message.role for entry in main] == [
        *("system", "user", "assistant", "tool", "tool", "assistant"),
    ]
    answer = main[2]
    assert answer.message.content == [ThinkingPart("Two doors."), TextPart("I look.")]
    assert answer.message.tool_calls == [
        ToolCall("a", FunctionCall("look", '{"at":"front"}')),
        ToolCall("b", FunctionCall("send", "{}")),
    ]
    assert answer.source == {
        "kind": "response",
        "model": "large",
        "usage": {"prompt_tokens": 50, "completion_tokens": 9, "cached_tokens": 40},
    }
    assert main[1].time == NOON
    assert (main[1].source or {})["kind"] == "prompt"
    assert main[5].source == {"kind": "response", "model": "m2"}
    assert reading.session_id == "s-1"
    assert reading.title == "Who is there?"
    assert reading.version == "terminus 2.0"


def test_subagent_starts_at_the_result_that_names_it() -> None:
    result, reading = _steps(STORY)
    assert list(reading.tips) == ["", "child"]
    [first] = [step for step in result if step.agent == "child"]
    assert (first.type, first.trigger) == ("snapshot", "spawn")
    assert _entry_texts([*first.entries]) == [
        ("user", "Look at the back door."),
        ("assistant", "It is open."),
    ]
    [parent] = [step for step in result if step.id == first.parent]
    assert parent.agent == ""
    assert parent.entries[-1].message.content == "Sent."


def test_imported_conversation_equals_the_written_one(tmp_path: Path) -> None:
    file = tmp_path / "trajectory.json"
    file.write_text(json.dumps(STORY))
    store = MemoryStore()
    [result] = Importer(store, Catalogue(None)).run(list(iter_files(file)))
    assert result.report.format == "atif-v1"
    assert [tip.agent for tip in result.report.tips] == ["main", "child"]
    messages = materialize(store, CommitId(result.report.tips[0].ctx)).messages
    assert [str(message.content) for message in messages][-1] == "Nobody, but it is open."


@pytest.mark.parametrize(
    "value",
    [
        [],
        {"schema_version": "ATIF-v1.7"},
        {"schema_version": "ATIF-v1.7", "agent": 1, "steps": []},
        {"schema_version": "ATIF-v1.7", "agent": {}, "steps": {}},
    ],
)
def test_invalid_trajectory_is_rejected_in_one_line(value: object) -> None:
    with pytest.raises(FormatError, match=r"^not valid atif-v1: [^\n]+$"):
        _steps(value)


def test_steps_of_unknown_sources_are_counted_and_skipped() -> None:
    steps = [{"source": "daemon", "message": "?"}, {"source": "user", "message": "Hi"}, "no step"]
    result, reading = _steps({"agent": {}, "steps": steps})
    assert _entry_texts([entry for step in result for entry in step.entries]) == [("user", "Hi")]
    assert reading.uninterpreted == {"step/daemon": 1}


@pytest.mark.parametrize("is_referenced", [True, False])
def test_subagents_are_read_to_the_twentieth_level(is_referenced: bool) -> None:
    nested: dict[str, Any] = {}
    for level in range(22, 0, -1):
        result = {"subagent_trajectory_ref": [{"trajectory_id": f"level {level + 1}"}]}
        step = {
            "step_id": 1,
            "source": "agent",
            "message": f"I am {level}.",
            "observation": {"results": [result] if is_referenced else []},
        }
        nested = {
            **CHILD,
            "trajectory_id": f"level {level}",
            "steps": [step],
            "subagent_trajectories": [nested] if nested else [],
        }
    steps, reading = _steps(STORY | {"subagent_trajectories": [nested]})
    agents = {step.agent for step in steps} - {""}
    assert agents == {f"level {level}" for level in range(1, 21)}
    assert {*reading.tips} == {"", *agents}


def test_subagents_that_name_themselves_terminate() -> None:
    deep: dict[str, Any] = dict(CHILD)
    for _ in range(60):
        deep = {**CHILD, "subagent_trajectories": [deep]}
    result, _ = _steps({**STORY, "subagent_trajectories": [deep, deep]})
    assert len({step.id for step in result}) == len(result)


def _write_trajectory(messages: list[Message]) -> dict[str, Any]:
    data = atif.encode_trajectory([ConversationEntry(message, NOON) for message in messages])
    assert data is not None
    trajectory: dict[str, Any] = json.loads(data)
    Trajectory.model_validate(trajectory)
    return trajectory


@pytest.mark.parametrize("name", ["cache_read_tokens", "cached_input_tokens"])
def test_usage_with_cached_tokens_in_the_prompt_keeps_them(name: str) -> None:
    usage = {"input_tokens": 50, name: 40, "output_tokens": 9}
    data = atif.encode_trajectory(
        [ConversationEntry(Message("assistant", "Hi"), None, {"usage": usage})]
    )
    metrics = {"prompt_tokens": 50, "completion_tokens": 9, "cached_tokens": 40}
    assert json.loads(data or b"")["steps"][0]["metrics"] == metrics


def test_usage_counts_cached_tokens_as_part_of_the_prompt() -> None:
    usage = {
        "input_tokens": 5,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 7,
        "output_tokens": 9,
    }
    data = atif.encode_trajectory(
        [ConversationEntry(Message("assistant", "Hi"), None, {"usage": usage})] * 2
    )
    trajectory = json.loads(data or b"")
    metrics = {"prompt_tokens": 112, "completion_tokens": 9, "cached_tokens": 100}
    assert trajectory["steps"][0]["metrics"] == metrics
    assert trajectory["final_metrics"] == {
        "total_steps": 2,
        "total_prompt_tokens": 224,
        "total_completion_tokens": 18,
        "total_cached_tokens": 200,
    }


def test_image_is_a_part_with_a_data_url() -> None:
    image: Any = [TextPart("Look:"), ImagePart("image/png", "AAAA"), ImagePart("image/x", "A")]
    trajectory = _write_trajectory([Message("user", image)])
    assert trajectory["steps"][0]["message"] == [
        {"type": "text", "text": "Look:"},
        {
            "type": "image",
            "source": {"media_type": "image/png", "path": "data:image/png;base64,AAAA"},
        },
        {"type": "text", "text": "(an image: image/x)"},
    ]
    [entry] = atif.FORMAT.reads(json.dumps(trajectory).encode()) if atif.FORMAT.reads else []
    assert isinstance(entry.message.content, list)
    assert entry.message.content[1] == ImagePart("image/png", "AAAA")


def test_orphan_result_is_marked() -> None:
    trajectory = _write_trajectory([Message("tool", "Late.", tool_call_id="gone", is_error=True)])
    assert trajectory["steps"][0]["source"] == "system"
    assert atif.FORMAT.reads is not None
    [entry] = atif.FORMAT.reads(json.dumps(trajectory).encode())
    assert entry.message == Message("tool", "Late.", tool_call_id="gone", is_error=True)


def test_result_after_an_orphan_result_stays_a_result() -> None:
    tool_calls = [ToolCall(id_, FunctionCall("look", "{}")) for id_ in ("c.1", "c.2")]
    trajectory = _write_trajectory(
        [
            Message("assistant", "I look.", tool_calls),
            Message("tool", "Nobody.", tool_call_id="c.1"),
            Message("tool", "Late.", tool_call_id="gone"),
            Message("tool", "Somebody.", tool_call_id="c.2"),
        ]
    )
    named_message = [
        [item.get("source_call_id") for item in step["observation"]["results"]]
        for step in trajectory["steps"]
    ]
    assert named_message == [["c_1"], [None], [None]]
    assert atif.FORMAT.reads is not None
    _, *results = atif.FORMAT.reads(json.dumps(trajectory).encode())
    assert [(item.message.role, item.message.tool_call_id) for item in results] == [
        ("tool", "c_1"),
        ("tool", "gone"),
        ("tool", "c_2"),
    ]


def test_usage_round_trips_in_the_terms_of_its_runtime() -> None:
    source = {"kind": "response", "usage": {"input_tokens": 50, "output_tokens": 9}, "model": "m"}
    data = atif.encode_trajectory([ConversationEntry(Message("assistant", "Hi"), None, source)])
    assert atif.FORMAT.reads is not None
    [back] = atif.FORMAT.reads(data or b"")
    assert back.source == source


@pytest.mark.parametrize(
    "usage",
    [
        {"input_tokens": 50, "output_tokens": 9, "input_tokens_details": {"cached_tokens": 40}},
        {
            "prompt_tokens": 50,
            "completion_tokens": 9,
            "prompt_tokens_details": {"cached_tokens": 40},
        },
    ],
)
def test_usage_with_cached_tokens_in_its_details_keeps_them(usage: dict[str, Any]) -> None:
    data = atif.encode_trajectory(
        [ConversationEntry(Message("assistant", "Hi"), None, {"usage": usage})]
    )
    metrics = {"prompt_tokens": 50, "completion_tokens": 9, "cached_tokens": 40}
    assert json.loads(data or b"")["steps"][0]["metrics"] == metrics


_words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
_arguments = st.dictionaries(_words, st.integers(-9, 9) | _words, max_size=3)


@st.composite
def _conversations(draw: st.DrawFn) -> list[ConversationEntry]:
    """Draw a conversation that ATIF can represent: calls with results, thinking before text."""
    entries: list[ConversationEntry] = []
    for index in range(draw(st.integers(1, 5))):
        entries.append(
            ConversationEntry(Message(draw(st.sampled_from(["user", "system"])), draw(_words)))
        )
        names = draw(st.lists(_words, max_size=3))
        calls = [
            ToolCall(f"call_{index}_{n}", FunctionCall(f"f{n}", json.dumps(draw(_arguments))))
            for n in range(len(names))
        ]
        parts: list[Any] = [ThinkingPart(draw(_words))] if draw(st.booleans()) else []
        answer: Any = [*parts, TextPart(draw(_words))] if parts else draw(_words)
        sources: list[dict[str, Any]] = [{"kind": "response", "model": "m", "id": "r"}, {"x": 1}]
        source = draw(st.sampled_from(sources))
        entries.append(ConversationEntry(Message("assistant", answer, calls or None), NOON, source))
        entries += [
            ConversationEntry(
                Message("tool", text, tool_call_id=call.id, is_error=draw(st.booleans())),
                draw(st.sampled_from([None, NOON])),
            )
            for call, text in zip(calls, names, strict=True)
        ]
    return entries


@given(_conversations())
def test_conversation_that_a_trajectory_can_represent_round_trips(
    entries: list[ConversationEntry],
) -> None:
    data = atif.encode_trajectory(entries)
    assert data is not None
    Trajectory.model_validate_json(data)
    assert atif.FORMAT.reads is not None
    back = atif.FORMAT.reads(data)
    assert [entry.message for entry in back] == [entry.message for entry in entries]
    for item, was in zip(back, entries, strict=True):
        assert was.time in (None, item.time)
        assert (was.source or {}).items() <= (item.source or {}).items()


def test_copied_step_and_continuation_are_noted() -> None:
    steps = [
        {"step_id": 1, "source": "user", "message": "Hi", "is_copied_context": True},
        {"step_id": 2, "source": "agent", "message": "Hello", "is_copied_context": "yes"},
    ]
    members = {"continued_trajectory_ref": "part-2", "subagent_trajectories": []}
    read, reading = _steps(STORY | {"steps": steps, **members})
    sources = [entry.source or {} for step in read for entry in step.entries]
    assert [source.get("copied") for source in sources] == [True, None]
    assert reading.notes == ["it continues in part-2"]
