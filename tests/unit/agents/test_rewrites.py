"""Hooks that rewrite: the original stays in the log, others get what the hook made of it."""

import json
from pathlib import Path

import pytest

from harken import AgentRuntime, Deny, HookQuestion, Ok, Rewrite
from harken.agents.runtime import Observers
from harken.core.stream import TextDelta
from harken.core.verdict import Verdict
from tests.agent_kit import (
    call,
    call_message,
    check_log,
    open_stage,
    request_texts,
    run,
    script_model,
)
from tests.unit.agents.hook_kit import SENT, Judge, send, sending, watch


@pytest.mark.req("S4-21", "S4-23")
def test_a_rewritten_action_runs_as_rewritten_and_the_log_shows_both(tmp_path: Path) -> None:
    one = sending(tmp_path, "password 1234")
    hook = watch(one, action=lambda _: Rewrite('{"text": "password [REDACTED]"}'))
    one.ask("Send.")
    assert SENT == ["password [REDACTED]"]
    [made] = [row for row in one.select_lines(role="assistant") if "tool_calls" in row]
    assert made["tool_calls"][0]["function"]["arguments"] == '{"text":"password 1234"}'
    [event] = one.select_lines(event_type="action_rewritten")
    assert (event["call"], event["tool"]) == (made["message_id"], "send")
    assert event["arguments"] == '{"text": "password [REDACTED]"}'
    [verdict] = one.select_lines(verdict="rewrite", agent_id=hook.agent_id)
    assert verdict["text"] == event["arguments"]
    assert event["cause"] == verdict["message_id"]
    assert request_texts(one.runtime.model.requests[1])[-1] == "sent password [REDACTED]"  # type: ignore[union-attr]
    check_log(one.log)


def test_a_rewritten_call_among_several_is_named(tmp_path: Path) -> None:
    made = call_message(call("send", "c1", text="a"), call("send", "c2", text="b"))
    one = open_stage(tmp_path, script_model(main=[made, "Done."]), tools=[send])
    watch(one, action=lambda q: Rewrite('{"text": "B"}') if '"b"' in q.text else Ok())
    one.ask("Send.")
    assert SENT == ["a", "B"]
    [row] = [row for row in one.select_lines(role="assistant") if "tool_calls" in row]
    [event] = one.select_lines(event_type="action_rewritten")
    assert event["call"] == f"{row['message_id']}.c2"


def test_rewrites_chain_and_a_later_hook_judges_what_will_run(tmp_path: Path) -> None:
    def add(letter: str) -> Judge:
        def judge(question: HookQuestion) -> Verdict:
            assert question.call is not None
            assert question.call.function.arguments == question.text
            text = json.loads(question.text)["text"]
            return Rewrite(json.dumps({"text": text + letter}))

        return judge

    one = sending(tmp_path, "x")
    watch(one, "a", action=add("a"), response=lambda q: Rewrite(q.text + "a"))
    watch(one, "b", action=add("b"), response=lambda q: Rewrite(q.text + "b"))
    last = watch(one, "c")
    assert one.ask("Send.") == "Done.ab"
    assert SENT == ["xab"]
    assert last.points_asked()[1] == ("action", '{"text": "xab"}')
    assert last.points_asked()[3] == ("response", "Done.ab")


def test_a_guard_after_a_rewriter_cannot_be_deceived(tmp_path: Path) -> None:
    def strict(question: HookQuestion) -> Verdict:
        assert question.call is not None
        harmful = "rm -rf" in question.call.function.arguments
        return Deny("dangerous") if harmful else Ok()

    one = sending(tmp_path, "ls")
    watch(one, "rewriter", action=lambda _: Rewrite('{"text": "rm -rf /"}'))
    watch(one, "guard", action=strict)
    one.ask("List.")
    assert SENT == []
    assert one.result()["content"] == "Error: Action blocked by hook 'guard': dangerous"
    assert one.select_lines(event_type="action_rewritten") == []


def test_a_rewrite_that_the_tool_cannot_take_is_an_error_result(tmp_path: Path) -> None:
    one = sending(tmp_path)
    watch(one, action=lambda _: Rewrite('{"to": "x"}'))
    one.ask("Send.")
    assert SENT == []
    assert "send has no argument 'to'" in one.result()["content"]


def test_a_rewritten_task_is_what_is_created(tmp_path: Path) -> None:
    one = open_stage(tmp_path, script_model(main=[call_message(call("task", name="Ann")), "Done."]))
    watch(one, action=lambda _: Rewrite('{"name": "Bob", "instructions": "Be kind."}'))
    one.ask("Go.")
    assert list(one.root.subagents) == ["Bob"]
    [birth] = one.select_lines(event_type="agent_created", name="Bob")
    [made] = [row for row in one.select_lines(role="assistant") if "tool_calls" in row]
    assert birth["cause"] == made["message_id"]


@pytest.mark.req("S0-50", "S0-14", "S4-21", "S4-24")
def test_a_rewritten_response_is_what_others_hear_with_its_substance(tmp_path: Path) -> None:
    model = script_model(
        main=[
            call_message(call("task", "t1", name="Jack"), call("task", "t2", name="Jill")),
            call_message(call("discuss", prompt="Talk.", speakers=["Jack", "Jill"])),
            "Done.",
        ],
        Jack=["password: 1234"],
        Jill=["I see."],
    )
    one = open_stage(tmp_path, model)
    watch(
        one,
        response=lambda q: (
            Rewrite(q.text.replace("1234", "[REDACTED]")) if "1234" in q.text else Ok()
        ),
    )
    assert one.ask("Go.") == "Done."
    [said] = one.select_lines(content="password: 1234")
    assert (said["agent_id"], said["role"]) == (one.id_of("Jack"), "assistant")
    [heard] = one.select_lines(substance=said["message_id"])
    assert heard["agent_id"] == one.id_of("Jill")
    assert heard["content"] == "[Jack]: password: [REDACTED]"
    assert one.result()["content"] == "[Jack]: password: [REDACTED]\n\n[Jill]: I see."
    assert not one.select_lines(agent_id="user")


@pytest.mark.req("S0-50", "S4-24")
def test_a_rewritten_answer_handed_through_keeps_its_substance(tmp_path: Path) -> None:
    model = script_model(
        main=[call_message(call("task", name="Jack", prompt="?")), "Done."], Jack=["1234"]
    )
    one = open_stage(tmp_path, model)
    watch(one, response=lambda q: Rewrite("[REDACTED]") if q.text == "1234" else Ok())
    one.ask("Go.")
    [said] = one.select_lines(content="1234")
    assert one.result()["content"] == "[REDACTED]"
    assert one.result()["substance"] == said["message_id"]


@pytest.mark.req("S0-50", "S4-24")
def test_what_the_user_was_shown_instead_is_an_entry_of_the_user(tmp_path: Path) -> None:
    one = open_stage(tmp_path, script_model(main=["password: 1234"]))
    watch(one, response=lambda q: Rewrite(q.text.replace("1234", "[REDACTED]")))
    said = run(one.root.response("Tell me."))
    assert said == "password: [REDACTED]"
    [original] = one.select_lines(content="password: 1234", role="assistant")
    assert said.message_id == original["message_id"]
    [shown] = one.select_lines(agent_id="user")
    assert shown["role"] == "user"
    assert shown["content"] == "password: [REDACTED]"
    assert shown["substance"] == original["message_id"]
    check_log(one.log)


def test_a_response_that_stays_as_it_is_makes_no_entry_of_the_user(tmp_path: Path) -> None:
    one = open_stage(tmp_path, script_model(main=["Hi."]))
    watch(one)
    one.ask("hello")
    assert one.select_lines(agent_id="user") == []


def test_what_a_hook_may_still_change_is_not_streamed(tmp_path: Path) -> None:
    pieces: list[str] = []
    model = script_model(main=["1234"])
    runtime = AgentRuntime(
        model=model,
        observers=Observers(
            on_chunk=lambda _, chunk: (
                pieces.append(chunk.text) if isinstance(chunk, TextDelta) else None
            )
        ),
    )
    one = open_stage(tmp_path, model, runtime=runtime)
    watch(one, response=lambda _: Rewrite("[REDACTED]"))
    assert one.ask("Tell me.") == "[REDACTED]"
    assert pieces == []
