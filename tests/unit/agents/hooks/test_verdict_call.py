"""The tool `verdict`: a hook's model gives its verdict by a call, which ends its turn."""

from pathlib import Path
from typing import Any

import pytest

from harken.agents.smart_agent import SmartAgent
from harken.agents.tree.hook_action import new_hook
from harken.core.event_types.spec import AgentSpec
from harken.llm.base import ModelRequest
from tests.agent_kit import Stage, call, call_message, check_log, open_stage, run
from tests.unit.agents.hook_kit import SENT
from tests.unit.agents.smart_hooks import Cast, always, guard, guarded, is_question, sends, texts


def gives(verdict: str, text: str | None = None, **more: Any) -> Any:
    """Return a message with a call of `verdict`."""
    members = {"verdict": verdict, **({} if text is None else {"text": text}), **more}
    return call_message(call("verdict", "v1", **members))


def results(one: Stage, agent: Any, name: str = "verdict") -> list[dict[str, Any]]:
    rows = one.select_lines(agent_id=agent.agent_id, role="tool", name=name)
    return [{key: row.get(key) for key in ("content", "is_error", "closed")} for row in rows]


def schema(request: ModelRequest) -> Any:
    tools: dict[str, Any] = {tool["name"]: tool for tool in request.tools}
    return tools["verdict"]["parameters"]["properties"]["verdict"]["enum"]


@pytest.mark.req("S4-21", "S4-22")
def test_a_call_is_the_verdict_and_ends_the_turn_of_the_hook(tmp_path: Path) -> None:
    cast = Cast(main=sends, guard=always(gives("deny", "rude", note="A rude text.")))
    one = guarded(tmp_path, cast)
    hook = guard(one)
    one.ask("Send.")
    assert SENT == []
    denied = "Error: Action blocked by hook 'guard': rude"
    assert one.result("c2")["content"] == denied
    assert len(cast.read_by("guard")) == 1
    assert results(one, hook) == [{"content": "Noted.", "is_error": None, "closed": None}]
    [verdict] = one.select_lines(event_type="hook_verdict")
    [called] = one.select_lines(agent_id=hook.agent_id, role="assistant")
    assert (verdict["verdict"], verdict["text"]) == ("deny", "rude")
    assert verdict["said"] == called["message_id"]
    assert [message["content"] for message in hook.transcript][2:] == ["[note] A rude text."]
    check_log(one.log)


@pytest.mark.req("S4-21")
@pytest.mark.parametrize(
    ("call_", "logged"),
    [
        (gives("accept"), {"verdict": "ok"}),
        (gives("comment", "be quick"), {"verdict": "comment", "text": "be quick"}),
        (gives("deny", "no\nOK"), {"verdict": "deny", "text": "no\nOK"}),
        (
            gives("rewrite", '```json\n{"text": "bye"}\n```'),
            {"verdict": "rewrite", "text": '{"text": "bye"}'},
        ),
    ],
)
def test_each_verdict_can_be_called(tmp_path: Path, call_: Any, logged: dict[str, str]) -> None:
    one = guarded(tmp_path, Cast(main=sends, guard=always(call_)))
    guard(one)
    one.ask("Send.")
    [verdict] = one.select_lines(event_type="hook_verdict")
    assert {name: verdict.get(name) for name in logged} == logged
    assert {"ok": ["hello"], "comment": ["hello"], "deny": [], "rewrite": ["bye"]}[
        verdict["verdict"]
    ] == SENT
    check_log(one.log)


@pytest.mark.req("S4-21")
def test_the_tool_offers_the_verdicts_of_the_points(tmp_path: Path) -> None:
    cast = Cast(main=sends, guard=always("OK"), reader=always("OK"))
    one = guarded(tmp_path, cast)
    guard(one)
    guard(one, "reader", points=["input"])
    silent = guard(one, "silent", points=[])
    one.ask("Send.")
    schemas = {request.agent: schema(request) for request in cast.asked if request.agent != "main"}
    assert schemas == {
        "guard": ["accept", "comment", "deny", "rewrite"],
        "reader": ["accept", "comment"],
    }
    assert "verdict" not in silent.tools  # type: ignore[attr-defined]
    assert "verdict" not in one.root.tools  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (gives("deny"), "Error: deny needs a text"),
        (gives("comment", " "), "Error: comment needs a text"),
        (gives("accept", note=" "), "Error: the note is blank"),
        (gives("perhaps"), "Error: verdict: Invalid enum value 'perhaps' - at `$.verdict`"),
        (gives("accept", why="x"), "Error: verdict has no argument 'why'"),
    ],
)
def test_an_invalid_call_is_an_error_that_the_hook_reads(
    tmp_path: Path, message: Any, why: str
) -> None:
    cast = Cast(main=sends, guard=always(message, gives("accept")))
    one = guarded(tmp_path, cast)
    hook = guard(one)
    one.ask("Send.")
    first, second = results(one, hook)
    assert first["content"].startswith(why)
    assert (first["is_error"], second["content"]) == (True, "Noted.")
    assert SENT == ["hello"]
    check_log(one.log)


def test_a_verdict_that_a_point_does_not_allow_is_refused(tmp_path: Path) -> None:
    def judges(request: ModelRequest) -> Any:
        return always(gives("deny", "no"), gives("comment", "no"))(request)

    one = guarded(tmp_path, Cast(main=lambda _: "Hi.", guard=judges))
    hook = guard(one, points=["input", "action"])
    one.ask("Go.")
    assert results(one, hook)[0]["content"] == (
        "Error: deny is no verdict on input: it may be accept, comment"
    )
    assert "[hook guard]: no" in one.user_messages("main")


def test_two_verdicts_in_one_message_are_none(tmp_path: Path) -> None:
    both = call_message(
        call("verdict", "v1", verdict="accept"), call("verdict", "v2", verdict="deny", text="no")
    )
    one = guarded(tmp_path, Cast(main=sends, guard=always(both, gives("deny", "no"))))
    hook = guard(one)
    one.ask("Send.")
    refused = "Error: give one verdict: call verdict once"
    assert [row["content"] for row in results(one, hook)] == [refused, refused, "Noted."]
    assert SENT == []


def test_other_calls_of_the_message_are_run(tmp_path: Path) -> None:
    noted = call_message(
        call("verdict", "v1", verdict="accept"), call("keep_note", "n1", text="It sent once.")
    )
    cast = Cast(main=sends, guard=always(noted))
    one = guarded(tmp_path, cast)
    hook = guard(one)
    one.ask("Send.")
    assert len(cast.read_by("guard")) == 1
    assert [message["content"] for message in hook.transcript][2:] == ["[note] It sent once."]
    check_log(one.log)


@pytest.mark.req("S4-31")
def test_a_hook_can_leave_with_its_verdict(tmp_path: Path) -> None:
    one = guarded(tmp_path, Cast(main=sends, guard=always(gives("deny", "once", leave=True))))
    hook = guard(one)
    one.ask("Send.")
    one.ask("Again.")
    assert SENT == ["hello"]
    assert one.root.hooks == []
    [called] = one.select_lines(agent_id=hook.agent_id, role="assistant")
    [leaving] = one.select_lines(event_type="hook_leaving")
    [moved] = one.select_lines(event_type="agent_moved")
    assert leaving["cause"] == moved["cause"] == called["message_id"]
    check_log(one.log)


@pytest.mark.req("S4-31")
def test_a_hook_can_quit_and_give_its_verdict_in_one_message(tmp_path: Path) -> None:
    both = call_message(
        call("quit", "q1"), call("verdict", "v1", verdict="deny", text="once", leave=True)
    )
    one = guarded(tmp_path, Cast(main=sends, guard=always(both)))
    guard(one)
    one.ask("Send.")
    assert SENT == []
    assert one.root.hooks == []
    assert len(one.select_lines(event_type="hook_leaving")) == 1
    check_log(one.log)


def test_an_agent_that_is_asked_nothing_gives_no_verdict(tmp_path: Path) -> None:
    cast = Cast(main=sends, guard=lambda r: gives("accept") if len(r.messages) < 4 else "Well.")
    one = guarded(tmp_path, cast)
    hook = guard(one)
    assert isinstance(hook, SmartAgent)
    assert run(hook.response("What do you think?")) == "Well."
    assert results(one, hook)[0]["content"] == "Error: you are asked for no verdict now"


@pytest.mark.req("S4-23", "S4-28")
def test_hooks_of_a_hook_judge_its_verdict_as_a_response(tmp_path: Path) -> None:
    def boss(request: ModelRequest) -> Any:
        question = texts(request)[-1]
        return "DENY: too strict" if "DENY: rude" in question else "OK"

    def judges(request: ModelRequest) -> Any:
        is_denied = any("Your response was blocked" in text for text in texts(request))
        return gives("comment", "mild") if is_denied else gives("deny", "rude")

    cast = Cast(main=sends, guard=judges, boss=boss)
    one = guarded(tmp_path, cast)
    hook = guard(one)
    new_hook(hook, "You watch the hook.").install(hook, "boss")
    one.ask("Send.")
    assert SENT == ["hello"]
    questions = [text for read in cast.read_by("boss") for text in read if is_question(text)]
    assert {text.partition("]")[0] for text in questions} == {"[response"}
    assert [row["closed"] for row in results(one, hook)] == ["denied", None]
    assert "[hook guard]: mild" in one.user_messages("main")
    check_log(one.log)


@pytest.mark.req("S4-04", "S4-23")
def test_a_verdict_by_a_call_counts_after_a_crash_at_any_line(tmp_path: Path) -> None:
    def judges(request: ModelRequest) -> Any:
        question = next(text for text in reversed(texts(request)) if is_question(text))
        if "[response]" in question:
            return gives("accept", leave=True)
        return gives("deny", "once", note="A text.")

    cast = Cast(main=sends, guard=judges, boss=always("OK"))
    one = guarded(tmp_path, cast)
    hook = guard(one, points=["action", "response"])
    new_hook(hook, "You watch.", points=["response"]).install(hook, "boss")
    one.ask("Send.")
    one.session.close()
    asked = len(cast.asked)
    lines = one.log.read_bytes().splitlines(keepends=True)
    begin = next(at for at, line in enumerate(lines) if b'"content":"Send."' in line)
    for at in range(begin + 1, len(lines) + 1):
        folder = tmp_path / str(at)
        folder.mkdir()
        (folder / "s.jsonl").write_bytes(b"".join(lines[:at]))
        again = open_stage(folder, cast.model(), runtime=one.runtime)
        answer = again.ask() if at < len(lines) else "Done."
        assert answer == "Done.", at
        assert SENT == []
        assert again.root.hooks == [], at
        verdicts = again.select_lines(event_type="hook_verdict", agent_id=hook.agent_id)
        assert [row["verdict"] for row in verdicts] == ["deny", "ok"], at
        assert len(again.select_lines(event_type="note_kept")) == 1
        check_log(again.log)
        again.session.close()
    assert asked < len(cast.asked)


def test_a_verdict_in_words_is_still_read(tmp_path: Path) -> None:
    one = guarded(tmp_path, Cast(main=sends, guard=always("DENY - rude")))
    guard(one)
    one.ask("Send.")
    assert one.result("c2")["content"] == "Error: Action blocked by hook 'guard': rude"


def test_hook_that_keeps_its_conversation_is_not_asked_about_the_result(tmp_path: Path) -> None:
    """Its hooks judge its verdict, and not that the verdict was noted."""
    cast = Cast(main=sends, guard=always(gives("accept")), boss=always("OK"))
    one = guarded(tmp_path, cast)
    hook = guard(one, spec=AgentSpec(keeps="all"))
    new_hook(hook, "You watch.", points=["result", "response", "action"]).install(hook, "boss")
    one.ask("Send.")
    one.ask("Send.")
    assert len(cast.read_by("boss")) == 2
    assert SENT == ["hello", "hello"]
    assert [m["role"] for m in hook.transcript][2:5] == ["user", "assistant", "tool"]
    check_log(one.log)
