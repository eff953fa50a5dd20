from __future__ import annotations

from typing import get_args

import pytest

from harken.core import events as ev
from harken.core.event_types.spec import Budget, Limits, SpecChange
from harken.core.ids import USER, AgentId, MessageId
from harken.core.messages import FunctionCall, ToolCall
from harken.views.agent_names import AgentNames
from harken.views.timeline import describe_event

JACK, MSG = AgentId("agent_002"), MessageId("msg_007")
NAMES = AgentNames([ev.AgentCreated(agent_id=JACK, name="Jack")])
CALL = ToolCall("c1", FunctionCall("look", "{}"))
SEGMENT = ev.Segment(start=0, stop=1)

EVENTS: list[tuple[ev.Event, str]] = [
    (ev.SessionStarted(session_id="s", schema_version=1), "s, schema version 1"),
    (ev.SessionEnded(), ""),
    (ev.SessionEnded(reason="chat"), "chat"),
    (ev.SessionRepaired(source="a.jsonl", lost=[{"line": 4}]), "from a.jsonl, 1 line lost"),
    (ev.ContentPurged(places=2, by="ann", why="it leaked"), "in 2 lines, ann, it leaked"),
    (ev.AgentCreated(name="Jack", relation="subagent"), "Jack, subagent"),
    (ev.AgentConfigured(name="John", language_model="m"), "John, m"),
    (ev.AgentConfigured(parameters={"top_p": 1}), "new parameters"),
    (
        ev.AgentConfigured(spec=SpecChange(limits=Limits(tools=[], budget=Budget()))),
        "new tools, budget",
    ),
    (ev.TriggerArmed(name="tea", trigger={"kind": "time"}, cause=MSG), "tea, time"),
    (ev.TriggerDisarmed(name="tea", cause=MSG), "tea"),
    (ev.AgentStateSaved(state={"n": 1}), "7 B of state"),
    (ev.AgentMoved(place="hook", parent=JACK), "hook of Jack"),
    (ev.AgentMoved(place="gone"), "gone"),
    (
        ev.AgentMoved(place="primary", replaces=JACK, replaced_as="hook"),
        "primary in place of Jack, now its hook",
    ),
    (ev.InterlocutorsSet(speakers=[JACK]), "speakers: Jack; listeners: none"),
    (ev.TranscriptEntry(role="assistant", content="Hm", tool_calls=[CALL]), "Hm\nlook {}"),
    (ev.PieceOfText(content="a piece"), "a piece"),
    (
        ev.HookVerdict(watched=JACK, subject=MSG, point="response", verdict="deny", text="rude"),
        "deny to Jack at response, rude",
    ),
    (ev.ActionRewritten(call="msg_007", tool="look", arguments="[]"), "msg_007: look []"),
    (ev.ActionStarted(call="msg_007.c1"), "msg_007.c1"),
    (ev.TranscriptEdited(segments=[SEGMENT]), "now reads 1 stretch"),
    (
        ev.TranscriptEdited(segments=[SEGMENT, SEGMENT], summary=MSG, reason="too long"),
        "now reads 2 stretches, summary msg_007, too long",
    ),
    (
        ev.ContextLoaded(ctx="ctx-1", count=3, context_hash="h"),
        "3 messages of ctx-1, back to the last compaction",
    ),
    (ev.ContextCommitted(ctx="ctx-1"), "ctx-1"),
    (
        ev.ContextCommitted(ctx="ctx-1", parent_ctx="ctx-0", upto=MSG, checkpoint="turn"),
        "ctx-1, up to msg_007, after ctx-0, turn",
    ),
    (
        ev.HookVerdict(watched=JACK, subject=MSG, point="response", verdict="deny", text="rude"),
        "deny to Jack at response, rude",
    ),
    (
        ev.HookVerdict(watched=JACK, subject=MSG, point="input", verdict="ok", failed="full"),
        "ok to Jack at input, the hook failed: full",
    ),
    (ev.ToolsDefined(tools=[{"name": "look"}, {"name": "task"}], tools_hash="h"), "look, task"),
    (
        ev.LlmRequest(context=[], count=2, context_hash="", model="m"),
        "m reads 2 messages",
    ),
    (ev.LlmResponse(request=MSG), ""),
    (ev.LlmResponse(request=MSG, latency_s=0.00012), "0.1 ms"),
    (
        ev.LlmResponse(
            request=MSG,
            stop_reason="end_turn",
            usage=ev.Usage(input_tokens=210, output_tokens=12),
            cost_usd=0.0008,
            latency_s=1.25,
        ),
        "end_turn, 210 tokens in, 12 tokens out, 0.0008 USD, 1.2 s",
    ),
    (
        ev.LlmResponse(request=MSG, cost_usd=0.0, error="overloaded", partial="Hel"),
        "0 USD, error: overloaded, partial: Hel",
    ),
    (
        ev.HookVerdict(
            watched=JACK,
            subject=MSG,
            point="response",
            verdict="deny",
            text="rude",
        ),
        "deny to Jack at response, rude",
    ),
    (ev.DiscussionOpened(speakers=[JACK]), "speakers: Jack; listeners: none"),
    (
        ev.DiscussionOpened(
            speakers=[JACK, USER], rounds=3, until="agreed", judge=JACK, moderator=JACK, seed=7
        ),
        (
            "speakers: Jack, user; listeners: none; rounds: 3; until: agreed; judge: Jack; "
            "moderator: Jack; seed: 7"
        ),
    ),
    (
        ev.DiscussionChosen(discussion=MSG, by=JACK, said=MSG, speaker=USER),
        "Jack, msg_007, user",
    ),
    (
        ev.DiscussionChosen(discussion=MSG, by=JACK, said=MSG, failed="no name"),
        "Jack, msg_007, no name",
    ),
    (
        ev.DiscussionJudged(discussion=MSG, by=JACK, said=MSG, verdict="done", text="Ada won."),
        "Jack, msg_007, done, Ada won.",
    ),
    (ev.DiscussionSpoken(discussion=MSG, speaker=JACK, by=JACK, said=MSG), "Jack, msg_007"),
    (ev.AnswerGiven(answer=MSG), MSG),
    (ev.NoteKept(text="second complaint", cause=MSG), "second complaint"),
    (ev.HookLeaving(cause=MSG), ""),
    (ev.TurnStop(reason="denials", piece=MSG), "denials, msg_007"),
    (
        ev.MemoryOperation(memory_type="LTM", operation="QUERY", query="tea?", result_count=1),
        "LTM QUERY, tea?, 1 result",
    ),
    (
        ev.MemoryOperation(memory_type="STM", operation="WRITE", file_path="a.md"),
        "STM WRITE, a.md",
    ),
    (
        ev.ThreadNoted(entry_type="CONTEXT_REPLAYED", position=3),
        "CONTEXT_REPLAYED, at position 3",
    ),
    (
        ev.ThreadNoted(entry_type="CONTEXT_REPLAYED", whole=True),
        "CONTEXT_REPLAYED, the whole context",
    ),
]


@pytest.mark.parametrize(("event", "text"), EVENTS)
def test_event_description(event: ev.Event, text: str) -> None:
    assert describe_event(event, NAMES) == text


def test_every_event_type_has_its_own_description() -> None:
    assert {type(event) for event, _ in EVENTS} == set(get_args(ev.KnownEvent))
