"""Moves wherever they can happen: in a verdict, in a discussion, among other calls, before a crash."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import pytest

from harken import (
    Comment,
    Conversation,
    Deny,
    LocalWorld,
    Ok,
    SmartAgent,
    load_session,
    tool,
)
from harken.agents import texts
from harken.agents.hooks.hook import hook_points
from harken.agents.open_calls import finish_open_calls, has_open_calls
from harken.agents.tree.moves import talk_with
from harken.core.event_types.spec import SpecChange, Standing
from harken.core.events import AgentMoved
from harken.core.ids import AgentId
from harken.core.messages import Message
from harken.llm.base import ModelRequest
from harken.world.result import InvalidArguments
from tests.agent_kit import (
    ScriptedAnswer,
    Stage,
    call,
    call_message,
    check_log,
    fast_options,
    full_state,
    request_texts,
    run,
    select_lines,
)
from tests.unit.agents.hook_kit import watch
from tests.unit.agents.tree.test_moves import moving

Act: TypeAlias = Callable[[ModelRequest], Message]
OK = Message("assistant", "OK")


def at(point: str, made: Message) -> Act:
    """Return what a hook does that makes these calls when it is asked at this point."""
    return lambda request: made if _asks(request, point) else OK


def _asks(request: ModelRequest, point: str) -> bool:
    return request_texts(request)[-1].startswith(f"[{point}] ")


def with_hook(
    folder: Path, act: Act, main: Sequence[ScriptedAnswer], **parts: Sequence[ScriptedAnswer]
) -> Stage:
    """Return a stage whose main has a hook, h, that acts so from now on."""
    watching: list[Act] = []
    main = [
        call_message(call("hook", "i1", name="h", instructions="Watch.", tools=["task", "endo"])),
        "Ready.",
        *main,
    ]
    h: list[ScriptedAnswer] = [lambda request: watching[0](request) if watching else OK] * 20
    one = moving(folder, None, **{"main": main, "h": h, **parts})
    run(Conversation(one.root).say("Begin."))
    assert [hook.name for hook in one.root.hooks] == ["h"]
    watching.append(act)
    return one


@pytest.mark.req("S4-38")
@pytest.mark.parametrize("point", ["input", "action", "result", "response"])
def test_a_hook_takes_over_wherever_it_is_asked(tmp_path: Path, point: str) -> None:
    act = call_message(
        call("task", "c1", name="a", instructions="A."),
        call("task", "c2", name="b", instructions="B."),
    )
    take = call_message(call("meta", "m1"))

    def takes(request: ModelRequest) -> Message:
        text = request_texts(request)[-1]
        if text.startswith("You have taken the place of main"):
            return Message("assistant", "I take over.")
        return at(point, take)(request)

    one = with_hook(tmp_path, takes, main=[act, "Said."])
    talk, before = Conversation(one.root), len(one.select_lines())
    assert run(talk.say("Go.")) == "I take over."
    h = talk.primary
    assert (h.name, list(h.subagents), h.hooks) == ("h", ["main"], [])
    assert one.result("m1", "h")["content"].endswith(
        "now your subagent. It was last told: Go. Nobody asks you for verdicts now; "
        "you answer the user."
    )
    done = [row["content"] for row in one.select_lines(role="tool", agent_id=one.id_of("main"))[1:]]
    taken = "Error: task was not run: another agent has taken your place"
    assert (
        done
        == {
            "input": [],
            "action": [taken, taken],
            "result": ["Created subagent: a", "Created subagent: b"],
            "response": ["Created subagent: a", "Created subagent: b"],
        }[point]
    )
    check_log(one.log)
    _resumes_after_each_event(one, before, tmp_path)


def _resumes_after_each_event(one: Stage, before: int, folder: Path) -> None:
    """Cut the log after each event: a resume is exact, and the user gets an answer of somebody."""
    one.session.close()
    raw = one.log.read_bytes().splitlines(keepends=True)
    for kept in range(before, len(raw) + 1):
        log = folder / f"cut-{kept}.jsonl"
        log.write_bytes(b"".join(raw[:kept]))
        root, session = load_session(log, runtime=one.runtime, options=fast_options())
        first = full_state(session)
        session.close()
        root, session = load_session(log, runtime=one.runtime, options=fast_options())
        assert full_state(session) == first
        talk = Conversation(root)
        assert str(run(talk.say("On."))) in (
            "I take over.",
            "Said.",
            "OK",
            "Because.",
            "[h has no line]",
        )
        session.close()
        check_log(log)


def test_calls_that_have_begun_have_their_results_when_a_hook_takes_over(tmp_path: Path) -> None:
    def at_second(request: ModelRequest) -> Message:
        if "second" in request_texts(request)[-1]:
            return call_message(call("meta", "m1"))
        return OK

    act = call_message(
        call("task", "c1", name="first", instructions="A."),
        call("task", "c2", name="second", instructions="B."),
        call("task", "c3", name="third", instructions="C."),
    )
    one = with_hook(tmp_path, at_second, main=[act])
    run(Conversation(one.root).say("Go."))
    assert one.result("c1")["content"] == "Created subagent: first"
    for id_ in ("c2", "c3"):
        assert one.result(id_)["content"].endswith("another agent has taken your place")
    assert list(one.root.subagents) == ["first"]


def test_who_takes_a_hooks_place_is_asked_in_its_stead(tmp_path: Path) -> None:
    make = call_message(call("task", "t1", name="s", instructions="S."))
    give = call_message(call("endo", "e1", subagent="s", points=[]))

    def h(request: ModelRequest) -> Message:
        text = request_texts(request)[-1]
        if text.startswith("[input] "):
            return make
        return give if text == "Created subagent: s" else OK

    one = with_hook(tmp_path, h, main=["Said."], s=["COMMENT: I am s.", "OK"])
    assert run(Conversation(one.root).say("Go.")) == "Said."
    [s] = one.root.hooks
    assert (s.name, [hook.name for hook in s.hooks]) == ("s", ["h"])
    assert hook_points(s.hooks[0]) == frozenset()
    assert "[hook s]: I am s." in one.user_messages("main")
    [duty] = one.select_lines(agent_id=s.agent_id, purpose="duty")
    assert [message["content"] for message in s.transcript[:2]] == ["S.", duty["content"]]
    check_log(one.log)


def test_a_discussion_gets_the_answer_of_who_took_a_speakers_place(tmp_path: Path) -> None:
    one = moving(
        tmp_path,
        main=[
            call_message(call("task", "t1", name="a", instructions="A.")),
            call_message(call("discuss", "d1", prompt="Why?")),
            call_message(call("discuss", "d2", prompt="And why that?")),
            "Done.",
        ],
        a=[
            call_message(call("task", "t2", name="b", instructions="B.")),
            call_message(call("endo", "e1", subagent="b", prompt="Answer.", points=[])),
        ],
        b=["Because.", "So."],
    )
    assert one.ask("Go.") == "Done."
    assert [one.result(id_)["content"] for id_ in ("d1", "d2")] == ["Because.", "So."]
    b = one.root.subagents["b"]
    assert one.root.state.speakers == [b.agent_id]
    assert [hook.name for hook in b.hooks] == ["a"]
    check_log(one.log)


def test_a_task_gets_the_answer_of_who_took_the_new_ones_place(tmp_path: Path) -> None:
    one = moving(
        tmp_path,
        main=[
            call_message(call("task", "t1", name="a", instructions="A.", prompt="Why?")),
            "Done.",
        ],
        a=[
            call_message(call("task", "t2", name="b", instructions="B.")),
            call_message(call("endo", "e1", subagent="b", prompt="Answer.", points=[])),
        ],
        b=["Because."],
    )
    assert one.ask("Go.") == "Done."
    assert one.result("t1")["content"] == "Because."


def test_calls_after_a_move_in_the_same_message_are_not_run(tmp_path: Path) -> None:
    """The turn ends with the move: the model could not know what its calls would mean after it."""
    one = moving(
        tmp_path,
        main=[
            call_message(
                call("task", "t1", name="a", instructions="A."),
                call("endo", "e1", subagent="a", points=[]),
                call("task", "t2", name="b", instructions="B."),
                call("endo", "e2", subagent="a"),
            )
        ],
    )
    assert one.ask("Go.") == "[moved] a answers now"
    for id_ in ("t2", "e2"):
        result = one.result(id_)
        assert result["content"].endswith("another agent has taken your place")
        assert (result["closed"], result["is_error"]) == ("moved", True)
    assert not one.root.subagents
    assert not one.root.state.open_calls


@pytest.mark.req("S4-48")
def test_an_old_primary_may_leave_at_once(tmp_path: Path) -> None:
    one = moving(
        tmp_path,
        main=[
            call_message(
                call("task", "t1", name="a", instructions="A."),
                call("endo", "e1", subagent="a", prompt="It is yours."),
            ),
            call_message(call("quit", "q1")),
            "OK",
        ],
        a=["Here I am."],
    )
    talk = Conversation(one.root)
    assert run(talk.say("Go.")) == "Here I am."
    assert (talk.primary.name, talk.primary.hooks) == ("a", [])
    assert one.root.state.place == "gone"
    before = full_state(one.session)
    assert full_state(one.resume().session) == before


@pytest.mark.req("S4-28")
def test_endo_is_no_way_out_from_under_a_hook(tmp_path: Path) -> None:
    """Nor is what the agent rewrites then, as a hook: the guard judges it after that."""

    def worse(request: ModelRequest) -> Message:
        return Message("assistant", 'REWRITE: {"name": "bad"}') if _asks(request, "action") else OK

    main: list[ScriptedAnswer] = [
        call_message(call("task", "t1", name="a", instructions="A.")),
        "Ready.",
        call_message(call("endo", "e1", subagent="a", prompt="Do it.")),
        *[worse] * 9,
    ]
    one = moving(tmp_path, main=main, a=[call_message(call("task", "x1", name="fine")), "Oh."])
    one.ask("Begin.")
    guard = watch(one, action=lambda asked: Deny("no") if "bad" in asked.text else Ok())
    assert [hook.name for hook in one.root.subagents["a"].hooks] == ["guard"]
    assert run(Conversation(one.root).say("Go.")) == "Oh."
    a = Conversation(one.root).primary
    assert [hook.name for hook in a.hooks] == ["main", "guard"]
    assert one.result("x1", "a")["content"] == "Error: Action blocked by hook 'guard': no"
    assert guard.agent_id in one.root.state.hooks
    assert not a.subagents


def test_a_hook_in_code_that_only_judges_takes_nobodys_place(tmp_path: Path) -> None:
    one = moving(tmp_path, main=["Ready."])
    watch(one)
    one.ask("Begin.")
    with pytest.raises(InvalidArguments, match="guard only gives verdicts"):
        talk_with(one.root, "guard", None)
    assert one.session.state.primary == one.root.agent_id


def test_two_of_one_name_never_stand_in_one_row(tmp_path: Path) -> None:
    one = moving(
        tmp_path,
        main=[
            call_message(
                call("task", "t1", name="a", instructions="A."),
                call("task", "t2", name="b", instructions="B."),
            ),
            call_message(call("discuss", "d1", prompt="Go.", speakers=["a"])),
            "Done.",
        ],
        a=[
            call_message(call("task", "t3", name="b", instructions="Another b.")),
            call_message(call("endo", "e1", subagent="b")),
            "I stay.",
        ],
    )
    one.ask("Go.")
    assert "main already has a subagent 'b'" in one.result("e1", "a")["content"]
    assert one.result("d1")["content"] == "I stay."


def test_a_path_that_cannot_be_gone_to_its_end_moves_nobody(tmp_path: Path) -> None:
    people = call_message(call("task", "t1", name="a", instructions="A.", prompt="Go."))
    one = moving(
        tmp_path, main=[people, "Done."], a=[call_message(call("task", "t2", name="b")), "Made."]
    )
    one.ask("Go.")
    before = full_state(one.session)
    with pytest.raises(InvalidArguments, match="b has no subagent or hook 'c'"):
        talk_with(one.root, "a/b/c", None)
    assert full_state(one.session) == before
    b = talk_with(one.root, "a/b", None)
    assert (one.session.state.primary, b.name) == (b.agent_id, "b")
    assert not any(hook_points(hook) for hook in (*b.hooks, *b.hooks[0].hooks))
    talk_with(b, "a/main", None)
    assert one.session.state.primary == one.root.agent_id
    assert list(one.root.subagents["a"].subagents) == ["b"]


def test_who_waits_above_goes_with_whom_it_watches(tmp_path: Path) -> None:
    one = moving(
        tmp_path,
        main=[
            call_message(call("task", "t1", name="a", instructions="A.", prompt="Why?")),
            call_message(call("terminate", "x1", name="b")),
            "Done.",
        ],
        a=[
            call_message(call("task", "t2", name="b", instructions="B.")),
            call_message(call("endo", "e1", subagent="b", points=[])),
        ],
    )
    one.ask("Go.")
    assert one.result("x1")["content"] == "Terminated subagent: b"
    live = [
        state.name for state in one.session.agents.values() if one.session.state.is_live(state.id)
    ]
    assert live == ["main"]


def test_a_move_and_its_result_are_one_group(tmp_path: Path) -> None:
    one = moving(
        tmp_path,
        main=[
            call_message(call("task", "t1", name="a", instructions="A.")),
            call_message(call("endo", "e1", subagent="a", prompt="Now you.")),
        ],
        a=["Here I am."],
    )
    one.ask("Go.")
    one.session.close()
    raw = one.log.read_bytes().splitlines(keepends=True)
    before = next(at for at, line in enumerate(raw) if b'"e1"' in line and b'"assistant"' in line)
    last = next(at for at, line in enumerate(raw) if b'"turn_stopped"' in line)
    for kept in range(before + 1, last + 2):
        log = tmp_path / f"{kept}.jsonl"
        log.write_bytes(b"".join(raw[:kept]))
        root, session = load_session(log, runtime=one.runtime, options=fast_options())
        has_moved = kept == last + 1
        results = select_lines(log, role="tool", tool_call_id="e1")
        assert [row["content"] for row in results] == [texts.ENDO_RESULT.format("a")] * has_moved
        assert (root.state.place == "hook") is has_moved
        assert has_open_calls(Conversation(root).primary)
        session.close()


def test_a_comment_of_another_hook_is_heard_after_a_move(tmp_path: Path) -> None:
    take = call_message(call("meta", "m1"))
    one = with_hook(tmp_path, at("input", take), main=["Said."])
    watch(one, "guard", input=lambda _: Comment("Be brief."))
    # asked after h, which is the agent's own: so let the guard come first
    spec = SpecChange(standing=Standing(made="guard"))
    one.session.append(AgentMoved(agent_id=AgentId(one.id_of("h")), place="hook", spec=spec))
    run(one.root.response("Go."))
    main = one.root
    assert main.state.place == "subagent"
    run(main.response("On."))
    assert "[hook guard]: Be brief." in one.user_messages("main")


@pytest.mark.parametrize("what", ["response", "finish_calls", "compact"])
def test_what_was_said_while_a_place_changed_is_heard_by_who_stands_there(
    tmp_path: Path, what: str
) -> None:
    """A call that was cut off is run again before input is heard, and a hook may use that."""
    take = call_message(call("meta", "m1"))

    @tool(idempotent=True)
    def look() -> str:
        """Look."""
        raise KeyboardInterrupt

    def h(request: ModelRequest) -> Message:
        return take if "look" in request_texts(request)[-1] and seen else OK

    seen: list[int] = []
    said: list[ScriptedAnswer] = [call_message(call("look", "l1")), "Said."]
    one = with_hook(tmp_path, h, main=said, compaction=["A summary."])
    one.session.log_transcript_entry(one.root.agent_id, {"role": "user", "content": "Look."})
    made = {
        "role": "assistant",
        "tool_calls": [{"id": "l1", "function": {"name": "look", "arguments": "{}"}}],
    }
    one.session.log_transcript_entry(one.root.agent_id, made)
    one.session.close()
    root, session = load_session(
        one.log, runtime=replace(one.runtime, world=LocalWorld([look])), options=fast_options()
    )
    seen.append(1)
    assert isinstance(root, SmartAgent)
    if what == "response":
        run(root.response("Hear this."))
        assert Conversation(root).primary.transcript[-1]["content"] == "Hear this."
    else:
        run(finish_open_calls(root) if what == "finish_calls" else root.compact())
    assert Conversation(root).primary.name == "h"
    assert not root.state.open_calls
    session.close()


@pytest.mark.req("S4-28")
def test_a_hook_of_ones_own_does_not_do_what_one_may_not(tmp_path: Path) -> None:
    make = call_message(
        call("hook", "h1", name="free", instructions="Act.", points=["input"], tools=["task"]),
        call("hook", "h2", name="mute", instructions="Judge.", points=[]),
    )
    act = call_message(call("task", "x1", name="bad"))
    one = moving(tmp_path, main=[make, "Ready.", "Said."], free=[act, "OK", "OK"])
    watch(one, action=lambda asked: Deny("no") if "bad" in asked.text else Ok())
    one.ask("Begin.")
    one.ask("Go.")
    assert one.result("x1", "free")["content"] == "Error: Action blocked by hook 'guard': no"
    watching = {hook.name: [each.name for each in hook.hooks] for hook in one.root.hooks}
    assert watching == {"free": ["guard"], "mute": [], "guard": []}
