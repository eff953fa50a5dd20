"""Hooks: what they are asked, what they may say, and what becomes of it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import pytest

from harken import (
    Agent,
    Comment,
    Deny,
    Hook,
    LoggedString,
    Ok,
    Question,
    Rewrite,
    Runtime,
    SmartAgent,
    register,
    tool,
)
from harken.agents.base import evict
from harken.agents.hook import Point, Verdict, in_words, read_verdict
from harken.errors import ConfigError, LogWriteError, UnknownName
from harken.llm.base import TextDelta
from tests.agent_kit import Stage, call, calls, check_log, everything, play, quick, run, stage, told
from tests.session_kit import FailingDisk

Judge: TypeAlias = Callable[[Question], Any]


@register("test-judge")
class Judging(Hook):
    """A hook whose judgement is a function, by point; it remembers what it was asked."""

    def begin(self) -> None:
        self.judges: dict[Point, Judge] = {}
        self.asked: list[Question] = []

    def judge(self, question: Question) -> Verdict:
        self.asked.append(question)
        verdict: Verdict = self.judges.get(question.point, lambda _: Ok())(question)
        return verdict

    def copy_for(self, agent: Agent) -> Hook:
        copy = type(self)(agent.session, runtime=agent.runtime)
        copy.judges = self.judges
        return copy

    def points_asked(self) -> list[tuple[str, str]]:
        return [(question.point, question.text) for question in self.asked]


def watch(one: Stage, name: str = "guard", **judges: Judge) -> Judging:
    """Install a hook on the root."""
    hook = Judging(one.session, runtime=one.runtime).install(one.root, name)
    hook.judges.update(judges)  # type: ignore[arg-type]
    return hook


def words(one: Stage, hook: Agent) -> list[tuple[str, str]]:
    """Return the roles and texts of a hook's transcript."""
    return [(r["role"], r["content"]) for r in one.rows(agent_id=hook.agent_id) if "role" in r]


@tool
def send(text: str) -> str:
    """Send a text."""
    SENT.append(text)
    return f"sent {text}"


SENT: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_sent() -> None:
    SENT.clear()


def sending(folder: Path, text: str = "hello", **more: Any) -> Stage:
    model = play(main=[calls(call("send", text=text)), "Done.", "Really done.", "Yes."])
    return stage(folder, model, tools=[send], **more)


# The four points


def test_a_hook_is_asked_at_four_points(tmp_path: Path) -> None:
    one = sending(tmp_path)
    hook = watch(one)
    one.ask("Send.")
    assert hook.points_asked() == [
        ("input", "Send."),
        ("action", '{"text":"hello"}'),
        ("result", "sent hello"),
        ("response", "Done."),
    ]
    action = hook.asked[1]
    assert action.agent == "main"
    assert action.call is not None
    assert action.call.function.name == "send"
    check_log(one.log)


def test_question_and_verdict_stand_in_the_hooks_own_transcript(tmp_path: Path) -> None:
    one = sending(tmp_path)
    hook = watch(one, action=lambda _: Comment("Careful."))
    one.ask("Send.")
    said = words(one, hook)
    assert [role for role, _ in said] == ["user", "assistant"] * 4
    assert said[2] == ("user", '[action] Agent main is about to call send with: {"text":"hello"}')
    assert said[3] == ("assistant", "COMMENT: Careful.")
    questions = one.rows(agent_id=hook.agent_id, role="user")
    [heard] = one.rows(role="user", content="Send.")
    assert questions[0]["cause"] == heard["message_id"]
    [made] = [row for row in one.rows(role="assistant") if "tool_calls" in row]
    assert questions[1]["cause"] == made["message_id"]
    assert "Send." not in [m["content"] for m in hook.transcript]


def test_a_hooks_birth_names_what_it_watches(tmp_path: Path) -> None:
    one = sending(tmp_path)
    hook = watch(one)
    [birth] = one.rows(event_type="agent_created", name="guard")
    assert birth["relation"] == "hook"
    assert birth["spec"] == {"kind": "test-judge"}
    assert birth["cause"] == one.root.state.birth
    assert one.root.hooks == [hook]
    assert one.root.subagents == {}


def test_a_hook_is_asked_only_where_it_wants_to_be(tmp_path: Path) -> None:
    class Narrow(Judging):
        kind = "test-narrow"
        points: ClassVar[frozenset[Point]] = frozenset({"result"})

    one = sending(tmp_path)
    hook = Narrow(one.session, runtime=one.runtime).install(one.root)
    one.ask("Send.")
    assert hook.points_asked() == [("result", "sent hello")]
    assert hook.name == "test-narrow"


def test_the_watched_agent_cannot_reach_its_hooks(tmp_path: Path) -> None:
    model = play(
        main=[
            calls(call("terminate", name="guard"), call("discuss", "c2", speakers=["guard"])),
            "I could not.",
        ]
    )
    one = stage(tmp_path, model)
    watch(one)
    assert one.ask("Get rid of it.") == "I could not."
    assert "no subagent 'guard'" in one.result("c1")["content"]
    assert "no subagent 'guard'" in one.result("c2")["content"]
    assert len(one.root.hooks) == 1


# Comments


def test_a_comment_on_input_is_heard_before_the_model_is_asked(tmp_path: Path) -> None:
    one = sending(tmp_path)
    hook = watch(one, input=lambda _: Comment("It is Friday."))
    one.ask("Send.")
    assert told(one.runtime.model.asked[0])[1:] == ["Send.", "[hook guard]: It is Friday."]  # type: ignore[union-attr]
    [heard] = one.rows(content="[hook guard]: It is Friday.")
    [said] = one.rows(content="COMMENT: It is Friday.", agent_id=hook.agent_id)
    assert (heard["role"], heard["cause"]) == ("user", said["message_id"])
    assert "substance" not in heard


def test_a_comment_on_a_result_is_heard_after_it(tmp_path: Path) -> None:
    one = sending(tmp_path)
    watch(one, result=lambda _: Comment("Well sent."))
    one.ask("Send.")
    assert told(one.runtime.model.asked[1])[1:] == [  # type: ignore[union-attr]
        "Send.",
        "",
        "sent hello",
        "[hook guard]: Well sent.",
    ]


def test_a_comment_on_an_action_is_heard_after_the_results(tmp_path: Path) -> None:
    made = calls(call("send", "c1", text="a"), call("send", "c2", text="b"))
    one = stage(tmp_path, play(main=[made, "Done."]), tools=[send])
    watch(one, action=lambda question: Comment(f"About {question.text}"))
    one.ask("Send.")
    assert told(one.runtime.model.asked[1])[3:] == [  # type: ignore[union-attr]
        "sent a",
        "sent b",
        '[hook guard]: About {"text":"a"}',
        '[hook guard]: About {"text":"b"}',
    ]


def test_a_hook_is_not_asked_about_what_hooks_said(tmp_path: Path) -> None:
    one = sending(tmp_path)
    every: Judge = lambda question: Comment(f"on {question.point}")  # noqa: E731
    hook = watch(one, input=every, action=every, result=every)
    other = watch(one, "other", input=every, action=every, result=every)
    one.ask("Send.")
    for asked in (hook, other):
        assert asked.points_asked() == [
            ("input", "Send."),
            ("action", '{"text":"hello"}'),
            ("result", "sent hello"),
            ("response", "Done."),
        ]


def test_a_comment_on_a_response_is_heard_in_the_next_turn(tmp_path: Path) -> None:
    one = sending(tmp_path)
    watch(one, response=lambda _: Comment("Too short."))
    assert one.ask("Send.") == "Done."
    one.ask("More?")
    assert told(one.runtime.model.asked[2])[-3:] == [  # type: ignore[union-attr]
        "Done.",
        "[hook guard]: Too short.",
        "More?",
    ]


# Denials


@pytest.mark.req("S0-53")
def test_a_denied_action_is_not_run_and_its_result_says_by_whom_and_why(tmp_path: Path) -> None:
    one = sending(tmp_path)
    watch(one, action=lambda _: Deny("not on Fridays"))
    assert one.ask("Send.") == "Done."
    assert SENT == []
    result = one.result()
    assert result["content"] == "Error: Action blocked by hook 'guard': not on Fridays"
    assert result["is_error"] is True


def test_of_several_calls_only_the_denied_one_is_blocked(tmp_path: Path) -> None:
    made = calls(*(call("send", f"c{n}", text=str(n)) for n in range(3)))
    one = stage(tmp_path, play(main=[made, "Done."]), tools=[send])
    watch(one, action=lambda question: Deny("odd") if '"1"' in question.text else Ok())
    one.ask("Send.")
    assert SENT == ["0", "2"]
    assert one.result("c1")["content"] == "Error: Action blocked by hook 'guard': odd"


def test_an_unknown_tool_is_judged_too(tmp_path: Path) -> None:
    one = stage(tmp_path, play(main=[calls(call("fly")), "Done."]))
    watch(one, action=lambda _: Deny("stay"))
    one.ask("Fly.")
    assert one.result()["content"] == "Error: Action blocked by hook 'guard': stay"


def test_a_denied_response_sends_the_agent_back_with_the_reason(tmp_path: Path) -> None:
    one = sending(tmp_path)
    hook = watch(one, response=lambda q: Deny("say please") if q.text == "Done." else Ok())
    assert one.ask("Send.") == "Really done."
    told_then = told(one.runtime.model.asked[2])[-2:]  # type: ignore[union-attr]
    assert told_then[0] == "Done."
    assert told_then[1].startswith("[hook guard]: ")
    assert told_then[1].endswith("say please")
    [denial] = one.rows(agent_id=hook.agent_id, content="DENY: say please")
    [sent_back] = one.rows(cause=denial["message_id"], agent_id=one.root.agent_id)
    assert sent_back["role"] == "user"


def test_after_three_denials_the_user_is_told(tmp_path: Path) -> None:
    one = stage(tmp_path, play(main=["One.", "Two.", "Three.", "Four.", "Five."]))
    watch(one, response=lambda _: Deny("no"))
    said = run(one.root.response("Say."))
    assert "blocked" in said
    assert "3" in said
    assert [r["content"] for r in one.rows(role="assistant", agent_id="agent_001")] == [
        "One.",
        "Two.",
        "Three.",
    ]
    assert isinstance(said, LoggedString)
    [row] = one.rows(message_id=said.message_id)
    assert row["event_type"] == "piece_of_text"
    later = one.again()
    later.root.hooks[0].judges = {}  # type: ignore[attr-defined]
    assert later.ask("Once more.") == "Four."
    check_log(later.log)


def test_a_response_may_be_denied_after_it_acted_again(tmp_path: Path) -> None:
    lines = ["Bad.", calls(call("send", text="x")), "Bad.", "Good."]
    one = stage(tmp_path, play(main=lines), tools=[send])
    watch(one, response=lambda q: Deny("bad") if q.text == "Bad." else Ok())
    assert one.ask("Go.") == "Good."
    assert SENT == ["x"]


# Rewrites


def test_a_rewritten_action_runs_as_rewritten_and_the_log_shows_both(tmp_path: Path) -> None:
    one = sending(tmp_path, "password 1234")
    hook = watch(one, action=lambda _: Rewrite('{"text": "password [REDACTED]"}'))
    one.ask("Send.")
    assert SENT == ["password [REDACTED]"]
    [made] = [row for row in one.rows(role="assistant") if "tool_calls" in row]
    assert made["tool_calls"][0]["function"]["arguments"] == '{"text":"password 1234"}'
    [event] = one.rows(event_type="action_rewritten")
    assert (event["call"], event["tool"]) == (made["message_id"], "send")
    assert event["arguments"] == '{"text": "password [REDACTED]"}'
    [said] = one.rows(agent_id=hook.agent_id, content='REWRITE: {"text": "password [REDACTED]"}')
    assert event["cause"] == said["message_id"]
    assert told(one.runtime.model.asked[1])[-1] == "sent password [REDACTED]"  # type: ignore[union-attr]
    check_log(one.log)


def test_a_rewritten_call_among_several_is_named(tmp_path: Path) -> None:
    made = calls(call("send", "c1", text="a"), call("send", "c2", text="b"))
    one = stage(tmp_path, play(main=[made, "Done."]), tools=[send])
    watch(one, action=lambda q: Rewrite('{"text": "B"}') if '"b"' in q.text else Ok())
    one.ask("Send.")
    assert SENT == ["a", "B"]
    [row] = [row for row in one.rows(role="assistant") if "tool_calls" in row]
    [event] = one.rows(event_type="action_rewritten")
    assert event["call"] == f"{row['message_id']}.c2"


def test_rewrites_chain_and_a_later_hook_judges_what_will_run(tmp_path: Path) -> None:
    def add(letter: str) -> Judge:
        def judge(question: Question) -> Verdict:
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
    def strict(question: Question) -> Verdict:
        assert question.call is not None
        harmful = "rm -rf" in question.call.function.arguments
        return Deny("dangerous") if harmful else Ok()

    one = sending(tmp_path, "ls")
    watch(one, "rewriter", action=lambda _: Rewrite('{"text": "rm -rf /"}'))
    watch(one, "guard", action=strict)
    one.ask("List.")
    assert SENT == []
    assert one.result()["content"] == "Error: Action blocked by hook 'guard': dangerous"
    assert one.rows(event_type="action_rewritten") == []


def test_a_rewrite_that_the_tool_cannot_take_is_an_error_result(tmp_path: Path) -> None:
    one = sending(tmp_path)
    watch(one, action=lambda _: Rewrite('{"to": "x"}'))
    one.ask("Send.")
    assert SENT == []
    assert "send has no argument 'to'" in one.result()["content"]


def test_a_rewritten_task_is_what_is_created(tmp_path: Path) -> None:
    one = stage(tmp_path, play(main=[calls(call("task", name="Ann")), "Done."]))
    watch(one, action=lambda _: Rewrite('{"name": "Bob", "instructions": "Be kind."}'))
    one.ask("Go.")
    assert list(one.root.subagents) == ["Bob"]
    [birth] = one.rows(event_type="agent_created", name="Bob")
    [made] = [row for row in one.rows(role="assistant") if "tool_calls" in row]
    assert birth["cause"] == made["message_id"]


@pytest.mark.req("S0-50", "S0-14")
def test_a_rewritten_response_is_what_others_hear_with_its_substance(tmp_path: Path) -> None:
    model = play(
        main=[
            calls(call("task", "t1", name="Jack"), call("task", "t2", name="Jill")),
            calls(call("discuss", prompt="Talk.", speakers=["Jack", "Jill"])),
            "Done.",
        ],
        Jack=["password: 1234"],
        Jill=["I see."],
    )
    one = stage(tmp_path, model)
    watch(
        one,
        response=lambda q: (
            Rewrite(q.text.replace("1234", "[REDACTED]")) if "1234" in q.text else Ok()
        ),
    )
    assert one.ask("Go.") == "Done."
    [said] = one.rows(content="password: 1234")
    assert (said["agent_id"], said["role"]) == (one.id_of("Jack"), "assistant")
    [heard] = one.rows(substance=said["message_id"])
    assert heard["agent_id"] == one.id_of("Jill")
    assert heard["content"] == "[Jack]: password: [REDACTED]"
    assert one.result()["content"] == "[Jack]: password: [REDACTED]\n\n[Jill]: I see."
    assert not one.rows(agent_id="user")


@pytest.mark.req("S0-50")
def test_a_rewritten_answer_handed_through_keeps_its_substance(tmp_path: Path) -> None:
    model = play(main=[calls(call("task", name="Jack", prompt="?")), "Done."], Jack=["1234"])
    one = stage(tmp_path, model)
    watch(one, response=lambda q: Rewrite("[REDACTED]") if q.text == "1234" else Ok())
    one.ask("Go.")
    [said] = one.rows(content="1234")
    assert one.result()["content"] == "[REDACTED]"
    assert one.result()["substance"] == said["message_id"]


@pytest.mark.req("S0-50")
def test_what_the_user_was_shown_instead_is_an_entry_of_the_user(tmp_path: Path) -> None:
    one = stage(tmp_path, play(main=["password: 1234"]))
    watch(one, response=lambda q: Rewrite(q.text.replace("1234", "[REDACTED]")))
    said = run(one.root.response("Tell me."))
    assert said == "password: [REDACTED]"
    [original] = one.rows(content="password: 1234", role="assistant")
    assert said.message_id == original["message_id"]
    [shown] = one.rows(agent_id="user")
    assert shown["role"] == "user"
    assert shown["content"] == "password: [REDACTED]"
    assert shown["substance"] == original["message_id"]
    check_log(one.log)


def test_a_response_that_stays_as_it_is_makes_no_entry_of_the_user(tmp_path: Path) -> None:
    one = stage(tmp_path, play(main=["Hi."]))
    watch(one)
    one.ask("hello")
    assert one.rows(agent_id="user") == []


def test_what_a_hook_may_still_change_is_not_streamed(tmp_path: Path) -> None:
    pieces: list[str] = []
    model = play(main=["1234"])
    runtime = Runtime(
        model=model,
        on_chunk=lambda _, chunk: (
            pieces.append(chunk.text) if isinstance(chunk, TextDelta) else None
        ),
    )
    one = stage(tmp_path, model, runtime=runtime)
    watch(one, response=lambda _: Rewrite("[REDACTED]"))
    assert one.ask("Tell me.") == "[REDACTED]"
    assert pieces == []


# Failing hooks


def boom(question: Question) -> Verdict:
    raise RuntimeError("boom")


def quits(question: Question) -> Verdict:
    raise UnknownName("agent", "x", ["y"])


FAILURES = {
    "raises": boom,
    "raises one of Harken's own errors": quits,
    "returns nothing": lambda _: None,
    "returns a text": lambda _: "OK",
    "returns a rewrite that is no text": lambda _: Rewrite({"text": "x"}),  # type: ignore[arg-type]
    "returns a reason that is no text": lambda _: Deny(None),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_a_guard_that_fails_denies_an_action(tmp_path: Path, failure: Judge) -> None:
    one = sending(tmp_path)
    hook = watch(one, action=failure)
    assert one.ask("Send.") == "Done."
    assert SENT == []
    assert one.result()["content"].startswith("Error: Action blocked by hook 'guard': ")
    [note] = one.rows(agent_id=hook.agent_id, role="system")
    assert note["content"].startswith("[hook failed]")
    check_log(one.log)


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_a_guard_that_fails_denies_a_response(tmp_path: Path, failure: Judge) -> None:
    one = stage(tmp_path, play(main=["Secret."] * 3))
    watch(one, response=failure)
    said = one.ask("Tell.")
    assert "Secret" not in said
    assert "blocked" in said
    check_log(one.log)


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
@pytest.mark.parametrize("point", ["input", "result"])
def test_a_commentator_that_fails_is_passed_over_with_a_note(
    tmp_path: Path, point: Any, failure: Judge
) -> None:
    one = sending(tmp_path)
    hook = watch(one, **{point: failure})
    watch(one, "other", **{point: lambda _: Comment("still here")})
    assert one.ask("Send.") == "Done."
    assert SENT == ["hello"]
    [note] = one.rows(agent_id=hook.agent_id, role="system")
    assert note["content"].startswith("[hook failed]")
    assert one.rows(content="[hook other]: still here")


@pytest.mark.parametrize("verdict", [Deny("no"), Rewrite("x")], ids=["deny", "rewrite"])
@pytest.mark.parametrize("point", ["input", "result"])
def test_input_and_result_can_only_be_commented_on(
    tmp_path: Path, point: Any, verdict: Verdict
) -> None:
    one = sending(tmp_path)
    hook = watch(one, **{point: lambda _: verdict})
    assert one.ask("Send.") == "Done."
    [note] = one.rows(agent_id=hook.agent_id, role="system")
    assert "is no verdict on" in note["content"]


def test_a_failing_log_is_no_failure_of_a_hook(tmp_path: Path) -> None:
    def sent(at: int) -> FailingDisk:
        (tmp_path / str(at)).mkdir()
        disk = FailingDisk(at=at, fault="EIO")
        one = sending(tmp_path / str(at), options=quick(disk=disk))
        watch(one)
        disk.done.append("asked")
        one.ask("Send.")
        return disk

    operations = sent(1000).done
    for at in range(operations.index("asked") + 1, len(operations)):
        with pytest.raises(LogWriteError):
            sent(at)


def test_the_first_denial_ends_the_asking(tmp_path: Path) -> None:
    one = sending(tmp_path)
    watch(one, "a", action=lambda _: Comment("mind"))
    watch(one, "b", action=lambda _: Deny("no"))
    last = watch(one, "c")
    one.ask("Send.")
    assert "action" not in dict(last.points_asked())
    assert one.rows(content="[hook a]: mind")
    assert one.result()["content"] == "Error: Action blocked by hook 'b': no"


# State and resume


@register("test-counter")
class Counter(Hook):
    """Allows three actions in all."""

    points: ClassVar[frozenset[Point]] = frozenset({"action"})

    def begin(self) -> None:
        self.seen = 0

    def judge(self, question: Question) -> Verdict:
        self.seen += 1
        if "fail" in question.text:
            raise RuntimeError("cannot judge")
        return Deny(f"{self.seen} are too many") if self.seen > 3 else Ok()

    def saved_state(self) -> Any:
        return {"seen": self.seen}

    def take_back(self, saved: Any) -> None:
        self.seen = saved["seen"]


def counted(folder: Path, *texts: str) -> Stage:
    lines = [line for text in texts for line in (calls(call("send", text=text)), "Done.")]
    one = stage(folder, play(main=lines), tools=[send])
    Counter(one.session, runtime=one.runtime).install(one.root, "counter")
    return one


@pytest.mark.req("S0-31")
@pytest.mark.parametrize("how", ["live", "resumed", "evicted"])
def test_a_hooks_state_survives(tmp_path: Path, how: str) -> None:
    one = counted(tmp_path, "a", "b", "c", "d")
    for _ in range(4):
        one.ask("Send.")
        live = everything(one.session)
        if how == "resumed":
            one = one.again()
            assert everything(one.session) == live
        elif how == "evicted":
            evict(one.session, one.id_of("counter"))
    assert SENT == ["a", "b", "c"]
    [blocked] = [r for r in one.rows(role="tool") if "is_error" in r]
    assert blocked["content"] == "Error: Action blocked by hook 'counter': 4 are too many"


@pytest.mark.req("S0-31")
def test_the_state_of_a_hook_that_failed_survives_too(tmp_path: Path) -> None:
    one = counted(tmp_path, "fail", "a", "b")
    one.ask("Send.")
    evict(one.session, one.id_of("counter"))
    assert one.agent("counter").seen == 1  # type: ignore[attr-defined]


@pytest.mark.req("S0-31")
def test_a_state_that_did_not_change_is_not_logged_again(tmp_path: Path) -> None:
    one = sending(tmp_path)
    watch(one)
    one.ask("Send.")
    assert one.rows(event_type="agent_state_saved") == []


@pytest.mark.req("S0-31")
def test_hooks_watch_on_after_a_resume(tmp_path: Path) -> None:
    one = counted(tmp_path, "a")
    later = one.again()
    [hook] = later.root.hooks
    assert isinstance(hook, Counter)
    assert (hook.name, hook.state.place, hook.state.parent) == ("counter", "hook", "agent_001")
    later.ask("Send.")
    assert hook.seen == 1


def test_a_guard_that_nobody_registered_lets_nothing_through(tmp_path: Path) -> None:
    class Lost(Counter):
        kind = "test-lost"

    one = sending(tmp_path)
    Lost(one.session).install(one.root)
    later = one.again()
    with pytest.raises(UnknownName, match="test-lost"):
        later.ask("Send.")
    assert SENT == []


# Hooks of subagents


@pytest.mark.req("S0-31")
def test_a_subagent_gets_copies_of_the_hooks_with_a_state_of_their_own(tmp_path: Path) -> None:
    sends = [calls(call("send", text=str(n))) for n in range(4)]
    model = play(
        main=[calls(call("task", name="Ann", prompt="Go.")), *sends, "Done."],
        Ann=[*sends, "Tried."],
    )
    one = stage(tmp_path, model, tools=[send])
    Counter(one.session, runtime=one.runtime).install(one.root, "counter")
    one.ask("Go.")
    assert SENT == ["0", "1", "2", "0", "1"]  # main's task counts as one of its three
    assert [state.saved for state in one.session.agents.values() if state.place == "hook"] == [
        {"seen": 5},
        {"seen": 4},
    ]
    [hook] = one.root.subagent("Ann").hooks
    assert (hook.name, hook.state.parent) == ("counter", one.id_of("Ann"))
    live = everything(one.session)
    assert everything(one.again().session) == live


def test_a_copy_may_differ_or_be_none(tmp_path: Path) -> None:
    class Strict(Judging):
        kind = "test-strict"

        def judge(self, question: Question) -> Verdict:
            return Deny("read only") if question.point == "action" else Ok()

    class Planning(Judging):
        kind = "test-planning"

        def copy_for(self, agent: Agent) -> Hook:
            return Strict(agent.session, runtime=agent.runtime)

    class Private(Judging):
        kind = "test-private"

        def copy_for(self, agent: Agent) -> None:  # type: ignore[override]
            return None

    kinds = {kind.kind: kind for kind in (Strict, Planning, Private)}
    model = play(
        main=[
            calls(call("send", text="main")),
            calls(call("task", name="Ann", prompt="Go.")),
            "Done.",
        ],
        Ann=[calls(call("send", text="Ann")), "I may not."],
    )
    one = stage(tmp_path, model, tools=[send])
    runtime = Runtime(model=model, world=one.runtime.world, kinds=kinds)
    one = Stage(one.root, one.session, runtime)
    Planning(one.session, runtime=runtime).install(one.root, "planning")
    Private(one.session, runtime=runtime).install(one.root, "private")
    one.ask("Go.")
    assert SENT == ["main"]
    [copy] = one.root.subagent("Ann").hooks
    assert (copy.kind, copy.name) == ("test-strict", "planning")


def test_copies_go_down_the_whole_tree(tmp_path: Path) -> None:
    model = play(
        main=[calls(call("task", name="Ann", prompt="Go.")), "Done."],
        Ann=[calls(call("task", name="Bob", prompt="Go.")), "Done."],
        Bob=[calls(call("send", text="x")), "I may not."],
    )
    one = stage(tmp_path, model, tools=[send])
    watch(one, action=lambda q: Deny("no") if q.call and q.call.function.name == "send" else Ok())
    one.ask("Go.")
    assert SENT == []
    assert one.result("c1", "Bob")["content"] == "Error: Action blocked by hook 'guard': no"


def test_a_subagent_whose_hooks_cannot_be_copied_is_not_created(tmp_path: Path) -> None:
    class Fragile(Judging):
        kind = "test-fragile"

        def copy_for(self, agent: Agent) -> Hook:
            raise RuntimeError("no copy")

    one = stage(
        tmp_path,
        play(main=[calls(call("task", name="Ann", prompt="Go.")), "No Ann."], Ann=["I am free."]),
    )
    Fragile(one.session).install(one.root)
    assert one.ask("Go.") == "No Ann."
    assert one.result()["content"] == "Error: task: RuntimeError: no copy"
    assert one.root.subagents == {}
    assert one.session.agents.keys() == {"agent_001", "agent_002"}


def test_hooks_may_be_installed_while_a_session_runs_and_on_any_agent(tmp_path: Path) -> None:
    one = stage(
        tmp_path,
        play(
            main=[
                calls(call("task", name="Ann")),
                "-",
                calls(call("discuss", "c2", prompt="?")),
                "Done.",
            ],
            Ann=["1234"],
        ),
    )
    one.ask("Make Ann.")
    hook = Judging(one.session).install(one.root.subagent("Ann"), "late")
    hook.judges["response"] = lambda _: Rewrite("****")
    one.ask("Ask Ann.")
    assert one.result("c2")["content"] == "****"


def test_a_hook_hears_a_discussion_of_the_agent_that_it_watches(tmp_path: Path) -> None:
    model = play(
        main=[
            calls(call("task", "t1", name="Jack"), call("task", "t2", name="Jill")),
            calls(call("discuss", prompt="Talk.", speakers=["Jack", "Jill"])),
            "Done.",
        ],
        Jack=["Hi."],
        Jill=["Hello."],
    )
    one = stage(tmp_path, model)
    one.root.harken("Go.")
    run(one.root.response())
    jill = one.root.subagent("Jill")
    hook = Judging(one.session).install(jill)
    jill.harken("And now?")
    run(jill.response())
    assert ("input", "And now?") in hook.points_asked()


# The words of the protocol


@pytest.mark.parametrize(
    "verdict", [Ok(), Comment("a: b"), Deny("two\nlines"), Rewrite('{"a": 1}'), Comment("")]
)
def test_verdicts_can_be_written_and_read(verdict: Verdict) -> None:
    assert read_verdict(in_words(verdict)) == verdict


@pytest.mark.parametrize("words", ["", "Fine.", "deny: x", "OKAY", "I say DENY: x", "DENY"])
def test_other_words_are_no_verdict(words: str) -> None:
    with pytest.raises(ValueError, match="is none of"):
        read_verdict(words)


def test_a_guard_that_cannot_be_asked_is_not_passed_over(tmp_path: Path) -> None:
    one = sending(tmp_path)
    SmartAgent(one.session, runtime=one.runtime).log_birth(one.root.state.birth, "smart", "hook")
    with pytest.raises(ConfigError, match="smart"):
        one.ask("Send.")
    assert SENT == []
