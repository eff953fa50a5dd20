"""A session as spans: agents, model calls and tools, one below the other, each once."""

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


def told(log: Path | Iterable[ev.Event], **how: Any) -> list[Span]:
    read = iter_events(log) if isinstance(log, Path) else log
    return list(iter_spans(read, "s", OtlpOptions(sender=SENDER, **how), Credentials()))


def tree(spans: list[Span]) -> list[str]:
    """Return the names, indented, in the order of their beginnings."""
    below: dict[bytes | None, list[Span]] = {}
    known = {span.place.span for span in spans}
    for span in spans:
        below.setdefault(span.parent if span.parent in known else None, []).append(span)
    rows: list[str] = []

    def walk(parent: bytes | None, depth: int) -> None:
        for span in sorted(below.get(parent, []), key=lambda one: one.start_ns):
            rows.append("  " * depth + span.name)
            walk(span.place.span, depth + 1)

    walk(None, 0)
    return rows


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return new_session(tmp_path)


@pytest.mark.req("S3-30")
def test_agents_stand_below_the_tools_that_asked_them() -> None:
    assert tree(told(DEMO)) == [
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
def test_the_same_session_has_the_same_spans_and_another_one_others() -> None:
    first = told(DEMO)
    assert told(DEMO) == first
    assert len({span.place.span for span in first}) == len(first)
    assert {len(span.place.trace) for span in first} == {16}
    assert {len(span.place.span) for span in first} == {8}
    first_event, *others = iter_events(DEMO)
    assert isinstance(first_event, ev.SessionStarted)
    first_event.time = "2030-01-01T00:00:00.000000Z"
    later = [first_event, *others]
    assert not {s.place.span for s in told(later)} & {s.place.span for s in first}


@pytest.mark.req("S3-30")
def test_every_call_says_the_context_that_it_saw() -> None:
    requests = [event for event in iter_events(DEMO) if isinstance(event, ev.LlmRequest)]
    calls = [span for span in told(DEMO) if span.is_client]
    assert len(calls) == len(requests)
    for call in calls:
        said = json.loads(str(call.attributes["gen_ai.input.messages"]))
        system = json.loads(str(call.attributes["gen_ai.system_instructions"]))
        seen = [
            request
            for request in requests
            if request.count == len(said) + len(system)
            and context(iter_events(DEMO), request.message_id).messages[-1].message.role
            == said[-1]["role"]
        ]
        assert seen


def test_times_are_those_of_the_log(session: Session) -> None:
    agent = create_agent(session, name="main")
    log_turn(session, agent, 1)
    session.close()
    spans = told(session.path)
    assert all(0 < span.start_ns <= span.end_ns for span in spans)
    whole = next(span for span in spans if span.name == "invoke_agent main")
    assert all(whole.start_ns <= span.start_ns for span in spans)
    assert all(span.end_ns <= whole.end_ns for span in spans)


def test_what_took_long_began_before_its_answer(session: Session) -> None:
    agent = create_agent(session)
    log_user_message(session, agent)
    request = log_request(session, agent)
    log_response(session, agent, request, entry=log_answer(session, agent), latency_s=2.5)
    session.close()
    [call] = [span for span in told(session.path) if span.is_client]
    assert call.end_ns - call.start_ns == 2_500_000_000


def test_each_turn_of_who_nobody_asked_is_a_trace(session: Session) -> None:
    agent = create_agent(session, name="main")
    log_turn(session, agent, 1)
    before = told(session.path)
    log_turn(session, agent, 2)
    session.close()
    after = told(session.path)
    assert after[: len(before)] == before, "what was told stays as it was"
    assert len({span.place.trace for span in after}) == 2
    assert {span.attributes["gen_ai.conversation.id"] for span in after} == {"s"}


def test_a_call_says_model_parameters_usage_and_how_it_ended(session: Session) -> None:
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
    [call] = [span for span in told(session.path) if span.is_client]
    wanted = {
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
    assert {name: call.attributes.get(name) for name in wanted} == wanted
    assert json.loads(str(call.attributes["gen_ai.output.messages"])) == [
        {
            "role": "assistant",
            "parts": [{"type": "text", "content": "hi"}],
            "finish_reason": "stop",
        }
    ]


def test_a_tool_says_what_it_was_given_and_gave(session: Session) -> None:
    agent = create_agent(session)
    log_user_message(session, agent)
    log_tool_calls(session, agent, "a", "b", tool="look", arguments='{"at":1}')
    log_tool_result(session, agent, "b", "seen")
    failure = {"role": "tool", "tool_call_id": "a", "name": "look", "content": "no"}
    session.log_transcript_entry(agent, {**failure, "is_error": True})
    log_answer(session, agent)
    session.close()
    b, a = (span for span in told(session.path) if span.name == "execute_tool look")
    assert (a.failed, b.failed) == ("", None)
    assert b.attributes["gen_ai.tool.call.id"] == "b"
    assert b.attributes["gen_ai.tool.call.arguments"] == '{"at":1}'
    assert b.attributes["gen_ai.tool.call.result"] == "seen"
    assert a.attributes["error.type"] == "tool_error"


def test_a_failed_call_is_one_and_its_partial_answer_is_told(session: Session) -> None:
    agent = create_agent(session)
    log_user_message(session, agent)
    request = log_request(session, agent)
    log_response(session, agent, request, stop_reason="error", error="it\nbroke", partial="half")
    request = log_request(session, agent)
    log_response(session, agent, request, entry=log_answer(session, agent))
    session.close()
    failed, whole = (span for span in told(session.path) if span.is_client)
    assert (failed.failed, whole.failed) == ("it broke", None)
    assert failed.parent == whole.parent
    assert "half" in str(failed.attributes["gen_ai.output.messages"])


def test_what_has_not_ended_says_so_or_waits_for_the_next_time(session: Session) -> None:
    agent = create_agent(session, name="main")
    log_turn(session, agent, 1)
    log_user_message(session, agent)
    request = log_request(session, agent)
    log_response(session, agent, request, entry=log_tool_calls(session, agent, "c"))
    log_request(session, agent)
    open_ = [span for span in told(session.path) if span.failed is not None]
    assert [span.name for span in open_] == [
        "chat scripted:x",
        "execute_tool look",
        "invoke_agent main",
    ]
    assert {span.attributes["error.type"] for span in open_} == {"unfinished"}
    live = told(session.path, is_live=True)
    assert all(span.failed is None for span in live)
    log_tool_result(session, agent, "c")
    assert [span.name for span in told(session.path, is_live=True)][-2:] == [
        "chat scripted:x",
        "execute_tool look",
    ]
    session.close()


def test_who_only_listens_has_no_turn(session: Session) -> None:
    agent = create_agent(session, name="main")
    log_user_message(session, agent, "one")
    log_user_message(session, agent, "two")
    assert told(session.path) == []
    log_answer(session, agent, "three")
    session.close()
    [whole] = told(session.path)
    heard = json.loads(str(whole.attributes["gen_ai.input.messages"]))
    assert [message["parts"][0]["content"] for message in heard] == ["one", "two"]


def test_a_hook_stands_in_the_turn_that_it_watches(session: Session) -> None:
    agent = create_agent(session, name="main")
    birth = session.agent(agent).birth
    hook = create_agent(session, name="guard", cause=birth, relation="hook")
    log_user_message(session, agent)
    said = log_answer(session, agent, "secret")
    log_user_message(session, hook, "judge", cause=said)
    verdict = log_answer(session, hook, "DENY: no")
    log_user_message(session, agent, "[guard]: no", cause=verdict)
    log_answer(session, agent, "public")
    log_user_message(session, agent, "more")
    log_answer(session, agent, "yes")
    session.close()
    spans = told(session.path)
    assert tree(spans) == ["invoke_agent main", "  invoke_agent guard", "invoke_agent main"]


def test_a_call_that_says_only_what_is_new(session: Session) -> None:
    agent = create_agent(session)
    for number in (1, 2):
        log_turn(session, agent, number)
    session.close()
    calls = [span for span in told(session.path, much="new") if span.is_client]
    sizes = [len(json.loads(str(call.attributes["gen_ai.input.messages"]))) for call in calls]
    assert sizes == [1, 2, 2, 2]


def test_nothing_of_what_was_said_is_told_where_nobody_shall_read_it(session: Session) -> None:
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
    spans = told(session.path, much="none")
    assert "hush" not in str(spans)
    assert len(spans) == 3
    assert "hush" in str(told(session.path))


@pytest.mark.req("D-06", "S3-30")
def test_credentials_do_not_go_out(session: Session) -> None:
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
    found = Credentials()
    how = OtlpOptions(sender=SENDER)
    spans = list(iter_spans(iter_events(session.path), "s", how, found))
    assert key not in str(spans)
    assert "[redacted github-token]" in str(spans)
    assert found.kinds == {"github-token": 1}
    assert key in str(told(session.path, as_is=True))


def test_what_was_compacted_is_told_as_it_was_seen(session: Session) -> None:
    agent = create_agent(session)
    log_turn(session, agent, 1)
    summary = log_user_message(session, agent, "all of it")
    log_edit(session, agent, entry_segment(summary), reason="compaction", summary=summary)
    request = log_request(session, agent)
    log_response(session, agent, request, entry=log_answer(session, agent))
    session.close()
    last = [span for span in told(session.path) if span.is_client][-1]
    assert "all of it" in str(last.attributes["gen_ai.input.messages"])
    assert "turn 1" not in str(last.attributes["gen_ai.input.messages"])


def test_events_that_do_not_fit_together_are_refused(session: Session) -> None:
    agent = create_agent(session)
    session.close()
    lost = ev.TranscriptEdited(agent_id=agent, segments=[entry_segment(MessageId("msg_999"))])
    with pytest.raises(ValueError, match="msg_999"):
        told([*iter_events(session.path), lost])


def test_an_empty_session_and_odd_events_are_borne(session: Session) -> None:
    assert told([]) == []
    nobody = ev.LlmResponse(agent_id=AgentId("agent_009"), request=MessageId("msg_1"), time="?")
    assert told([*iter_events(session.path), nobody]) == []
    session.close()
