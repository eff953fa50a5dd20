from __future__ import annotations

import pytest

from harken.core import events as ev
from harken.core.ids import AgentId
from harken.core.messages import ImagePart, TextPart
from harken.views.conversation.differences import Work, compare_intervention
from harken.views.interventions import interventions
from harken.views.viewer import SessionViewer
from tests.unit.views.log_builder import LogBuilder

SECRET, REDACTED = "the password is 1234", "the password is [REDACTED]"


@pytest.fixture
def jack(play: LogBuilder) -> AgentId:
    return play.create_agent("Jack", by=play.root)


@pytest.fixture
def jill(play: LogBuilder, jack: AgentId) -> AgentId:
    return play.create_agent("Jill", by=play.root)


@pytest.mark.req("S0-50")
def test_rewritten_utterance_is_listed_with_both_texts(
    play: LogBuilder, jack: AgentId, jill: AgentId
) -> None:
    utterance = play.says(jack, SECRET)
    input_id = play.hears(jill, f"[Jack]: {REDACTED}", utterance)
    (row,) = interventions(play.viewer().events)
    assert row.as_json() == {
        "kind": "message",
        "message_id": utterance,
        "agent_id": jack,
        "name": "Jack",
        "proposed": SECRET,
        "became": f"[Jack]: {REDACTED}",
        "became_id": input_id,
        "heard_by": jill,
        "heard_by_name": "Jill",
        "time": "2026-01-31T12:00:09.000000Z",
    }


def test_the_changes_of_a_rewritten_utterance_are_without_its_label(
    play: LogBuilder, jack: AgentId, jill: AgentId
) -> None:
    play.hears(jill, f"[Jack]: {REDACTED}", play.says(jack, SECRET))
    (row,) = interventions(play.viewer().events)
    compared = compare_intervention(row, Work(), 1000)
    assert [(span.kind, span.text) for span in compared.spans] == [
        ("same", "the password is "),
        ("dropped", "1234"),
        ("added", "[REDACTED]"),
    ]


@pytest.mark.req("S0-50")
def test_labelled_form_of_an_utterance_is_no_intervention(
    play: LogBuilder, cafe: SessionViewer, jack: AgentId, jill: AgentId
) -> None:
    utterance = play.says(jack, SECRET)
    for form in (SECRET, f"[Jack]: {SECRET}", f"[Jack whispers]: {SECRET}", f"[{jack}]: {SECRET}"):
        play.hears(jill, form, utterance)
    assert interventions(play.viewer().events) == []
    assert interventions(cafe.events) == []


@pytest.mark.req("S0-50")
@pytest.mark.parametrize(
    "heard_text",
    [f"[Jill]: {SECRET}", f"[Jackson]: {SECRET}", f"[Jack]: {SECRET} ", "[Jack]: ", ""],
)
def test_different_text_or_author_is_an_intervention(
    play: LogBuilder, jack: AgentId, jill: AgentId, heard_text: str
) -> None:
    play.hears(jill, heard_text, play.says(jack, SECRET))
    assert len(interventions(play.viewer().events)) == 1


def test_any_label_is_accepted_for_an_unnamed_author(play: LogBuilder, jack: AgentId) -> None:
    nameless = play.create_agent(None, by=play.root)
    utterance = play.says(nameless, "Hi")
    play.hears(jack, "[the third]: Hi", utterance)
    play.hears(jack, "[the third]: Ho", utterance)
    assert [row.became for row in interventions(play.viewer().events)] == ["[the third]: Ho"]


def test_rewritten_piece_result_and_user_answer_are_listed(play: LogBuilder, jack: AgentId) -> None:
    call = play.calls(play.root, ("discuss", "{}"))
    play.hears(jack, REDACTED, play.piece(play.root, SECRET, call))
    play.result(play.root, call, REDACTED, substance=play.says(jack, SECRET))
    play.hears("user", REDACTED, play.says(play.root, SECRET))
    rows_found = interventions(play.viewer().events)
    assert [(row.name, row.heard_by_name) for row in rows_found] == [
        ("Root", "Jack"),
        ("Jack", "Root"),
        ("Root", "user"),
    ]


def test_different_image_is_listed_and_other_metadata_is_not(
    play: LogBuilder, jack: AgentId
) -> None:
    picture = ImagePart(media_type="image/png", data="eA==")
    utterance = play.says(play.root, [TextPart("Look"), picture])
    play.hears(jack, [TextPart("Look"), ImagePart("image/png", "eA==", meta={"id": 1})], utterance)
    assert interventions(play.viewer().events) == []
    play.hears(jack, [TextPart("Look"), ImagePart("image/png", "eQ==")], utterance)
    assert len(interventions(play.viewer().events)) == 1


def test_representation_of_a_missing_message_is_not_listed(inner: SessionViewer) -> None:
    assert interventions(inner.events) == []


def test_rewritten_action_is_listed_with_both_calls_verbatim(play: LogBuilder) -> None:
    guard = play.create_agent("Guard", by=play.root, relation="hook")
    call = play.calls(play.root, ("look", "{}"), ("rm", "{not json"))
    verdict = play.says(guard, "REWRITE: {}")
    play.session.append(
        ev.ActionRewritten(
            agent_id=play.root,
            call=f"{call}.rm_{call}_1",
            tool="rm",
            arguments="{}",
            cause=verdict,
        )
    )
    (row,) = interventions(play.viewer().events)
    assert (row.kind, row.proposed, row.became) == ("action", "rm {not json", "rm {}")
    assert (row.message_id, row.name, row.heard_by) == (call, "Root", play.root)


def test_single_call_of_a_message_is_named_by_the_message(play: LogBuilder) -> None:
    call = play.calls(play.root, ("rm", "/"))
    play.session.append(
        ev.ActionRewritten(agent_id=play.root, call=call, tool="rm", arguments="/tmp/x")
    )
    (row,) = interventions(play.viewer().events)
    assert (row.proposed, row.became) == ("rm /", "rm /tmp/x")


def test_rewrite_of_a_missing_call_is_not_listed() -> None:
    rewrite = ev.ActionRewritten(call="msg_007.c", tool="rm", arguments="x")
    assert interventions([rewrite]) == []
