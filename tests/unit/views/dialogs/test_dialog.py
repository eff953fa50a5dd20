from __future__ import annotations

from pathlib import Path

import pytest

from harken.core.events import AgentCreated, AgentMoved, PieceOfText, TranscriptEntry
from harken.core.ids import AgentId, MessageId
from harken.core.messages import ImagePart, TextPart, ThinkingPart
from harken.views.dialogs.dialog import dialog, find_primary_agents
from harken.views.viewer import SessionViewer
from tests.unit.views.examples import (
    ADVICE,
    ASIDE,
    CAFE,
    EXAMPLE_1,
    HELLO,
    HI,
    INNER,
    JACK,
    JILL,
    ROOT,
)
from tests.unit.views.log_builder import LogBuilder, write_log

SECRET = "the password is 1234"
REDACTED = "the password is [REDACTED]"


def texts(play: LogBuilder, *agents: str) -> list[str]:
    return [item["content"] for item in play.viewer().extract_dialog(agents)]


@pytest.fixture
def jack(play: LogBuilder) -> AgentId:
    return play.create_agent("Jack", by=play.root)


@pytest.fixture
def jill(play: LogBuilder, jack: AgentId) -> AgentId:
    return play.create_agent("Jill", by=play.root)


@pytest.mark.req("S0-43")
def test_dialog_of_example_1_has_three_messages_in_order(cafe: SessionViewer) -> None:
    items = cafe.extract_dialog([JACK, JILL])
    assert [(item["message_id"], item["content"]) for item in items] == [
        ("msg_012", CAFE),
        ("msg_015", HI),
        ("msg_018", HELLO),
    ]
    assert [item["name"] for item in items] == [ROOT, "Jack", "Jill"]
    assert not any("differs" in item for item in items)


def test_dialog_uses_the_authors_text_if_only_a_label_differs(cafe: SessionViewer) -> None:
    for agents_chosen in ([JILL, JACK], [JACK, JILL]):
        assert [item["content"] for item in cafe.extract_dialog(agents_chosen)] == [CAFE, HI, HELLO]


@pytest.mark.req("S0-43")
def test_dialog_of_example_2_shows_jills_messages(
    inner: SessionViewer,
) -> None:
    """The utterance that Jill received is not in this part of the log, so its author is unknown."""
    items = inner.extract_dialog([JILL, INNER])
    assert [(item["message_id"], item["agent_id"], item["content"]) for item in items] == [
        ("msg_015", None, f"[Jack]: {HI}"),
        ("msg_035", JILL, ASIDE),
        ("msg_037", INNER, ADVICE),
        ("msg_039", JILL, HELLO),
    ]


@pytest.mark.req("S0-43")
def test_equal_texts_of_different_substance_both_stay(
    play: LogBuilder, jack: AgentId, jill: AgentId
) -> None:
    for agent in (jack, jill, jack):
        play.says(agent, "Yes.")
    assert texts(play, "Jack", "Jill") == ["Yes.", "Yes.", "Yes."]


@pytest.mark.req("S0-43")
def test_substance_is_one_item_for_any_number_of_receivers(
    play: LogBuilder, jack: AgentId, jill: AgentId
) -> None:
    utterance = play.says(play.root, "Hello all")
    for agent in (jack, jill, jill):
        play.hears(agent, "[Root]: Hello all", utterance)
    assert texts(play, "Root", "Jack", "Jill") == ["Hello all"]
    assert texts(play, "Jack", "Jill") == ["[Root]: Hello all"]


@pytest.mark.req("S0-43")
def test_items_are_ordered_by_first_occurrence_in_a_chosen_agent(
    play: LogBuilder, jack: AgentId, jill: AgentId
) -> None:
    early = play.says(jack, "early")
    play.says(jill, "between")
    play.hears(jill, "[Jack]: early", early)
    assert texts(play, "Jill", "Jack") == ["early", "between"]
    assert texts(play, "Jill") == ["between", "[Jack]: early"]


def test_dialog_without_agents_is_empty(cafe: SessionViewer) -> None:
    assert cafe.extract_dialog([]) == []


@pytest.mark.req("S0-44")
def test_rewritten_text_is_shown_as_received_without_its_author(
    play: LogBuilder, jack: AgentId, jill: AgentId
) -> None:
    play.hears(jill, f"[Jack]: {REDACTED}", play.says(jack, SECRET))
    (item,) = play.viewer().extract_dialog(["Jill"])
    assert item["content"] == f"[Jack]: {REDACTED}"
    assert item["name"] == "Jack"
    assert "1234" not in str(item)


@pytest.mark.req("S0-44")
def test_first_chosen_agent_determines_the_text_and_flags_differences(
    play: LogBuilder, jack: AgentId, jill: AgentId
) -> None:
    play.hears(jill, f"[Jack]: {REDACTED}", play.says(jack, SECRET))
    viewer = play.viewer()
    (as_said,) = viewer.extract_dialog(["Jack", "Jill"])
    assert (as_said["content"], as_said["differs"]) == (SECRET, True)
    assert [v["content"] for v in as_said["versions"]] == [f"[Jack]: {REDACTED}"]
    (as_heard,) = viewer.extract_dialog(["Jill", "Jack"])
    assert (as_heard["content"], as_heard["differs"]) == (f"[Jack]: {REDACTED}", True)


@pytest.mark.req("S0-44")
def test_different_received_versions_are_flagged_without_the_original(
    play: LogBuilder, jack: AgentId, jill: AgentId
) -> None:
    utterance = play.says(play.root, SECRET)
    play.hears(jack, f"[Root]: {REDACTED}", utterance)
    play.hears(jill, "[Root]: ...", utterance)
    (item,) = play.viewer().extract_dialog(["Jack", "Jill"])
    assert item["content"] == f"[Root]: {REDACTED}"
    assert [v["content"] for v in item["versions"]] == ["[Root]: ..."]
    assert "1234" not in str(item)


def test_prompt_has_its_authors_text_if_the_author_is_first(
    play: LogBuilder, jack: AgentId
) -> None:
    prompt = play.piece(play.root, SECRET, play.calls(play.root, ("discuss", "{}")))
    play.hears(jack, REDACTED, prompt)
    (item,) = play.viewer().extract_dialog(["Root", "Jack"])
    assert (item["content"], item["differs"], item["name"]) == (SECRET, True, "Root")
    assert texts(play, "Jack") == [REDACTED]


def test_event_message_has_no_author(play: LogBuilder, jack: AgentId) -> None:
    birth = play.session.agents[jack].birth
    text = "[event stock] changed: stock.csv"
    piece = play.session.append(
        PieceOfText(agent_id=jack, content=text, cause=birth, trigger="stock")
    )
    play.hears(jack, text, substance=piece)
    [item] = play.viewer().extract_dialog(["Jack"])
    assert (item["content"], item["trigger"]) == (text, "stock")
    assert item["agent_id"] is None is item["name"]


def test_piece_received_by_no_chosen_agent_is_no_item(play: LogBuilder) -> None:
    play.piece(play.root, "said to others", play.calls(play.root, ("discuss", "{}")))
    assert texts(play, "Root") == []


def test_forwarded_answer_is_a_version_of_the_utterance(play: LogBuilder, jack: AgentId) -> None:
    call = play.calls(play.root, ("discuss", "{}"))
    utterance = play.says(jack, SECRET)
    play.result(play.root, call, REDACTED, substance=utterance)
    (item,) = play.viewer().extract_dialog(["Root", "Jack"])
    assert (item["content"], item["differs"]) == (REDACTED, True)
    assert texts(play, "Root") == []


def test_calls_results_thoughts_and_instructions_are_excluded(
    play: LogBuilder, jack: AgentId
) -> None:
    call = play.calls(jack, ("look", "{}"), text="Let me see.")
    play.result(jack, call, "a cat")
    play.session.log_transcript_entry(jack, {"role": "system", "content": "Be kind."})
    play.says(jack, [ThinkingPart("A cat!")])
    play.says(jack, [ThinkingPart("I say it."), TextPart("A cat.")])
    assert texts(play, "Jack") == ["A cat."]


def test_image_has_a_placeholder(play: LogBuilder) -> None:
    play.hears(
        play.root, [TextPart("What is this?"), ImagePart(media_type="image/png", data="eA==")]
    )
    assert texts(play, "Root") == ["What is this?\n\n[image image/png]"]


def test_unlinked_entry_is_from_the_user(play: LogBuilder) -> None:
    play.hears(play.root, "Hi")
    [item] = dialog(play.viewer().events, [play.root])
    assert (item.name, item.content) == ("user", "Hi")


def test_user_display_event_is_the_version_of_the_user(play: LogBuilder) -> None:
    play.hears("user", REDACTED, play.says(play.root, SECRET))
    assert texts(play, "user") == [REDACTED]
    assert texts(play, "Root", "user") == [SECRET]


def test_copies_of_copies_in_an_older_log_are_one_item(tmp_path: Path) -> None:
    changed_event = {**EXAMPLE_1[19], "content": "Hi?", "substance": "msg_017"}
    viewer = write_log(tmp_path, [*EXAMPLE_1[:19], changed_event])
    items = viewer.extract_dialog([JACK])
    assert [item["message_id"] for item in items] == ["msg_012", "msg_015"]
    assert items[1]["differs"]


def test_piece_without_agent_belongs_to_the_agent_of_its_cause(tmp_path: Path) -> None:
    entry_event = TranscriptEntry(
        message_id=MessageId("msg_2"),
        agent_id=AgentId("jack"),
        role="user",
        content="Hi",
        substance=MessageId("msg_1"),
    )

    def author(cause: str | None) -> AgentId | None:
        piece = PieceOfText(message_id=MessageId("msg_1"), content="Hi", cause=cause)
        agent_event = AgentCreated(message_id=MessageId("msg_0"), agent_id=AgentId("root"))
        return dialog([agent_event, piece, entry_event], ["jack"])[0].agent_id

    assert (author("msg_0"), author("msg_7"), author(None)) == ("root", None, None)


def test_user_talked_with_every_agent_that_was_primary(play: LogBuilder, jack: AgentId) -> None:
    assert find_primary_agents(play.viewer().events) == [play.root]
    play.session.append(
        AgentMoved(
            agent_id=jack, place="primary", replaces=AgentId(play.root), replaced_as="subagent"
        )
    )
    assert find_primary_agents(play.viewer().events) == [play.root, jack]


def test_first_agent_of_a_log_without_relations_is_primary() -> None:
    events = [AgentCreated(agent_id=AgentId(name)) for name in ("agent_001", "agent_002")]
    assert find_primary_agents(events) == ["agent_001"]
    assert find_primary_agents([]) == []
