"""A session as nested spans: agents, model calls and tools, each once."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from harken.core import events as ev
from harken.core.ids import AgentId, MessageId
from harken.core.secrets.redaction import Credentials
from harken.interactions.otel.exporter import OtlpOptions, iter_spans
from harken.interactions.otel.span import Sender, Span
from harken.session.log.reader import iter_events
from harken.session.session import Session
from harken.views.context import context
from tests.session_kit import (
    create_agent,
    entry_segment,
    log_answer,
    log_edit,
    log_request,
    log_response,
    log_tool_calls,
    log_tool_result,
    log_turn,
    log_user_message,
    new_session,
)

DEMO = Path(__file__).parents[3] / "golden" / "demo.jsonl"
SENDER = Sender("1")


def export_spans(log: Path | Iterable[ev.Event], **how: Any) -> list[Span]:
    events = iter_events(log) if isinstance(log, Path) else log
    return list(iter_spans(events, "s", OtlpOptions(sender=SENDER, **how), Credentials()))


def tree(spans: list[Span]) -> list[str]:
    """Return the names, indented, in the order of their start times."""
    below: dict[bytes | None, list[Span]] = {}
    known_spans = {span.place.span for span in spans}
    for span in spans:
        below.setdefault(span.parent if span.parent in known_spans else None, []).append(span)
    rows: list[str] = []

    def walk(parent: bytes | None, depth: int) -> None:
        for span in sorted(below.get(parent, []), key=lambda child: child.start_ns):
            rows.append("  " * depth + span.name)
            walk(span.place.span, depth + 1)

    walk(None, 0)
    return rows


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return new_session(tmp_path)


@pytest.mark.req("S3-30")
def test_agents_are_children_of_the_tools_that_called_them() -> None:
    assert tree(export_spans(DEMO)) == [
        "invoke_agent main",
        "  chat scripted:demo",
        "  execute_tool task",
        "  chat scripted:demo",
        "  execute_tool task",
        "  chat scripted:demo",
        "  execute_tool discuss",
        "    invoke_agent Jack",
        "      chat scripted:demo",
        "    invoke_agent Jill",
        "      chat scripted:demo",
        "      execute_tool task",
        "      chat scripted:demo",
        "      execute_tool discuss",
        "        invoke_agent Inner",
        "          chat scripted:demo",
        "      chat scripted:demo",
        "  chat scripted:demo",
    ]


@pytest.mark.req("S3-30")
def test_span_ids_are_deterministic_per_session() -> None:
    first = export_spans(DEMO)
    assert export_spans(DEMO) == first
    assert len({span.place.span for span in first}) == len(first)
    assert {len(span.place.trace) for span in first} == {16}
    assert {len(span.place.span) for span in first} == {8}
    first_event, *others = iter_events(DEMO)
    assert isinstance(first_event, ev.SessionStarted)
    first_event.time = "2030-01-01T00:00:00.000000Z"
    later = [first_event, *others]
    assert not {s.place.span for s in export_spans(later)} & {s.place.span for s in first}


@pytest.mark.req("S3-30")
def test_every_model_call_has_its_context() -> None:
    requests = [event for event in iter_events(DEMO) if isinstance(event, ev.LlmRequest)]
    calls = [span for span in export_spans(DEMO) if span.is_client]
    assert len(calls) == len(requests)
    for call in calls:
        input_messages = json.loads(str(call.attributes["gen_ai.input.messages"]))
        system = json.loads(str(call.attributes["gen_ai.system_instructions"]))
        span_facts = [
            request
            for request in requests
            if request.count == len(input_messages) + len(system)
            and context(iter_events(DEMO), request.message_id).messages[-1].message.role
            == input_messages[-1]["role"]
        ]
        assert span_facts


def test_times_come_from_the_log(session: Session) -> None:
    agent = create_agent(session, name="main")
    log_turn(session, agent, 1)
    session.close()
    spans = export_spans(session.path)
    assert all(0 < span.start_ns <= span.end_ns for span in spans)
    main_span = next(span for span in spans if span.name == "invoke_agent main")
    assert all(main_span.start_ns <= span.start_ns for span in spans)
    assert all(span.end_ns <= main_span.end_ns for span in spans)


def test_span_starts_before_its_answer(session: Session) -> None:
    agent = create_agent(session)
    log_user_message(session, agent)
    request = log_request(session, agent)
    log_response(session, agent, request, entry=log_answer(session, agent), latency_s=2.5)
    session.close()
    [call] = [span for span in export_spans(session.path) if span.is_client]
    assert call.end_ns - call.start_ns == 2_500_000_000


def test_each_turn_of_a_root_agent_is_a_trace(session: Session) -> None:
    agent = create_agent(session, name="main")
    log_turn(session, agent, 1)
    before = export_spans(session.path)
    log_turn(session, agent, 2)
    session.close()
    after = export_spans(session.path)
    assert after[: len(before)] == before, "what was told stays as it was"
    assert len({span.place.trace for span in after}) == 2
    assert {span.attributes["gen_ai.conversation.id"] for span in after} == {"s"}


def test_model_call_has_model_parameters_usage_and_outcome(session: Session) -> None:
    agent = create_agent(session, name="main")
    log_user_message(session, agent)
    parameters = {"temperature": 0.5, "max_tokens": 9, "stop": ["x"], "thinking": {"a": 1}}
    request = log_request(session, agent, parameters=parameters)
    usage = ev.Usage(input_tokens=10, output_tokens=3, cache_read_tokens=4, cache_write_tokens=1)
    entry = log_answer(session, agent)
    log_response(
        session,
        agent,
        request,
        entry=entry,
        usage=usage,
        stop_reason="end_turn",
        model="x-2",
        cost_usd=0.25,
    )
    session.close()
    [call] = [span for span in export_spans(session.path) if span.is_client]
    expected = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "harken",
        "gen_ai.request.model": "scripted:x",
        "gen_ai.response.model": "x-2",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 9,
        "gen_ai.request.stop_sequences": ["x"],
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 3,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "gen_ai.usage.cache_creation.input_tokens": 1,
        "gen_ai.agent.name": "main",
        "llm.cost.total": 0.25,
    }
    assert {name: call.attributes.get(name) for name in expected} == expected
    assert json.loads(str(call.attributes["gen_ai.output.messages"])) == [
        {
            "role": "assistant",
            "parts": [{"type": "text", "content": "hi"}],
            "finish_reason": "stop",
        }
    ]


def test_tool_span_has_arguments_and_result(session: Session) -> None:
    agent = create_agent(session)
    log_user_message(session, agent)
    log_tool_calls(session, agent, "a", "b", tool="look", arguments='{"at":1}')
    log_tool_result(session, agent, "b", "seen")
    failure = {"role": "tool", "tool_call_id": "a", "name": "look", "content": "no"}
    session.log_transcript_entry(agent, {**failure, "is_error": True})
    log_answer(session, agent)
    session.close()
    b, a = (span for span in export_spans(session.path) if span.name == "execute_tool look")
    assert (a.failed, b.failed) == ("", None)
    assert b.attributes["gen_ai.tool.call.id"] == "b"
    assert b.attributes["gen_ai.tool.call.arguments"] == '{"at":1}'
    assert b.attributes["gen_ai.tool.call.result"] == "seen"
    assert a.attributes["error.type"] == "tool_error"


def test_failed_call_has_an_error_status_and_partial_answer(session: Session) -> None:
    agent = create_agent(session)
    log_user_message(session, agent)
    request = log_request(session, agent)
    log_response(session, agent, request, stop_reason="error", error="it\nbroke", partial="half")
    request = log_request(session, agent)
    log_response(session, agent, request, entry=log_answer(session, agent))
    session.close()
    failed, finished = (span for span in export_spans(session.path) if span.is_client)
    assert (failed.failed, finished.failed) == ("it broke", None)
    assert failed.parent == finished.parent
    assert "half" in str(failed.attributes["gen_ai.output.messages"])


def test_unfinished_spans_are_marked_or_deferred(session: Session) -> None:
    agent = create_agent(session, name="main")
    log_turn(session, agent, 1)
    log_user_message(session, agent)
    request = log_request(session, agent)
    log_response(session, agent, request, entry=log_tool_calls(session, agent, "c"))
    log_request(session, agent)
    open_ = [span for span in export_spans(session.path) if span.failed is not None]
    assert [span.name for span in open_] == [
        "chat scripted:x",
        "execute_tool look",
        "invoke_agent main",
    ]
    assert {span.attributes["error.type"] for span in open_} == {"unfinished"}
    live = export_spans(session.path, is_live=True)
    assert all(span.failed is None for span in live)
    log_tool_result(session, agent, "c")
    assert [span.name for span in export_spans(session.path, is_live=True)][-2:] == [
        "chat scripted:x",
        "execute_tool look",
    ]
    session.close()


def test_listening_agent_has_no_turn(session: Session) -> None:
    agent = create_agent(session, name="main")
    log_user_message(session, agent, "one")
    log_user_message(session, agent, "two")
    assert export_spans(session.path) == []
    log_answer(session, agent, "three")
    session.close()
    [main_span] = export_spans(session.path)
    input_messages = json.loads(str(main_span.attributes["gen_ai.input.messages"]))
    assert [message["parts"][0]["content"] for message in input_messages] == ["one", "two"]


def test_hook_is_in_the_turn_that_it_watches(session: Session) -> None:
    agent = create_agent(session, name="main")
    birth = session.agent(agent).birth
    hook = create_agent(session, name="guard", cause=birth, relation="hook")
    log_user_message(session, agent)
    input_id = log_answer(session, agent, "secret")
    log_user_message(session, hook, "judge", cause=input_id)
    verdict = log_answer(session, hook, "DENY: no")
    log_user_message(session, agent, "[guard]: no", cause=verdict)
    log_answer(session, agent, "public")
    log_user_message(session, agent, "more")
    log_answer(session, agent, "yes")
    session.close()
    spans = export_spans(session.path)
    assert tree(spans) == ["invoke_agent main", "  invoke_agent guard", "invoke_agent main"]


def test_model_call_with_delta_messages(session: Session) -> None:
    agent = create_agent(session)
    for number in (1, 2):
        log_turn(session, agent, number)
    session.close()
    calls = [span for span in export_spans(session.path, much="new") if span.is_client]
    sizes = [len(json.loads(str(call.attributes["gen_ai.input.messages"]))) for call in calls]
    assert sizes == [1, 2, 2, 2]


def test_content_is_omitted_if_capture_is_off(session: Session) -> None:
    session.append(ev.ToolsDefined(tools=[{"name": "hush"}], tools_hash="0" * 64))
    agent = create_agent(session, name="main")
    log_user_message(session, agent, "hush")
    request = log_request(session, agent, tools=MessageId("msg_001"))
    log_response(
        session, agent, request, entry=log_tool_calls(session, agent, "c", arguments='"hush"')
    )
    log_tool_result(session, agent, "c", "hush")
    log_answer(session, agent, "hush")
    session.close()
    spans = export_spans(session.path, much="none")
    assert "hush" not in str(spans)
    assert len(spans) == 3
    assert "hush" in str(export_spans(session.path))


@pytest.mark.req("D-06", "S3-30")
def test_credentials_are_not_exported(session: Session) -> None:
    key = "ghp_" + "a1B2" * 9
    agent = create_agent(session, name=f"main {key}")
    log_user_message(session, agent, f"my key is {key}")
    request = log_request(session, agent, parameters={"stop": key})
    entry = log_tool_calls(session, agent, "c", arguments=json.dumps({"key": key}))
    log_response(session, agent, request, entry=entry, error=f"no {key}")
    log_tool_result(session, agent, "c", f"got {key}")
    session.append(ev.ToolsDefined(tools=[{"name": key}], tools_hash="0" * 64))
    log_answer(session, agent, f"your key is {key}")
    session.close()
    credentials = Credentials()
    how = OtlpOptions(sender=SENDER)
    spans = list(iter_spans(iter_events(session.path), "s", how, credentials))
    assert key not in str(spans)
    assert "[redacted github-token]" in str(spans)
    assert credentials.kinds == {"github-token": 1}
    assert key in str(export_spans(session.path, as_is=True))


def test_compacted_context_is_exported_as_the_model_read_it(session: Session) -> None:
    agent = create_agent(session)
    log_turn(session, agent, 1)
    summary = log_user_message(session, agent, "all of it")
    log_edit(session, agent, entry_segment(summary), reason="compaction", summary=summary)
    request = log_request(session, agent)
    log_response(session, agent, request, entry=log_answer(session, agent))
    session.close()
    last = [span for span in export_spans(session.path) if span.is_client][-1]
    assert "all of it" in str(last.attributes["gen_ai.input.messages"])
    assert "turn 1" not in str(last.attributes["gen_ai.input.messages"])


def test_inconsistent_events_are_refused(session: Session) -> None:
    agent = create_agent(session)
    session.close()
    bad_edit = ev.TranscriptEdited(agent_id=agent, segments=[entry_segment(MessageId("msg_999"))])
    with pytest.raises(ValueError, match="msg_999"):
        export_spans([*iter_events(session.path), bad_edit])


def test_empty_session_and_unknown_events_are_accepted(session: Session) -> None:
    assert export_spans([]) == []
    nobody = ev.LlmResponse(agent_id=AgentId("agent_009"), request=MessageId("msg_1"), time="?")
    assert export_spans([*iter_events(session.path), nobody]) == []
    session.close()


def test_span_of_a_request_that_was_not_recorded_says_so(session: Session) -> None:
    agent = create_agent(session, name="main")
    log_user_message(session, agent)
    log_request(session, agent)
    session.close()
    events = [*iter_events(session.path)]
    for evidence in (None, "partial", "rebuilt"):
        for event in events:
            if isinstance(event, ev.LlmRequest):
                event.evidence = evidence
        [call] = [span for span in export_spans(events) if span.is_client]
        assert call.attributes.get("harken.request.evidence") == evidence
