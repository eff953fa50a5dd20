from __future__ import annotations

from pathlib import Path

import pytest

from harken.core import events as ev
from harken.views.flow import hearers, references, spread
from harken.views.viewer import SessionViewer
from tests.unit.views.examples import EXAMPLE_1, JACK, JILL, ROOT
from tests.unit.views.log_builder import LogBuilder, write_log


def ids(rows_found: list[dict[str, object]]) -> list[object]:
    return [event["message_id"] for event in rows_found]


@pytest.mark.req("S0-46")
def test_causality_index_of_example_1(cafe: SessionViewer) -> None:
    assert cafe.build_causality_index() == {
        "msg_004": "msg_003",  # agent_created
        "msg_006": "msg_003",  # a result
        "msg_008": "msg_007",
        "msg_010": "msg_007",
        "msg_012": "msg_011",  # a piece
        "msg_013": "msg_012",  # substance
        "msg_014": "msg_012",
        "msg_016": "msg_011",
        "msg_017": "msg_015",
        "msg_019": "msg_011",  # this log has two results for one call
        "msg_020": "msg_018",
    }


@pytest.mark.req("S0-46")
def test_first_of_several_causes_is_the_parent(play: LogBuilder) -> None:
    jack, jill = play.create_agent("Jack", by=play.root), play.create_agent("Jill", by=play.root)
    call = play.calls(play.root, ("discuss", "{}"))
    first, two = play.says(jack, "A"), play.says(jill, "B")
    compiled = play.result(play.root, call, "[Jack]: A\n\n[Jill]: B", cause=[two, first])
    assert play.viewer().build_causality_index()[compiled] == two


@pytest.mark.req("S0-46")
def test_substance_precedes_the_call_and_call_maps_to_its_message(play: LogBuilder) -> None:
    jack = play.create_agent("Jack", by=play.root)
    call = play.calls(play.root, ("discuss", "{}"), ("look", "{}"))
    piece = play.piece(play.root, "Hi?", f"{call}.discuss_{call}_0")
    utterance = play.says(jack, "Hi")
    passed = play.result(play.root, call, "Hi", substance=utterance)
    result_id = play.result(play.root, call, "a cat")
    index = play.viewer().build_causality_index()
    assert (index[piece], index[passed], index[result_id]) == (call, utterance, call)


def test_reused_call_id_means_the_last_call(play: LogBuilder) -> None:
    results = []
    for _ in range(2):
        call = {"id": "same", "function": {"name": "look", "arguments": "{}"}}
        message = {"role": "assistant", "tool_calls": [call]}
        entry_id = play.session.log_transcript_entry(play.root, message)
        results.append((play.result(play.root, entry_id, "seen"), entry_id))
    index = play.viewer().build_causality_index()
    assert [(result, index[result]) for result, _ in results] == results


@pytest.mark.req("S0-47", "S1-15")
def test_flow_of_a_received_utterance_ends_at_it(cafe: SessionViewer) -> None:
    flow = cafe.trace_message_flow("msg_017")
    assert flow == [EXAMPLE_1[14], EXAMPLE_1[16]]


@pytest.mark.req("S0-47", "S1-15")
def test_flow_follows_substance_every_cause_and_the_call(play: LogBuilder) -> None:
    """A compiled result references the call and both utterances, one of them through a copy."""
    jack, jill = play.create_agent("Jack", by=play.root), play.create_agent("Jill", by=play.root)
    play.hears(play.root, "not a link: only an earlier entry")
    call = play.calls(play.root, ("discuss", "{}"))
    first, two = play.says(jack, "A"), play.says(jill, "B")
    input_id = play.hears(jill, "[Jack]: A", first)
    compiled = play.result(play.root, call, "both", cause=[input_id, two])
    piece = play.piece(play.root, "news", compiled)
    last = play.hears(jack, "news", piece)
    assert ids(play.viewer().trace_message_flow(last)) == [
        call, first, two, input_id, compiled, piece, last,
    ]  # fmt: skip


@pytest.mark.req("S0-47")
def test_flow_of_an_unknown_message_is_empty(cafe: SessionViewer) -> None:
    assert cafe.trace_message_flow("msg_999") == []


@pytest.mark.req("S0-47")
def test_reference_to_a_missing_message_ends_the_flow(inner: SessionViewer) -> None:
    assert ids(inner.trace_message_flow("msg_033")) == ["msg_033"]


def test_result_without_its_call_has_no_parent(tmp_path: Path) -> None:
    assert write_log(tmp_path, [EXAMPLE_1[15]]).build_causality_index() == {}


def test_cyclic_references_terminate(tmp_path: Path) -> None:
    cafe = write_log(tmp_path, [{**EXAMPLE_1[14], "substance": "msg_017"}, EXAMPLE_1[16]])
    assert ids(cafe.trace_message_flow("msg_017")) == ["msg_015", "msg_017"]
    assert cafe.events.original(cafe.events.events[0]) == "msg_017"
    assert [hop.message_id for hop in spread(cafe.events, "msg_017")] == ["msg_015"]


@pytest.mark.req("S0-48")
def test_references_of_a_content_are_its_representing_entries(
    cafe: SessionViewer,
) -> None:
    assert cafe.trace_content_references("msg_012") == [EXAMPLE_1[12], EXAMPLE_1[13]]
    assert ids(cafe.trace_content_references("msg_015")) == ["msg_017"]
    assert cafe.trace_content_references("msg_002") == []
    assert cafe.trace_content_references("msg_999") == []


@pytest.mark.req("S1-14")
def test_spread_reaches_all_receivers_over_several_hops(play: LogBuilder) -> None:
    """Jill receives Jack's text, it is compiled for Root, and a tool forwards it to Ann and Ben."""
    jack, jill = play.create_agent("Jack", by=play.root), play.create_agent("Jill", by=play.root)
    ann, ben = play.create_agent("Ann", by=jill), play.create_agent("Ben", by=jill)
    call = play.calls(play.root, ("discuss", "{}"))
    utterance = play.says(jack, "Fire!")
    input_id = play.hears(jill, "[Jack]: Fire!", utterance)
    play.says(jill, "What?")
    compiled = play.result(play.root, call, "[Jack]: Fire!", cause=[utterance])
    piece = play.piece(play.root, "Feu !", compiled)
    to_ann = play.hears(ann, "Feu !", piece)
    to_ben = play.hears(ben, "Fleurs !", piece)
    events = play.viewer().events
    assert [
        (h.message_id, h.hops, h.via, h.source, h.differs) for h in spread(events, utterance)
    ] == [
        (input_id, 1, "substance", utterance, False),
        (compiled, 1, "cause", utterance, False),
        (piece, 2, "cause", compiled, False),
        (to_ann, 3, "substance", piece, False),
        (to_ben, 3, "substance", piece, True),
    ]
    assert [(h.name, h.hops) for h in hearers(events, utterance)] == [
        ("Jill", 1),
        ("Root", 1),
        ("Ann", 3),
        ("Ben", 3),
    ]
    assert [entry.message_id for entry in references(events, utterance)] == [input_id]


@pytest.mark.req("S1-14")
def test_receivers_are_unique_and_exclude_pure_speakers(cafe: SessionViewer) -> None:
    assert [(h.agent_id, h.message_id) for h in hearers(cafe.events, "msg_012")] == [
        (JACK, "msg_013"),
        (JILL, "msg_014"),
    ]
    assert [h.agent_id for h in hearers(cafe.events, "msg_011")] == [ROOT, JACK, JILL]
    assert hearers(cafe.events, "msg_020") == []


def test_spread_uses_the_shortest_path_and_each_event_once(play: LogBuilder) -> None:
    jack = play.create_agent("Jack", by=play.root)
    utterance = play.says(jack, "A")
    piece = play.piece(jack, "B", utterance)
    both = play.hears(play.root, "A and B", cause=[piece, utterance])
    hops = {hop.message_id: hop for hop in spread(play.viewer().events, utterance)}
    assert (hops[both].hops, hops[both].via, hops[both].source) == (1, "cause", utterance)


def test_own_message_with_a_cause_is_not_received(play: LogBuilder) -> None:
    """A custom agent may log any cause: its own messages are sent, only its inputs are received."""
    first = play.hears(play.root, "Hi")
    play.session.append(
        ev.TranscriptEntry(agent_id=play.root, role="assistant", content="Ho", cause=first)
    )
    events = play.viewer().events
    assert [hop.role for hop in spread(events, first)] == ["assistant"]
    assert hearers(events, first) == []


def test_an_agent_that_reads_a_verdict_did_not_hear_its_own_answer(play: LogBuilder) -> None:
    draft = play.says(play.root, "The code is 1234.")
    for purpose in ("comment", "returned"):
        play.session.append(
            ev.TranscriptEntry(
                agent_id=play.root, role="user", content="no codes", cause=draft, purpose=purpose
            )
        )
    events = play.viewer().events
    assert len(spread(events, draft)) == 2
    assert hearers(events, draft) == []


def test_rewritten_call_references_its_call_and_first_its_hook(play: LogBuilder) -> None:
    guard = play.create_agent("Guard", by=play.root, relation="hook")
    call = play.calls(play.root, ("rm", "/"))
    verdict = play.says(guard, "REWRITE: /tmp/x")
    rewrite = play.session.append(
        ev.ActionRewritten(
            agent_id=play.root, call=call, tool="rm", arguments="/tmp/x", cause=verdict
        )
    )
    viewer = play.viewer()
    assert viewer.build_causality_index()[rewrite] == verdict
    assert ids(viewer.trace_message_flow(rewrite)) == [call, verdict, rewrite]


def test_flow_of_a_comment_passes_the_verdict(play: LogBuilder) -> None:
    """The verdict links the comment to the message that was judged and to the hook's answer."""
    guard = play.create_agent("Guard", by=play.root, relation="hook")
    input_id = play.hears(play.root, "Send it.")
    verdict = play.judges(guard, "input", input_id, "COMMENT: It is Friday.")
    comment_id = play.receives(play.root, "[hook Guard]: It is Friday.", "comment", verdict)
    viewer = play.viewer()
    flow = viewer.trace_message_flow(comment_id)
    assert [event.get("content", event["event_type"]) for event in flow] == [
        "Send it.",
        "COMMENT: It is Friday.",
        "hook_verdict",
        "[hook Guard]: It is Friday.",
    ]
    assert viewer.build_causality_index()[verdict] == input_id
    assert comment_id in [hop.message_id for hop in spread(viewer.events, input_id)]
