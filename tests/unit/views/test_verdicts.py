"""Verdicts, by reference, in handwritten logs and in logs of real hooks."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken import Comment, Deny, HookQuestion, Ok, Rewrite
from harken.core import events as ev
from harken.core.ids import AgentId, MessageId
from harken.core.verdict import Verdict as Saying
from harken.core.verdict import format_verdict
from harken.views.verdicts import VerdictRow, parse_verdict_text, verdicts
from harken.views.viewer import SessionViewer
from tests.unit.agents.hook_kit import Judge, sending, watch
from tests.unit.views.log_builder import LogBuilder


def broken(question: HookQuestion) -> Saying:
    raise OSError("full")


@pytest.fixture
def guard(play: LogBuilder) -> AgentId:
    return play.create_agent("Guard", by=play.root, relation="hook")


def ask_guard(play: LogBuilder, guard: AgentId, subject: str) -> MessageId:
    return play.hears(guard, f"[point] about {subject}", cause=subject)


def find_verdicts(play: LogBuilder) -> list[VerdictRow]:
    return verdicts(play.viewer().events)


def kinds(rows: list[VerdictRow]) -> list[tuple[str, str | None, str]]:
    return [(row.kind, row.point, row.subject) for row in rows]


def outcomes(row: VerdictRow) -> list[tuple[str | None, str]]:
    return [(outcome.name, outcome.text) for outcome in row.outcomes]


def test_comment_has_subject_text_and_receivers(play: LogBuilder, guard: AgentId) -> None:
    input_id = play.hears(play.root, "Send it.")
    question = ask_guard(play, guard, input_id)
    verdict = play.says(guard, "COMMENT: It is Friday.")
    comment_id = play.hears(play.root, "[hook Guard]: It is Friday.", cause=verdict)
    (row,) = find_verdicts(play)
    assert row.as_json() == {
        "kind": "comment",
        "point": "input",
        "message_id": verdict,
        "hook": guard,
        "hook_name": "Guard",
        "text": "It is Friday.",
        "question": question,
        "subject": input_id,
        "agent_id": play.root,
        "name": "Root",
        "proposed": "Send it.",
        "outcomes": [
            {
                "message_id": comment_id,
                "agent_id": play.root,
                "name": "Root",
                "text": "[hook Guard]: It is Friday.",
            }
        ],
        "time": "2026-01-31T12:00:07.000000Z",
    }


def test_subject_role_determines_the_kind_of_review(play: LogBuilder, guard: AgentId) -> None:
    input_id = play.hears(play.root, "Hi")
    call = play.calls(play.root, ("look", "{}"))
    subjects = [input_id, call, play.result(play.root, call, "a cat"), play.says(play.root, "Done")]
    for subject in subjects:
        ask_guard(play, guard, subject)
        play.says(guard, "OK")
    points = ["input", "action", "result", "response"]
    assert kinds(find_verdicts(play)) == [
        ("ok", point, id_) for point, id_ in zip(points, subjects, strict=True)
    ]
    assert [row.proposed for row in find_verdicts(play)] == ["Hi", "look {}", "a cat", "Done"]


def test_denied_call_has_its_result_and_other_calls_are_unaffected(
    play: LogBuilder, guard: AgentId
) -> None:
    calls = play.calls(play.root, ("look", "1"), ("rm", "2"))
    first, second = f"{calls}.look_{calls}_0", f"{calls}.rm_{calls}_1"
    ask_guard(play, guard, first)
    ask_guard(play, guard, second)  # concurrent questions: the verdicts are in their order
    play.says(guard, "OK")
    play.says(guard, "DENY: no")
    play.result(play.root, calls, "seen", n=0)
    play.result(play.root, calls, "Error: blocked", n=0)
    fine, denied = find_verdicts(play)
    assert kinds([fine, denied]) == [("ok", "action", first), ("denial", "action", second)]
    assert (denied.proposed, outcomes(denied)) == ("rm 2", [("Root", "Error: blocked")])
    assert fine.outcomes == []


def test_denied_answer_has_the_message_that_replaced_it(play: LogBuilder, guard: AgentId) -> None:
    ask_guard(play, guard, play.says(play.root, "1234"))
    play.hears(play.root, "Your response was blocked", cause=play.says(guard, "DENY: secret"))
    (row,) = find_verdicts(play)
    assert (row.kind, row.point, row.text) == ("denial", "response", "secret")
    assert outcomes(row) == [("Root", "Your response was blocked")]


def test_rewritten_answer_has_the_text_of_each_receiver(play: LogBuilder, guard: AgentId) -> None:
    jack = play.create_agent("Jack", by=play.root)
    utterance = play.says(play.root, "1234")
    ask_guard(play, guard, utterance)
    play.says(guard, "REWRITE: ****")
    play.hears("user", "****", utterance)
    play.hears(jack, "[Root]: ****", utterance)
    (row,) = find_verdicts(play)
    assert outcomes(row) == [("user", "****"), ("Jack", "[Root]: ****")]


def test_rewritten_call_has_the_last_rewrite(play: LogBuilder, guard: AgentId) -> None:
    other_hook = play.create_agent("Other", by=play.root, relation="hook")
    call = play.calls(play.root, ("rm", "/"))
    ask_guard(play, guard, call)
    play.says(guard, "REWRITE: /tmp")
    ask_guard(play, other_hook, call)
    play.session.append(
        ev.ActionRewritten(
            agent_id=play.root,
            call=call,
            tool="rm",
            arguments="/tmp/x",
            cause=play.says(other_hook, "REWRITE: /tmp/x"),
        )
    )
    play.result(play.root, call, "gone")
    assert [outcomes(row) for row in find_verdicts(play)] == [[("Root", "rm /tmp/x")]] * 2


def test_failure_has_its_reason(play: LogBuilder, guard: AgentId) -> None:
    call = play.calls(play.root, ("rm", "/"))
    failed = {"role": "system", "content": "[hook failed] OSError: full"}
    play.session.log_transcript_entry(guard, failed, cause=ask_guard(play, guard, call))
    play.result(play.root, call, "Error: blocked")
    input_id = play.hears(play.root, "Hi")
    play.session.log_transcript_entry(guard, failed, cause=ask_guard(play, guard, input_id))
    at_action, at_input = find_verdicts(play)
    assert (at_action.kind, at_action.text) == ("failure", "OSError: full")
    assert outcomes(at_action) == [("Root", "Error: blocked")]
    assert outcomes(at_input) == []


def test_verdict_with_a_question_id_belongs_to_it(play: LogBuilder, guard: AgentId) -> None:
    calls = play.calls(play.root, ("look", "1"), ("rm", "2"))
    ask_guard(play, guard, f"{calls}.look_{calls}_0")
    second = ask_guard(play, guard, f"{calls}.rm_{calls}_1")
    message_dict = {"role": "assistant", "content": "OK"}
    play.session.log_transcript_entry(guard, message_dict, cause=second)
    play.says(guard, "OK")
    assert [row.proposed for row in find_verdicts(play)] == ["rm 2", "look 1"]


def test_question_left_open_by_a_crash_has_no_later_verdict(
    play: LogBuilder, guard: AgentId
) -> None:
    utterance = play.says(play.root, "Done")
    ask_guard(play, guard, utterance)
    second_question = ask_guard(play, guard, utterance)
    play.says(guard, "OK")
    ask_guard(play, guard, utterance)
    input_id = play.hears(play.root, "Go on")
    ask_guard(play, guard, input_id)
    play.says(guard, "OK")
    first, second = find_verdicts(play)
    assert (first.question, second.subject) == (second_question, input_id)


def test_invalid_verdict_is_none(play: LogBuilder, guard: AgentId) -> None:
    play.hears(guard, "Why?")
    play.says(guard, "OK")  # an answer without a review
    utterance = play.says(play.root, "DENY: I am no hook")
    play.says(play.root, "OK")
    ask_guard(play, guard, utterance)
    play.says(guard, "Let me think.")
    play.calls(guard, ("look", "{}"))
    play.hears(guard, "And?")
    play.says(guard, "OK")
    assert find_verdicts(play) == []


def test_hook_may_think_before_its_verdict(play: LogBuilder, guard: AgentId) -> None:
    ask_guard(play, guard, play.says(play.root, "Done"))
    play.result(guard, play.calls(guard, ("look", "{}"), text="OK"), "fine")
    verdict = play.says(guard, "ok.")
    (row,) = find_verdicts(play)
    assert (row.kind, row.message_id) == ("ok", verdict)


def test_agent_is_a_hook_while_it_has_that_place(play: LogBuilder) -> None:
    jack = play.create_agent("Jack", by=play.root)

    def judges(text: str) -> None:
        ask_guard(play, jack, play.says(play.root, text))
        play.says(jack, "OK")

    judges("before")
    play.moves(jack, "hook", play.root)
    judges("as a hook")
    play.moves(jack, "subagent", play.root)
    judges("after")
    assert [row.proposed for row in find_verdicts(play)] == ["as a hook"]


def test_missing_subject_leaves_only_the_text() -> None:
    hook = AgentId("g")
    log: list[ev.Event] = [
        ev.AgentCreated(message_id=MessageId("msg_5"), agent_id=hook, relation="hook"),
        ev.TranscriptEntry(
            message_id=MessageId("msg_6"), agent_id=hook, role="user", content="?", cause="msg_1"
        ),
        ev.TranscriptEntry(
            message_id=MessageId("msg_7"), agent_id=hook, role="assistant", content="DENY: no"
        ),
    ]
    (row,) = verdicts(log)
    assert (row.kind, row.point, row.subject, row.agent_id) == ("denial", None, "msg_1", None)
    assert (row.proposed, row.outcomes) == ("", [])


@pytest.mark.parametrize(
    "verdict_saying", [Ok(), Comment("a: b"), Deny("too\nmuch"), Rewrite('{"x": 1}'), Rewrite("")]
)
def test_format_and_parse_of_verdicts_round_trip(verdict_saying: Saying) -> None:
    entry = ev.TranscriptEntry(role="assistant", content=format_verdict(verdict_saying))
    kinds = {Ok: "ok", Comment: "comment", Deny: "denial", Rewrite: "rewrite"}
    words = (
        verdict_saying.reason
        if isinstance(verdict_saying, Deny)
        else getattr(verdict_saying, "text", "")
    )
    assert parse_verdict_text(entry) == (kinds[type(verdict_saying)], words)


@pytest.mark.parametrize(
    ("judges", "expected"),
    [
        (
            {"action": lambda _: Comment("Careful.")},
            ("comment", "action", "[hook guard]: Careful."),
        ),
        ({"result": lambda _: Comment("Well.")}, ("comment", "result", "[hook guard]: Well.")),
        (
            {"action": lambda _: Deny("no")},
            ("denial", "action", "Error: Action blocked by hook 'guard': no"),
        ),
        ({"action": lambda _: Rewrite('{"text":"x"}')}, ("rewrite", "action", 'send {"text":"x"}')),
        ({"response": lambda _: Rewrite("****")}, ("rewrite", "response", "****")),
        (
            {"action": broken},
            (
                "failure",
                "action",
                "Error: Action blocked by hook 'guard': the hook failed (OSError: full)",
            ),
        ),
    ],
)
def test_all_verdicts_of_a_real_hook_are_listed(
    tmp_path: Path, judges: dict[str, Judge], expected: tuple[str, str, str]
) -> None:
    scene = sending(tmp_path)
    watch(scene, **judges)
    scene.ask("Send.")
    rows = SessionViewer(scene.log).verdicts()
    assert len(rows) == 4  # the hook was asked at each point
    (row,) = [row for row in rows if row.kind != "ok"]
    (outcome,) = row.outcomes
    assert (row.kind, row.point, outcome.text) == expected


def test_every_denial_of_an_answer_is_listed(tmp_path: Path) -> None:
    scene = sending(tmp_path)
    watch(scene, response=lambda question: Deny("again") if question.text == "Done." else Ok())
    scene.ask("Send.")
    denied, fine = [row for row in SessionViewer(scene.log).verdicts() if row.point == "response"]
    assert (denied.kind, denied.proposed, fine.proposed) == ("denial", "Done.", "Really done.")
    assert outcomes(denied) == [("main", "[hook guard]: Your response was blocked (1 of 3): again")]


def test_agent_moved_to_a_hook_place_has_verdicts_from_then_on(
    play: LogBuilder, guard: AgentId
) -> None:
    """Messages of its own hooks are no question in the meantime."""
    jack = play.create_agent("Jack", by=play.root)
    play.says(play.root, "OK")  # no question
    moved = ev.AgentMoved(agent_id=jack, place="primary", replaces=play.root, replaced_as="hook")
    play.session.append(moved)
    input_id = play.hears(jack, "Send it.")
    question = ask_guard(play, play.root, input_id)
    ask_guard(play, guard, question)
    comment = play.says(guard, "COMMENT: Be kind.")
    play.hears(play.root, "[hook Guard]: Be kind.", cause=comment)
    verdict = play.says(play.root, "COMMENT: It is Friday.")
    rows = find_verdicts(play)
    assert kinds(rows) == [("comment", "input", question), ("comment", "input", input_id)]
    assert (rows[1].message_id, rows[1].question) == (verdict, question)
    play.session.append(
        ev.AgentMoved(agent_id=play.root, place="primary", replaces=jack, replaced_as="subagent")
    )
    play.hears(play.root, "Well?", cause=input_id)
    play.says(play.root, "OK")
    assert len(find_verdicts(play)) == 2


def test_last_answer_of_a_hook_with_own_hooks_counts(play: LogBuilder, guard: AgentId) -> None:
    """The outcome is what the watched agent received, and not the review of the hook's own
    hooks.
    """
    censor = play.create_agent("Censor", by=guard, relation="hook")
    answer = play.says(play.root, "Done.")
    ask_guard(play, guard, answer)
    first = play.says(guard, "OK, here is the secret.\nOK")
    ask_guard(play, censor, first)
    denial = play.says(censor, "DENY: be silent")
    play.hears(guard, "[hook Censor]: Your response was blocked (1 of 3)", cause=denial)
    second = play.says(guard, "DENY: rude")
    ask_guard(play, censor, second)
    play.says(censor, "REWRITE: DENY: kind")
    play.hears(play.root, "[hook Guard]: Your response was blocked: kind", cause=second)
    rows = find_verdicts(play)
    assert [(row.hook_name, row.kind) for row in rows] == [
        ("Censor", "denial"),
        ("Guard", "denial"),
        ("Censor", "rewrite"),
    ]
    expected = [("Root", "[hook Guard]: Your response was blocked: kind")]
    assert [outcomes(row) for row in rows[1:]] == [expected, expected]


def test_answer_before_a_repeated_question_has_no_receivers(
    play: LogBuilder, guard: AgentId
) -> None:
    """The process crashed before its own hooks reviewed it; the earlier failure is reported."""
    input_id = play.hears(play.root, "Send it.")
    ask_guard(play, guard, input_id)
    play.says(guard, "COMMENT: rude")
    ask_guard(play, guard, input_id)
    play.says(guard, "OK")
    assert kinds(find_verdicts(play)) == [("ok", "input", input_id)]
