"""What an agent asks the user, and what it is allowed: in the log, in views, after a resume."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from harken import AgentRuntime, LocalWorld, Rewrite, SessionViewer, Tool
from harken.session.repair import repair
from harken.world.ask_user import ask_user
from harken.world.permissions.permissions import Permissions
from harken.world.shell.shell import Shell
from harken.world.user import ApprovalDecision, UserUnavailable
from tests.agent_kit import (
    LogLine,
    ScriptModel,
    Stage,
    call,
    call_message,
    check_log,
    fast_options,
    open_stage,
    run,
    script_model,
)
from tests.unit.agents.hook_kit import SENT, send, watch
from tests.unit.world.permissions.user_kit import YES, ScriptedUser, SilentUser

SEND = send.with_subject(by="text")
TEA = call_message(call("ask_user", question="Tea?", options=["green", "black"]))


def with_user(
    folder: Path,
    model: ScriptModel,
    person: ScriptedUser,
    *tools: Tool,
    permissions: Permissions | None = None,
) -> Stage:
    world = LocalWorld([ask_user, *tools], folder=folder, user=person, permissions=permissions)
    return open_stage(folder, model, runtime=AgentRuntime(model=model, world=world))


def of_user(one: Stage) -> list[LogLine]:
    """Return what the user heard and said."""
    return one.select_lines(agent_id="user")


def said(row: LogLine) -> tuple[str, str, Any]:
    return row["role"], row["content"], row.get("cause")


def test_question_and_answer_stand_in_the_log_and_the_result_is_the_answer(tmp_path: Path) -> None:
    person = ScriptedUser(["Green."])
    one = with_user(tmp_path, script_model(main=[TEA, "Coming."]), person)
    assert one.ask("Hi.") == "Coming."
    [acted] = [row for row in one.select_lines(role="assistant") if "tool_calls" in row]
    question, answer = of_user(one)
    assert said(question) == ("user", "[main] asks: Tea?\n- green\n- black", acted["message_id"])
    assert said(answer) == ("assistant", "Green.", question["message_id"])
    result = one.result()
    assert (result["content"], result["substance"]) == ("Green.", answer["message_id"])
    assert "cause" not in result
    check_log(one.log)


def test_views_show_whose_question_it_was_and_who_answered(tmp_path: Path) -> None:
    one = with_user(tmp_path, script_model(main=[TEA, "Coming."]), ScriptedUser(["Green."]))
    one.ask("Hi.")
    viewer = SessionViewer(one.log)
    asked = "[main] asks: Tea?\n- green\n- black"
    dialog = viewer.extract_dialog(["main", "user"])
    assert [(item["name"], item["content"]) for item in dialog] == [
        ("user", "Hi."),
        ("main", asked),
        ("user", "Green."),
        ("main", "Coming."),
    ]
    assert not any(item.get("differs") for item in dialog)
    assert viewer.extract_agent_perspective("user") == f"[Heard]: {asked}\n[Said]: Green."
    assert "[Received]: Green." in viewer.extract_agent_perspective("main")
    assert viewer.interventions() == []
    assert viewer.verdicts() == []
    assert [lane.name for lane in viewer.timeline().lanes] == ["main", "user"]
    assert {mark.turn for mark in viewer.timeline().marks} == {0, 1}
    assert [row.name for row in viewer.tree()] == ["main"]


def test_views_follow_an_answer_from_the_question_to_the_result(tmp_path: Path) -> None:
    one = with_user(tmp_path, script_model(main=[TEA, "Coming."]), ScriptedUser(["Green."]))
    one.ask("Hi.")
    viewer = SessionViewer(one.log)
    question, answer = of_user(one)
    result = one.result()["message_id"]
    flow = [event["message_id"] for event in viewer.trace_message_flow(result)]
    assert flow[-3:] == [question["message_id"], answer["message_id"], result]
    heard = viewer.trace_content_references(answer["message_id"])
    assert [event["message_id"] for event in heard] == [result]
    assert viewer.build_causality_index()[result] == answer["message_id"]


def test_where_nobody_answers_that_is_said_to_both(tmp_path: Path) -> None:
    person = ScriptedUser([UserUnavailable("the door is locked")])
    one = with_user(tmp_path, script_model(main=[TEA, "Coming."]), person)
    assert one.ask("Hi.") == "Coming."
    question, note = of_user(one)
    assert said(note) == ("system", "the door is locked", question["message_id"])
    assert one.result()["is_error"]
    assert "the door is locked" in one.result()["content"]
    check_log(one.log)


def test_without_a_user_nothing_is_logged_of_one(tmp_path: Path) -> None:
    one = open_stage(tmp_path, script_model(main=[TEA, "Coming."]), tools=[ask_user])
    assert one.ask("Hi.") == "Coming."
    assert of_user(one) == []
    assert "no user is available to answer" in one.result()["content"]


@pytest.mark.parametrize(
    ("leave", "words", "sent"),
    [
        (YES, "ALLOW", ["hello"]),
        (
            ApprovalDecision(allowed=True, rule="send(hello)"),
            "ALLOW from now on: send(hello)",
            ["hello"],
        ),
        (ApprovalDecision(allowed=False, reason="not on Fridays"), "DENY: not on Fridays", []),
    ],
)
def test_what_is_wanted_and_allowed_stands_in_the_log(
    tmp_path: Path, leave: ApprovalDecision, words: str, sent: list[str]
) -> None:
    model = script_model(main=[call_message(call("send", text="hello")), "Done."])
    one = with_user(tmp_path, model, ScriptedUser([leave]), SEND, permissions=Permissions())
    assert one.ask("Send.") == "Done."
    question, answer = of_user(one)
    assert question["content"] == '[main] wants send: {\n  "text": "hello"\n}'
    assert said(answer) == ("assistant", words, question["message_id"])
    assert sent == SENT
    assert one.result().get("cause") == (None if sent else answer["message_id"])
    assert SessionViewer(one.log).verdicts() == []
    check_log(one.log)


@pytest.mark.req("S4-03")
def test_a_refusal_is_a_result_that_names_the_refusal(tmp_path: Path) -> None:
    model = script_model(main=[call_message(call("send", text="hello")), "Done."])
    person = ScriptedUser([ApprovalDecision(allowed=False, reason="not on Fridays")])
    one = with_user(tmp_path, model, person, SEND, permissions=Permissions())
    one.ask("Send.")
    assert one.result()["content"] == (
        "Error: send was not run: the user denied it: not on Fridays"
    )


def test_hooks_judge_first_and_the_user_sees_what_they_made_of_it(tmp_path: Path) -> None:
    model = script_model(main=[call_message(call("send", text="hello")), "Done."])
    person = ScriptedUser([YES])
    one = with_user(tmp_path, model, person, SEND, permissions=Permissions())
    watch(one, action=lambda question: Rewrite('{"text": "goodbye"}'))
    one.ask("Send.")
    assert [wanted.subject for wanted in person.approvals] == ["goodbye"]
    assert SENT == ["goodbye"]
    check_log(one.log)


def test_subagents_may_ask_at_once_and_each_gets_its_own_answer(tmp_path: Path) -> None:
    people = ("Ann", "Bob")
    tasks = [call("task", f"c{n}", name=n, instructions="", prompt="Go.") for n in people]
    model = script_model(
        main=[call_message(*tasks), "Done."],
        Ann=[
            call_message(call("ask_user", question="Ann?")),
            lambda request: request.messages[-1].content,
        ],
        Bob=[
            call_message(call("ask_user", question="Bob?")),
            lambda request: request.messages[-1].content,
        ],
    )
    person = ScriptedUser(["one", "two"])
    one = with_user(tmp_path, model, person)
    assert one.ask("Go.") == "Done."
    assert person.most_at_once == 2
    assert [one.result(f"c{n}")["content"] for n in people] == ["one", "two"]
    answers = [row for row in of_user(one) if row["role"] == "assistant"]
    questions = {row["message_id"]: row["content"] for row in of_user(one)}
    assert [questions[row["cause"]] for row in answers] == ["[Ann] asks: Ann?", "[Bob] asks: Bob?"]
    check_log(one.log)


def cut_off(one: Stage) -> None:
    """Let the root answer until its question is put, and take that back."""

    async def begin() -> None:
        answering = asyncio.create_task(one.root.response("Hi."))
        while not of_user(one):
            await asyncio.sleep(0.01)
        answering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await answering

    run(begin())
    assert len(of_user(one)) == 1
    check_log(one.log, finished=False)


def test_a_question_that_was_cut_off_is_put_again_after_a_resume(tmp_path: Path) -> None:
    model = script_model(main=[TEA, "Coming."])
    one = with_user(tmp_path, model, SilentUser())
    cut_off(one)
    one.session.close()
    again = with_user(tmp_path, model, ScriptedUser(["Green."]))
    assert again.ask() == "Coming."
    assert [row["role"] for row in of_user(again)] == ["user", "user", "assistant"]
    assert again.result()["content"] == "Green."
    check_log(again.log)


def test_an_action_that_was_never_allowed_is_not_done_after_a_resume(tmp_path: Path) -> None:
    model = script_model(main=[call_message(call("send", text="hello")), "Done."])
    one = with_user(tmp_path, model, SilentUser(), SEND, permissions=Permissions())
    cut_off(one)
    one.session.close()
    again = with_user(tmp_path, model, ScriptedUser(), SEND, permissions=Permissions())
    assert again.ask() == "Done."
    assert SENT == []
    assert again.result()["is_error"]
    check_log(again.log)


def test_a_repaired_log_keeps_what_the_user_said(tmp_path: Path) -> None:
    one = with_user(tmp_path, script_model(main=[TEA, "Coming."]), ScriptedUser(["Green."]))
    one.ask("Hi.")
    one.session.close()
    repair(one.log, tmp_path / "new.jsonl", options=fast_options())
    before, after = (
        SessionViewer(path).extract_agent_perspective("user")
        for path in (one.log, tmp_path / "new.jsonl")
    )
    assert before == after


@pytest.mark.req("S4-40")
def test_an_agent_that_is_cancelled_ends_its_command(tmp_path: Path) -> None:
    shell = Shell(tmp_path, tmp_path / "outputs").tool
    command = "echo $$ > pid; mv pid begun; sleep 30; echo late > late"
    model = script_model(main=[call_message(call("bash", command=command)), "Done."])
    one = open_stage(tmp_path, model, tools=[shell])

    async def begin() -> None:
        answering = asyncio.create_task(one.root.response("Hi."))
        while not (tmp_path / "begun").exists():
            await asyncio.sleep(0.01)
        answering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await answering

    run(begin())
    pid = int((tmp_path / "begun").read_text())
    assert not Path(f"/proc/{pid}").exists()
    assert one.ask() == "Done."
    assert "interrupted" in one.result()["content"] or one.result()["is_error"]
    check_log(one.log)
