from __future__ import annotations

from pathlib import Path

import pytest

from harken.core.messages import ImagePart, TextPart, ThinkingPart, ToolCallSlot
from harken.views.dialogs.perspective import Perspective, format_items, perspective
from harken.views.viewer import SessionViewer
from tests.unit.views.examples import ADVICE, HELLO, HI, INNER, JILL
from tests.unit.views.log_builder import LogBuilder, write_log


@pytest.mark.req("S0-45", "S1-11")
def test_perspective_of_jill_in_example_2_has_labels(inner: SessionViewer) -> None:
    assert inner.extract_agent_perspective(JILL) == (
        '[Action]: task {"name": "Inner"}\n'
        f"[Heard]: [Jack]: {HI}\n"
        '[Action]: discuss {"speakers": ["Inner"]}\n'
        f"[Received]: {ADVICE}\n"
        f"[Said]: {HELLO}"
    )


def test_instructions_are_labelled_system(inner: SessionViewer) -> None:
    transcript_lines = inner.extract_agent_perspective("Inner").splitlines()
    assert transcript_lines[0] == "[System]: You are Jill's inner voice..."
    assert inner.extract_agent_perspective(INNER).splitlines() == transcript_lines


@pytest.mark.req("S0-45")
def test_thoughts_stand_where_they_were_logged(play: LogBuilder) -> None:
    play.hears(play.root, "Is it raining?")
    event_id = play.session.next_id()
    message = {
        "role": "assistant",
        "content": [
            ThinkingPart("I must look."),
            TextPart("One moment."),
            ToolCallSlot(f"look_{event_id}"),
            ThinkingPart("And listen."),
            TextPart(""),
        ],
        "tool_calls": [{"id": f"look_{event_id}", "function": {"name": "look", "arguments": "{}"}}],
    }
    call = play.session.log_transcript_entry(play.root, message)
    play.result(play.root, call, "wet")
    play.says(play.root, [ThinkingPart("Wet means rain."), TextPart("Yes."), ImagePart(url="u")])
    assert play.viewer().extract_agent_perspective("Root").splitlines() == [
        "[Heard]: Is it raining?",
        "[Thought]: I must look.",
        "[Action]: One moment.",
        "[Action]: look {}",
        "[Thought]: And listen.",
        "[Received]: wet",
        "[Thought]: Wet means rain.",
        "[Said]: Yes.",
        "[Said]: [image u]",
    ]


@pytest.mark.req("S1-11")
def test_text_beside_a_call_and_each_call_are_actions(play: LogBuilder) -> None:
    play.calls(play.root, ("a", "1"), ("b", "2"), text="Both at once.")
    moments = perspective(play.viewer().events, play.root)
    assert [(m.label, m.text) for m in moments] == [
        ("Action", "Both at once."),
        ("Action", "a 1"),
        ("Action", "b 2"),
    ]


def test_reference_to_a_missing_call_is_skipped(tmp_path: Path) -> None:
    content = [{"type": "call", "id": "lost"}, {"type": "text", "text": "Yes."}]
    line = {"message_id": "1", "event_type": "transcript_entry", "agent_id": "a"}
    viewer = write_log(tmp_path, [{**line, "role": "assistant", "content": content}])
    assert viewer.extract_agent_perspective("a") == "[Said]: Yes."


def test_empty_answer_is_shown(play: LogBuilder) -> None:
    play.says(play.root, None)
    assert play.viewer().extract_agent_perspective("Root") == "[Said]: "


def test_user_display_event_is_what_the_user_received(play: LogBuilder) -> None:
    play.hears("user", "[REDACTED]", play.says(play.root, "1234"))
    assert play.viewer().extract_agent_perspective("user") == "[Heard]: [REDACTED]"


def test_copy_of_any_role_is_received(play: LogBuilder) -> None:
    jack = play.create_agent("Jack", by=play.root)
    utterance = play.says(play.root, "Hi")
    play.session.log_transcript_entry(jack, {"role": "assistant", "content": "Hi"}, utterance)
    assert play.viewer().extract_agent_perspective("Jack") == "[Heard]: Hi"


def test_rows_are_json(play: LogBuilder) -> None:
    play.hears(play.root, "Hi")
    (moment,) = perspective(play.viewer().events, play.root)
    assert moment.as_json() == {
        "label": "Heard",
        "text": "Hi",
        "message_id": "msg_002",
        "time": "2026-01-31T12:00:02.000000Z",
    }


@pytest.mark.req("S1-11", "S0-45")
def test_labels_tell_drafts_from_answers(play: LogBuilder) -> None:
    guard = play.create_agent("Guard", by=play.root, relation="hook")
    denial = play.judges(guard, "response", play.says(play.root, "rude"), "DENY: be kind")
    play.receives(play.root, "[hook Guard]: be kind", "returned", denial)
    second = play.says(play.root, "KIND")
    play.judges(guard, "response", second, "REWRITE: kind")
    play.gives_answer(play.root, second)
    play.hears(play.root, "More.")
    play.asks_hook(guard, "response", play.says(play.root, "third"))
    lines = play.viewer().extract_agent_perspective("Root").splitlines()
    assert lines[-6:] == [
        "[Draft, denied by Guard]: rude",
        "[Heard]: [hook Guard]: be kind",
        "[Draft, rewritten by Guard]: KIND",
        "[Said]: kind",
        "[Heard]: More.",
        "[Draft, pending]: third",
    ]
    guard_lines = play.viewer().extract_agent_perspective("Guard").splitlines()
    assert [line for line in guard_lines if line.startswith("[Verdict")] == [
        "[Verdict]: DENY: be kind",
        "[Verdict]: REWRITE: kind",
    ]


def test_verdict_without_a_message_is_an_item(play: LogBuilder) -> None:
    guard = play.create_agent("Guard", by=play.root, relation="hook")
    play.gives_verdict(guard, "action", play.calls(play.root, ("rm", "/")), "DENY: no")
    play.gives_verdict(guard, "input", play.hears(play.root, "Hi"), "OK", failed="OSError: full")
    assert play.viewer().extract_agent_perspective("Guard").splitlines() == [
        "[Heard]: [action] Agent Root is about to call rm with:",
        "~~~",
        "/",
        "~~~",
        "[Verdict, action of Root]: DENY: no",
        "[Heard]: [input] Agent Root has heard:",
        "~~~",
        "Hi",
        "~~~",
        "[Verdict, input of Root]: failed: OSError: full",
    ]


def test_calls_without_result_and_stopped_turns_are_marked(play: LogBuilder) -> None:
    play.stops_turn(play.root, "budget", "[stopped] out of tokens")
    play.calls(play.root, ("look", "{}"))
    assert play.viewer().extract_agent_perspective("Root").splitlines() == [
        "[Stopped, budget]: [stopped] out of tokens",
        "[Action, no result yet]: look {}",
    ]


def test_follower_gets_an_answer_when_hooks_have_decided(play: LogBuilder) -> None:
    guard = play.create_agent("Guard", by=play.root, relation="hook")
    links = play.viewer().events
    view = Perspective(links, play.root, holds_back=True)
    view.add(links.events)

    def add() -> list[str]:
        new = play.viewer().events.events[len(links) :]
        links.extend(new)
        return format_items(view.add(new)).splitlines()

    answer = play.says(play.root, "Tea.")
    play.asks_hook(guard, "response", answer)
    assert add() == []
    play.gives_verdict(guard, "response", answer, "OK")
    play.gives_answer(play.root, answer)
    assert add() == ["[Said]: Tea."]
