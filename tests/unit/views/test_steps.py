from __future__ import annotations

from pathlib import Path

import pytest

from harken import Rewrite
from harken.core import events as ev
from harken.core.ids import MessageId
from harken.core.messages import Message
from harken.errors import HarkenError, NameNotFound
from harken.views.steps import Changes, RequestSteps
from harken.views.viewer import SessionViewer
from tests.agent_kit import ScriptedAnswer, call, call_message, open_stage
from tests.agent_kit import script_model as playing
from tests.unit.agents.hook_kit import send, watch
from tests.unit.views.log_builder import LogBuilder, write_log


def stepping(play: LogBuilder) -> RequestSteps:
    return RequestSteps(play.viewer().events)


def change_texts(changes: Changes) -> list[tuple[str, str]]:
    return [(row.kind, row.text) for row in changes.messages]


def test_steps_are_numbered_per_session_and_per_agent(play: LogBuilder) -> None:
    jack = play.create_agent("Jack", by=play.root)
    for agent in (play.root, jack, play.root):
        play.hears(agent, "Hi")
        play.answers(agent, play.asks(agent), "Hello")
    steps = [stepping(play).step(n) for n in (1, 2, 3)]
    assert [(step.number, step.of_agent, step.name) for step in steps] == [
        (1, 1, "Root"),
        (2, 1, "Jack"),
        (3, 2, "Root"),
    ]
    assert (steps[2].messages, steps[2].cost_usd, steps[2].stop_reason) == (5, 0.5, "stop")
    assert [*stepping(play).numbers_for(play.root)] == [1, 3]
    assert [*stepping(play).numbers_for(None)] == [1, 2, 3]


def test_step_is_resolved_by_number_or_message_id(play: LogBuilder) -> None:
    play.hears(play.root, "Hi")
    request = play.asks(play.root)
    answer = play.answers(play.root, request, "Hello")
    response = play.session.state.last_id
    play.asks(play.root)
    steps = stepping(play)
    assert [steps.find(step_name) for step_name in ("1", "-2", request, answer, response)] == [
        1
    ] * 5
    assert steps.find("-1") == 2
    for bad_number in ("0", "3", "-3", "msg_999", "", "-", "²"):
        with pytest.raises(NameNotFound, match="1 to 2"):
            steps.find(bad_number)


def test_new_messages_are_listed_and_earlier_ones_counted(play: LogBuilder) -> None:
    play.hears(play.root, "Hi")
    play.answers(play.root, play.asks(play.root), "Hello")
    play.hears(play.root, "Go on")
    play.asks(play.root)
    steps = stepping(play)
    assert change_texts(steps.changes(1)) == [("added", "Hi")]
    changes = steps.changes(2)
    assert (changes.kept, change_texts(changes)) == (1, [("added", "Hello"), ("added", "Go on")])
    assert [row.message.content for row in steps.context(2)] == ["Hi", "Hello", "Go on"]
    assert [row.new for row in steps.context(2)] == [False, True, True]


def test_compaction_step_has_dropped_messages_and_summary(play: LogBuilder) -> None:
    for text in ("one is here", "two are there", "three"):
        play.hears(play.root, text)
    play.asks(play.root)
    summary = play.hears(play.root, "a summary of all", cause=play.session.state.last_id)
    segments = [ev.Segment(entries=[summary]), ev.Segment(start=2, stop=3)]
    play.session.append(ev.TranscriptEdited(agent_id=play.root, segments=segments, summary=summary))
    play.asks(play.root)
    changes = stepping(play).changes(2)
    assert [(edit.kind, edit.summary) for edit in changes.edits] == [("compacted", summary)]
    assert change_texts(changes) == [
        ("dropped", "one is here"),
        ("dropped", "two are there"),
        ("added", "a summary of all"),
        ("same", "three"),
    ]


def test_edit_has_its_reason(play: LogBuilder) -> None:
    play.hears(play.root, "one")
    play.asks(play.root)
    kept_segments = [ev.Segment(start=0, stop=0)]
    edit = ev.TranscriptEdited(agent_id=play.root, segments=kept_segments, reason="rewound")
    play.session.append(edit)
    play.hears(play.root, "two")
    play.asks(play.root)
    changes = stepping(play).changes(2)
    assert [edit.kind for edit in changes.edits] == ["rewound"]
    assert change_texts(changes) == [("changed", "two")]


def test_changed_system_prompt_is_a_text_diff(play: LogBuilder) -> None:
    play.session.log_transcript_entry(play.root, {"role": "system", "content": "Be kind."})
    play.hears(play.root, "Hi")
    play.asks(play.root)
    message = {"role": "system", "content": "Be very kind."}
    new = play.session.log_transcript_entry(play.root, message)
    segments = [ev.Segment(entries=[new]), ev.Segment(start=1, stop=2)]
    play.session.append(ev.TranscriptEdited(agent_id=play.root, segments=segments))
    play.asks(play.root)
    [row, _] = stepping(play).changes(2).messages
    assert (row.kind, row.heading) == ("changed", "system")
    assert [span.text for span in row.spans if span.kind == "added"] == ["very "]


def test_changed_model_tools_and_parameters_are_listed(play: LogBuilder) -> None:
    def defined(*tools: dict[str, object]) -> MessageId:
        tool_dicts = [dict(tool) for tool in tools]
        return play.session.append(
            ev.ToolsDefined(tools=tool_dicts, tools_hash=str(len(str(tools))))
        )

    play.hears(play.root, "Hi")
    look: dict[str, object] = {"name": "look", "description": "Look."}
    first = defined(look, {"name": "leap"})
    play.asks(play.root, tools=first, parameters={"temperature": 0, "top": 1})
    second = defined(
        {"type": "function", "function": {"name": "dig"}}, {**look, "description": "Look around."}
    )
    play.asks(play.root, tools=second, parameters={"temperature": 1, "max": 5})
    changes = stepping(play).changes(2)
    assert {(tool.name, tool.kind) for tool in changes.tools} == {
        ("look", "changed"),
        ("leap", "dropped"),
        ("dig", "added"),
    }
    assert {(parameter.name, parameter.kind) for parameter in changes.parameters} == {
        ("temperature", "changed"),
        ("top", "dropped"),
        ("max", "added"),
    }
    assert changes.model is None
    assert [tool["name"] for tool in stepping(play).tools(1)] == ["look", "leap"]


def test_outcome_has_the_answer_its_calls_and_verdicts(tmp_path: Path) -> None:
    lines: list[ScriptedAnswer] = [
        call_message(call("send", "c1", text="tea"), call("nope", "c2")),
        "Done.",
    ]
    scene = open_stage(tmp_path, playing(main=lines), tools=[send])
    watch(
        scene,
        action=lambda q: Rewrite('{"text": "coffee"}'),
        response=lambda q: Rewrite("Done, truly."),
    )
    scene.ask("Go")
    steps = RequestSteps(SessionViewer(scene.log).events)
    first, last = steps.outcome(1), steps.outcome(2)
    assert [(ran.tool, ran.became, ran.is_error) for ran in first.ran] == [
        ("send", 'send {"text": "coffee"}', False),
        ("nope", 'nope {"text": "coffee"}', True),
    ]
    assert first.ran[0].result == "sent coffee"
    assert last.answer == Message("assistant", "Done.")
    assert [row.became for row in last.rewritten] == ["Done, truly."]
    scene.session.close()


def test_failed_call_has_its_error_and_partial_answer(play: LogBuilder) -> None:
    play.hears(play.root, "Hi")
    request = play.asks(play.root)
    failed = ev.LlmResponse(
        agent_id=play.root, request=request, stop_reason="error", error="down", partial="I w"
    )
    play.session.append(failed)
    play.asks(play.root)
    outcome = stepping(play).outcome(1)
    assert (outcome.answer, outcome.error, outcome.partial) == (None, "down", "I w")
    assert [stepping(play).step(number).ended for number in (1, 2)] == [True, False]
    assert stepping(play).step(2).stop_reason is None


def test_memory_operations_belong_to_the_preceding_call(play: LogBuilder) -> None:
    play.hears(play.root, "Hi")
    play.answers(play.root, play.asks(play.root), "Hello")
    play.session.append(
        ev.MemoryOperation(agent_id=play.root, memory_type="LTM", operation="READ", file_path="a")
    )
    [operation] = stepping(play).outcome(1).memory
    assert (operation["operation"], operation["file_path"]) == ("READ", "a")


def test_all_steps_of_an_unchanged_log_are_verified(play: LogBuilder) -> None:
    for text in ("a", "b", "c"):
        play.hears(play.root, text)
        play.answers(play.root, play.asks(play.root), text * 2)
    steps = stepping(play)
    assert [steps.verified(n) for n in steps.numbers_for(None)] == [True, True, True]


def test_missing_reference_is_a_clear_error(tmp_path: Path) -> None:
    request = {"event_type": "llm_request", "agent_id": "agent_001", "time": "", "model": "m"}
    bad_request = {
        **request,
        "count": 1,
        "context_hash": "00",
        "context": [{"entries": ["msg_777"]}],
    }
    steps = RequestSteps(write_log(tmp_path, [{**bad_request, "message_id": "msg_002"}]).events)
    for compute in (steps.context, steps.changes, steps.verified):
        with pytest.raises(HarkenError, match="msg_777"):
            compute(1)
    assert steps.text(1) == ""


def test_next_step_costs_only_its_new_messages(play: LogBuilder) -> None:
    """The test counts lookups instead of time: a step looks up a constant number of messages."""
    for n in range(60):
        play.hears(play.root, str(n))
        play.answers(play.root, play.asks(play.root), "ok")
    steps = stepping(play)
    lookups: list[str] = []

    class Watched(dict[MessageId, object]):
        def __getitem__(self, key: MessageId) -> object:
            lookups.append(key)
            return super().__getitem__(key)

    steps.calls.entries = Watched(steps.calls.entries)  # type: ignore[assignment]
    for n in (2, 60):
        lookups.clear()
        steps.changes(n)
        assert steps.verified(n)
        assert len(lookups) == 4


def test_a_range_of_a_context_is_that_part_of_the_whole_one(play: LogBuilder) -> None:
    for number in range(4):
        play.hears(play.root, f"question {number}")
        play.answers(play.root, play.asks(play.root), f"answer {number}")
    steps = stepping(play)
    for number in range(1, 5):
        fresh = stepping(play)  # It knows no earlier call.
        whole = fresh.context(number)
        assert len(whole) == steps.step(number).messages == len(steps.keys(number))
        assert steps.context(number) == whole
        assert [row.position for row in whole] == [*range(len(whole))]
        assert steps.context(number, 1, 3) == whole[1:3]
        assert steps.find_new(number) == [row.position for row in whole if row.new]


def test_a_context_that_names_a_range_many_times_is_refused(play: LogBuilder) -> None:
    play.hears(play.root, "Hi")
    request = play.asks(play.root)
    play.answers(play.root, request, "Hello")
    steps = stepping(play)
    first = steps.requests[0]
    assert steps.keys(1)
    again = [ev.Segment(request=request, start=0, stop=first.count)] * 500
    second = ev.LlmRequest(
        message_id=MessageId("msg_099"),
        time=first.time,
        agent_id=first.agent_id,
        context=again,
        count=500 * first.count,
        context_hash="",
        model="x",
    )
    steps.links.extend([second])
    steps.add([second])
    with pytest.raises(HarkenError, match="more entries than came before it"):
        steps.keys(2)
