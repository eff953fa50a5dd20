"""Verdicts, by reference, in handwritten logs and in logs of real hooks."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken import Comment, Deny, HookQuestion, Ok, Rewrite
from harken.core import events as ev
from harken.core.event_types.spec import HookPoint
from harken.core.ids import AgentId, MessageId
from harken.core.verdict import Verdict
from harken.views.verdicts import VerdictRow, verdicts
from harken.views.viewer import SessionViewer
from tests.agent_kit import call, call_message
from tests.unit.agents.command_hooks.command_kit import commanded, on
from tests.unit.agents.hook_kit import Judge, sending, watch
from tests.unit.views.log_builder import LogBuilder


def broken(question: HookQuestion) -> Verdict:
    raise OSError("full")


@pytest.fixture
def guard(play: LogBuilder) -> AgentId:
    return play.create_agent("Guard", by=play.root, relation="hook")


def find_verdicts(play: LogBuilder) -> list[VerdictRow]:
    return verdicts(play.viewer().events)


def kinds(rows: list[VerdictRow]) -> list[tuple[str, str, str]]:
    return [(row.kind, row.point, row.subject) for row in rows]


def outcomes(row: VerdictRow) -> list[tuple[str | None, str]]:
    return [(outcome.name, outcome.text) for outcome in row.outcomes]


def test_comment_has_subject_text_and_receivers(play: LogBuilder, guard: AgentId) -> None:
    input_id = play.hears(play.root, "Send it.")
    question = play.asks_hook(guard, "input", input_id)
    answer = play.says(guard, "COMMENT: It is Friday.")
    verdict = play.gives_verdict(guard, "input", input_id, "COMMENT: It is Friday.", answer)
    comment_id = play.receives(play.root, "[hook Guard]: It is Friday.", "comment", verdict)
    (row,) = find_verdicts(play)
    assert row.as_json() == {
        "kind": "comment",
        "point": "input",
        "message_id": answer,
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
        "time": "2026-01-31T12:00:08.000000Z",
    }


def test_subject_is_quoted_at_every_point(play: LogBuilder, guard: AgentId) -> None:
    input_id = play.hears(play.root, "Hi")
    call = play.calls(play.root, ("look", "{}"))
    result_id = play.result(play.root, call, "a cat")
    subjects: list[tuple[HookPoint, MessageId]] = [
        ("input", input_id),
        ("action", call),
        ("result", result_id),
        ("response", play.says(play.root, "Done")),
    ]
    for point, subject in subjects:
        play.judges(guard, point, subject, "OK")
    assert kinds(find_verdicts(play)) == [("ok", *pair) for pair in subjects]
    assert [row.proposed for row in find_verdicts(play)] == ["Hi", "look {}", "a cat", "Done"]


def test_denied_call_has_its_result_and_other_calls_are_unaffected(
    play: LogBuilder, guard: AgentId
) -> None:
    calls = play.calls(play.root, ("look", "1"), ("rm", "2"))
    first, second = f"{calls}.look_{calls}_0", f"{calls}.rm_{calls}_1"
    play.judges(guard, "action", first, "OK")
    play.judges(guard, "action", second, "DENY: no")
    play.result(play.root, calls, "seen", n=0)
    play.result(play.root, calls, "Error: blocked", n=0)
    fine, denied = find_verdicts(play)
    assert kinds([fine, denied]) == [("ok", "action", first), ("denial", "action", second)]
    assert (denied.proposed, outcomes(denied)) == ("rm 2", [("Root", "Error: blocked")])
    assert fine.outcomes == []


def test_denied_answer_has_the_message_that_replaced_it(play: LogBuilder, guard: AgentId) -> None:
    denial = play.judges(guard, "response", play.says(play.root, "1234"), "DENY: secret")
    play.receives(play.root, "Your response was blocked", "returned", denial)
    (row,) = find_verdicts(play)
    assert (row.kind, row.point, row.text) == ("denial", "response", "secret")
    assert outcomes(row) == [("Root", "Your response was blocked")]


def test_rewritten_answer_has_the_text_of_each_receiver(play: LogBuilder, guard: AgentId) -> None:
    jack = play.create_agent("Jack", by=play.root)
    utterance = play.says(play.root, "1234")
    play.judges(guard, "response", utterance, "REWRITE: ****")
    play.hears("user", "****", utterance)
    play.hears(jack, "[Root]: ****", utterance)
    (row,) = find_verdicts(play)
    assert outcomes(row) == [("user", "****"), ("Jack", "[Root]: ****")]


def test_rewritten_call_has_the_last_rewrite(play: LogBuilder, guard: AgentId) -> None:
    other_hook = play.create_agent("Other", by=play.root, relation="hook")
    call = play.calls(play.root, ("rm", "/"))
    play.judges(guard, "action", call, "REWRITE: /tmp")
    last = play.judges(other_hook, "action", call, "REWRITE: /tmp/x")
    play.session.append(
        ev.ActionRewritten(agent_id=play.root, call=call, tool="rm", arguments="/tmp/x", cause=last)
    )
    play.result(play.root, call, "gone")
    assert [outcomes(row) for row in find_verdicts(play)] == [[("Root", "rm /tmp/x")]] * 2


def test_failure_has_its_reason(play: LogBuilder, guard: AgentId) -> None:
    call = play.calls(play.root, ("rm", "/"))
    failure = "OSError: full"
    play.judges(guard, "action", call, "DENY: the hook failed (OSError: full)", failed=failure)
    play.result(play.root, call, "Error: blocked")
    input_id = play.hears(play.root, "Hi")
    play.judges(guard, "input", input_id, "OK", failed=failure)
    at_action, at_input = find_verdicts(play)
    assert (at_action.kind, at_action.text) == ("failure", failure)
    assert (at_input.kind, at_input.text) == ("failure", failure)
    assert outcomes(at_action) == [("Root", "Error: blocked")]
    assert outcomes(at_input) == []


def test_stop_is_a_denial_and_its_outcome_is_the_removal(play: LogBuilder, guard: AgentId) -> None:
    input_id = play.hears(play.root, "My password is 1234.")
    stop = play.gives_verdict(guard, "input", input_id, "STOP: a secret")
    play.session.append(
        ev.TranscriptEdited(agent_id=play.root, segments=[], reason="blocked", cause=stop)
    )
    (row,) = find_verdicts(play)
    assert (row.kind, row.point, row.text) == ("denial", "input", "a secret")
    assert outcomes(row) == [("Root", "nothing of it (blocked)")]


def test_verdict_belongs_to_the_question_about_its_subject(
    play: LogBuilder, guard: AgentId
) -> None:
    """A crash left the first question open; the hook was asked again after the resume."""
    utterance = play.says(play.root, "Done")
    play.asks_hook(guard, "response", utterance)
    repeated = play.asks_hook(guard, "response", utterance)
    play.asks_hook(guard, "input", play.hears(play.root, "Go on"))
    play.gives_verdict(guard, "response", utterance, "OK", play.says(guard, "OK"))
    (row,) = find_verdicts(play)
    assert (row.subject, row.question) == (utterance, repeated)


def test_code_hook_without_entries_has_its_verdict_as_message(
    play: LogBuilder, guard: AgentId
) -> None:
    input_id = play.hears(play.root, "Send it.")
    verdict = play.gives_verdict(guard, "input", input_id, "COMMENT: no")
    (row,) = find_verdicts(play)
    assert (row.message_id, row.question) == (verdict, verdict)


def test_texts_of_hooks_are_no_verdicts(play: LogBuilder, guard: AgentId) -> None:
    """Only the event counts: a hook may state a verdict that its own hooks reject."""
    play.asks_hook(guard, "input", play.hears(play.root, "Send it."))
    play.says(guard, "DENY: no")
    play.says(play.root, "DENY: I am no hook")
    assert find_verdicts(play) == []


def test_count_of_denials_is_the_number_of_events(play: LogBuilder, guard: AgentId) -> None:
    other_hook = play.create_agent("Other", by=play.root, relation="hook")
    for words in ("DENY: first", "OK", "DENY: second"):
        utterance = play.says(play.root, "OK\nDENY: a quotation")
        play.judges(guard, "response", utterance, words)
    play.judges(other_hook, "response", utterance, "DENY: third")
    events = [event for event in play.viewer().events if isinstance(event, ev.HookVerdict)]
    denials = [event.text for event in events if (event.agent_id, event.verdict) == (guard, "deny")]
    assert denials == ["first", "second"]
    rows = [row for row in find_verdicts(play) if (row.hook, row.kind) == (guard, "denial")]
    assert [row.text for row in rows] == denials


def test_incomplete_log_of_another_program_is_read() -> None:
    hook, verdict = AgentId("g"), MessageId("msg_7")
    log: list[ev.Event] = [
        ev.AgentCreated(message_id=MessageId("msg_5"), agent_id=hook, relation="hook"),
        ev.TranscriptEntry(
            message_id=MessageId("msg_6"),
            agent_id=hook,
            role="user",
            content="?",
            cause=["msg_1", "msg_2"],
            purpose="question",
        ),
        ev.HookVerdict(
            message_id=verdict,
            agent_id=hook,
            watched=AgentId("a"),
            subject="msg_2",
            point="input",
            verdict="ok",
            said=MessageId("msg_99"),
        ),
    ]
    (row,) = verdicts(log)
    assert (row.message_id, row.question, row.subject) == (verdict, "msg_6", "msg_2")


def test_missing_subject_leaves_only_the_text() -> None:
    hook, watched = AgentId("g"), AgentId("a")
    log: list[ev.Event] = [
        ev.AgentCreated(message_id=MessageId("msg_5"), agent_id=hook, relation="hook"),
        ev.HookVerdict(
            message_id=MessageId("msg_6"),
            agent_id=hook,
            watched=watched,
            subject="msg_1",
            point="response",
            verdict="deny",
            text="no",
        ),
    ]
    (row,) = verdicts(log)
    assert kinds([row]) == [("denial", "response", "msg_1")]
    assert (row.agent_id, row.name, row.text) == (watched, watched, "no")
    assert (row.proposed, row.outcomes) == ("", [])


def test_last_answer_of_a_hook_with_own_hooks_counts(play: LogBuilder, guard: AgentId) -> None:
    """The outcome is what the watched agent received, and not the review of the hook's own
    hooks.
    """
    censor = play.create_agent("Censor", by=guard, relation="hook")
    answer = play.says(play.root, "Done.")
    play.asks_hook(guard, "response", answer)
    first = play.says(guard, "DENY: very rude")
    denial = play.judges(censor, "response", first, "DENY: be silent")
    play.receives(guard, "[hook Censor]: Your response was blocked", "returned", denial)
    second = play.says(guard, "DENY: rude")
    play.judges(censor, "response", second, "REWRITE: DENY: kind")
    verdict = play.gives_verdict(guard, "response", answer, "DENY: kind", second)
    play.receives(play.root, "[hook Guard]: blocked: kind", "returned", verdict)
    rows = find_verdicts(play)
    assert [(row.hook_name, row.kind, row.text) for row in rows] == [
        ("Censor", "denial", "be silent"),
        ("Censor", "rewrite", "DENY: kind"),
        ("Guard", "denial", "kind"),
    ]
    assert [outcomes(row) for row in rows] == [
        [("Guard", "[hook Censor]: Your response was blocked")],
        [("Root", "[hook Guard]: blocked: kind")],
        [("Root", "[hook Guard]: blocked: kind")],
    ]


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


def test_stop_of_a_command_hook_is_a_denial(tmp_path: Path) -> None:
    stage = commanded(tmp_path, on("UserPromptSubmit", "echo 'No secrets!' >&2; exit 2"), main=[])
    stage.ask("My password is 1234.")
    (row,) = SessionViewer(stage.log).verdicts()
    assert (row.kind, row.point, row.text) == ("denial", "input", "No secrets!")
    assert row.proposed == "My password is 1234."
    ((name, text),) = outcomes(row)
    assert name == "main"
    assert text.startswith("nothing of it")


def test_turn_end_of_a_command_hook_is_a_denial(tmp_path: Path) -> None:
    answer = """echo '{"continue": false, "stopReason": "enough for today"}'"""
    look = call_message(call("bash", command="echo hi"))
    stage = commanded(tmp_path, on("PostToolUse", answer), main=[look])
    stage.ask("Look.")
    row = next(row for row in SessionViewer(stage.log).verdicts() if row.kind != "ok")
    assert (row.kind, row.point, row.text) == ("denial", "result", "enough for today")
    assert row.outcomes == []
