"""`hook` and `quit`: hooks that agents put above themselves and others, copies, and their end."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harken import Agent, AgentRuntime, Conversation, LocalWorld, SmartAgent
from harken.agents.action_schemas import ACTIONS
from harken.agents.runtime import ActionPolicy, AgentLibrary
from harken.agents.tree.hook_action import MAX_HOOKS
from harken.core.event_types.spec import AgentSpec, Copies
from harken.errors import NameNotFound
from harken.llm.base import ModelRequest
from harken.world.result import InvalidArguments, ToolError
from tests.agent_kit import (
    call,
    call_message,
    check_log,
    fast_options,
    full_state,
    open_stage,
    run,
    script_model,
)
from tests.unit.agents.hook_kit import SENT, Judging, send, watch
from tests.unit.agents.smart_hooks import Cast, always, guard, guarded, last, sends, texts


def then(*said: Any) -> Callable[[ModelRequest], Any]:
    """Say one thing after the other, whatever is asked."""
    return lambda request: said[sum(m.role == "assistant" for m in request.messages)]


@pytest.mark.req("S4-30", "S4-53")
def test_an_agent_may_put_a_hook_above_itself(tmp_path: Path) -> None:
    made = call_message(call("hook", name="careful", instructions="No sending.", points=["action"]))
    again = call_message(call("send", "c2", text="x"))
    cast = Cast(main=then(made, again, "Done."), careful=always("DENY: no sending"))
    one = guarded(tmp_path, cast)
    assert one.ask("Watch yourself.") == "Done."
    assert SENT == []
    [birth] = one.select_lines(event_type="agent_created", name="careful")
    assert birth["cause"][0] == one.root.state.birth
    assert birth["spec"]["standing"]["points"] == ["action"]
    assert birth["spec"]["keeps"] == "notes"
    assert birth["spec"]["limits"]["tools"] == []
    instructions, duty, _ = cast.read_by("careful")[0]
    assert instructions == "No sending."
    assert "You are asked at: action." in duty
    check_log(one.log)


@pytest.mark.req("S4-30")
def test_a_hook_has_no_hook_unless_granted_and_puts_it_above_whom_it_watches(
    tmp_path: Path,
) -> None:
    wants = call_message(call("hook", "h", name="second", instructions="You watch, too."))
    for tools, count in ([], 1), (["hook"], 2):
        folder = tmp_path / str(count)
        folder.mkdir()
        cast = Cast(main=lambda _: "Done.", guard=always(wants, "OK"), second=always("OK"))
        one = guarded(folder, cast)
        hook = guard(one, points=["response"], tools=tools)
        one.ask("Go.")
        assert [watcher.name for watcher in one.root.hooks] == ["guard", "second"][:count]
        assert hook.hooks == []
        check_log(one.log)


@pytest.mark.req("S4-37", "S4-53")
def test_a_hook_turns_a_repeated_complaint_into_a_hook(tmp_path: Path) -> None:
    def notices(request: ModelRequest) -> Any:
        """Note a complaint; make a hook of the second one."""
        question = texts(request)[-1]
        if last(request).role == "tool" or "Do not shout" not in question:
            return "OK"
        if any(text.startswith("[note]") for text in texts(request)):
            instructions = "Deny every answer in capital letters."
            return call_message(
                call("hook", name="quiet", instructions=instructions, points=["response"])
            )
        return call_message(call("keep_note", text="The user asked not to shout."))

    def quiet(request: ModelRequest) -> str:
        return "DENY: you shout" if "HELLO" in texts(request)[-1] else "OK"

    main = then("HELLO", "HELLO", "HELLO", "Hello.")
    one = guarded(tmp_path, Cast(main=main, complaints=notices, quiet=quiet))
    guard(one, "complaints", points=["input"], tools=["hook"])
    assert one.ask("Hi.") == "HELLO"
    assert one.ask("Do not shout.") == "HELLO"
    one = one.resume()
    assert one.ask("Do not shout!") == "Hello."
    [birth] = one.select_lines(event_type="agent_created", name="quiet")
    assert birth["cause"][0] == one.root.state.birth
    assert one.select_lines(message_id=birth["cause"][1])[0]["agent_id"] == one.id_of("complaints")
    assert one.agent("quiet").state.parent == one.root.agent_id
    check_log(one.log)


def test_a_hooks_tools_are_never_more_than_its_makers(tmp_path: Path) -> None:
    wants = call_message(call("hook", "h", name="second", instructions="x", tools=["send"]))
    one = guarded(tmp_path, Cast(main=lambda _: "Done.", guard=always(wants, "OK")))
    hook = guard(one, points=["response"], tools=["hook"])
    one.ask("Go.")
    [result] = one.select_lines(agent_id=hook.agent_id, role="tool")
    assert result["content"].startswith("Error: you have no tool 'send' to pass on")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"name": "guard", "instructions": "x"}, "hook 'guard' exists"),
        ({"name": "user", "instructions": "x"}, "the agent name 'user' is reserved"),
        ({"name": "b"}, "a hook needs instructions"),
        ({"name": "b", "instructions": " "}, "a hook needs instructions"),
        ({"name": "b", "instructions": "x", "points": ["thought"]}, "points"),
        ({"name": "b", "instructions": "template:none"}, "template:none cannot be used"),
        ({"name": "b", "instructions": "hook:none"}, "has no hook library"),
        (
            {"name": "b", "instructions": "hook:none", "tools": ["send"]},
            "points, tools and model are defined by",
        ),
    ],
)
def test_a_hook_that_cannot_be_is_refused(tmp_path: Path, arguments: Any, why: str) -> None:
    one = guarded(tmp_path, Cast(main=then(call_message(call("hook", **arguments)), "Well.")))
    guard(one, points=[])
    one.ask("Go.")
    assert why in one.result()["content"]
    assert len(one.root.hooks) == 1
    check_log(one.log)


def test_hooks_of_agents_are_bounded(tmp_path: Path) -> None:
    many = [call("hook", f"c{n}", name=f"h{n}", instructions="x", points=[]) for n in range(20)]
    one = guarded(tmp_path, Cast(main=then(call_message(*many), "Well.")))
    one.ask("Go.")
    assert len(one.root.hooks) == MAX_HOOKS
    assert f"no more than {MAX_HOOKS}" in one.result("c19")["content"]


@pytest.mark.req("S4-28", "S4-37")
def test_an_agent_takes_no_room_and_no_name_from_its_guards(tmp_path: Path) -> None:
    many = [call("hook", f"c{n}", name=f"h{n}", instructions="x", points=[]) for n in range(20)]
    adds = call_message(call("hook", "more", name="h1", instructions="No.", points=[]))
    cast = Cast(main=then(call_message(*many), "Well."), guard=always(adds, "OK"))
    one = guarded(tmp_path, cast)
    guard(one, points=["response"], tools=["hook"])
    one.ask("Go.")
    assert "Installed hook h1 (2)" in one.result("more", "guard")["content"]
    assert [hook.name for hook in one.root.hooks][-2:] == ["guard", "h1 (2)"]


@pytest.mark.req("S4-31")
def test_quit_is_for_hooks_alone(tmp_path: Path) -> None:
    cast = Cast(main=then(call_message(call("quit")), "Well."), guard=always("OK"))
    one = guarded(tmp_path, cast)
    hook = guard(one)
    assert "quit" not in one.root.tools  # type: ignore[attr-defined]
    assert {"quit", "keep_note", "read_log", "meta"} <= set(hook.tools)  # type: ignore[attr-defined]
    one.ask("Go.")
    assert one.result()["content"].startswith("Error: main may not use a tool 'quit'")
    assert one.root.hooks == [hook]


@pytest.mark.req("S4-31", "S4-36", "S0-20")
def test_a_hook_that_quits_is_gone_after_the_verdict_that_it_then_gives(tmp_path: Path) -> None:
    cast = Cast(main=sends, guard=always(call_message(call("quit", "q")), "DENY: one last time"))
    one = guarded(tmp_path, cast)
    hook = guard(one)
    one.ask("Send.")
    one.ask("Send again.")
    assert SENT == ["hello"]
    assert one.root.hooks == []
    assert len(cast.read_by("guard")) == 2
    [left] = one.select_lines(event_type="agent_moved")
    [acted] = [
        r for r in one.select_lines(agent_id=hook.agent_id, role="assistant") if "tool_calls" in r
    ]
    assert (left["place"], left["cause"]) == ("gone", acted["message_id"])
    [verdict] = one.select_lines(agent_id=hook.agent_id, content="DENY: one last time")
    assert left["message_id"] > verdict["message_id"]
    check_log(one.log)


@pytest.mark.req("S4-31")
@pytest.mark.parametrize("in_memory", [1, None])
def test_what_a_hook_says_as_it_leaves_is_heard_after_a_crash_too(
    tmp_path: Path, in_memory: int | None
) -> None:
    cast = Cast(main=sends, guard=always(call_message(call("quit")), "COMMENT: farewell"))
    one = guarded(tmp_path, cast)
    guard(one)
    one.ask("Send.")
    one.session.close()
    whole = one.log.read_bytes().splitlines(keepends=True)
    left = next(at for at, line in enumerate(whole) if b'"agent_moved"' in line)
    heard = next(at for at, line in enumerate(whole) if b"[hook guard]: farewell" in line)
    assert left < heard
    for at in range(left + 1, heard + 1):  # the verdict and the move are one group
        folder = tmp_path / str(at)
        folder.mkdir()
        (folder / "s.jsonl").write_bytes(b"".join(whole[:at]))
        few = replace(fast_options(), in_memory=in_memory)
        again = open_stage(folder, cast.model(), runtime=one.runtime, options=few)
        again.ask()
        assert again.user_messages("main").count("[hook guard]: farewell") == 1
        assert again.root.hooks == []
        again.session.close()


@pytest.mark.req("S4-31")
def test_a_hook_that_quits_when_it_is_asked_nothing_is_gone_at_once(tmp_path: Path) -> None:
    """Something outside woke it: it is asked nothing meanwhile, and gives no verdict then."""

    def watches(request: ModelRequest) -> Any:
        is_woken = any(text.startswith("[event clock]") for text in texts(request))
        return call_message(call("quit")) if is_woken else "OK"

    one = guarded(tmp_path, Cast(main=sends, guard=watches))
    hook = guard(one)
    one.ask("Send.")

    async def wake() -> None:
        async with hook._question_lock.current():
            await hook.response("[event clock] It is five.")

    run(wake())
    assert one.root.hooks == []


@pytest.mark.req("S4-31", "S4-39")
def test_a_hook_that_gives_its_place_away_and_quits_has_left(tmp_path: Path) -> None:
    made = call_message(call("task", "t", name="kim", instructions="Watch."))
    moves = call_message(call("endo", "e", subagent="kim", points=["response"]))
    leaves = always(call_message(call("quit", "q")), "OK")

    def gives_its_place(request: ModelRequest) -> Any:
        watches_kim = any("] Agent kim" in text for text in texts(request))
        return (leaves if watches_kim else always(made, moves))(request)

    cast = Cast(main=sends, guard=gives_its_place, kim=lambda _: "OK")
    one = guarded(tmp_path, cast)
    guard(one, tools=["task", "endo"])
    one.ask("Send.")
    [kim] = one.root.hooks
    assert (kim.name, kim.hooks) == ("kim", [])
    assert SENT == ["hello"]
    check_log(one.log)


def test_calls_made_at_once_are_not_judged_by_a_hook_that_left(tmp_path: Path) -> None:
    both = call_message(call("send", "c1", text="a"), call("send", "c2", text="b"))
    one = guarded(
        tmp_path, Cast(main=then(both, "Done."), guard=always(call_message(call("quit")), "OK"))
    )
    hook = guard(one)
    one.ask("Send.")
    assert SENT == ["a", "b"]
    assert len(one.select_lines(agent_id=hook.agent_id, role="user")) == 1


@pytest.mark.req("S4-29", "S4-28")
def test_a_subagent_gets_copies_that_were_told_the_same_and_remember_nothing(
    tmp_path: Path,
) -> None:
    made = call_message(call("task", name="kim", instructions="k", prompt="Send."))
    deny = always(call_message(call("keep_note", text="seen")), "DENY: no")
    only_once = lambda r: deny(r) if "send" in texts(r)[-1] or last(r).role == "tool" else "OK"  # noqa: E731
    cast = Cast(
        main=then(made, "Done."),
        kim=then(call_message(call("send", text="x")), "No."),
        guard=only_once,
    )
    one = guarded(tmp_path, cast)
    hook = guard(one, tools=["send"])
    one.ask("Go.")
    assert SENT == []
    [copy] = one.agent("kim").hooks
    births = one.select_lines(event_type="agent_created", name="guard")
    assert {**births[0]["spec"], "original": hook.agent_id} == births[1]["spec"]
    assert births[1]["cause"] == one.agent("kim").state.birth
    told, copy_told = ([m["content"] for m in agent.transcript] for agent in (hook, copy))
    assert copy_told == [*told, "[note] seen"]
    assert len(told) == 2
    check_log(one.log)


@pytest.mark.req("S4-29")
def test_a_hook_may_have_no_copies_or_copies_that_are_told_more(tmp_path: Path) -> None:
    made = call_message(call("task", name="kim", instructions="k"))
    one = guarded(tmp_path, Cast(main=then(made, "Done.")))
    guard(one, "alone", points=[], spec=AgentSpec(copies=Copies(subagents=False)))
    guard(one, "planning", points=[], spec=AgentSpec(copies=Copies(instructions="You only read.")))
    one.ask("Go.")
    [copy] = one.agent("kim").hooks
    assert copy.name == "planning"
    assert copy.transcript[0]["content"].endswith("\n\nYou only read.")
    assert copy.state.spec.copies is None


@pytest.mark.req("S4-29")
def test_who_came_to_stand_as_a_hook_is_not_copied(tmp_path: Path) -> None:
    one = guarded(tmp_path, Cast(main=lambda _: "Done."))
    other = SmartAgent(one.session, "x", runtime=one.runtime).install(one.root, "other")
    assert other._copy_for(one.root) is None


class Finder:
    """Knows two hooks by name."""

    def create(self, name: str, watched: Agent) -> Agent:
        if name == "judge":
            return Judging(watched.session, runtime=watched.runtime)
        if name == "smart":
            return SmartAgent(watched.session, "s", runtime=watched.runtime, tools=["send", "fly"])
        raise NameNotFound("hook", name, self.names())

    def names(self) -> list[str]:
        return ["judge", "smart"]

    def listing(self) -> str:
        return "- judge: Judges.\n- smart"


@pytest.mark.req("S4-30")
def test_a_hook_that_exists_is_found_by_its_name(tmp_path: Path) -> None:
    made = call_message(
        call("hook", "c1", name="a", instructions="hook:judge"),
        call("hook", "c2", name="b", instructions="hook:smart"),
        call("hook", "c3", name="c", instructions="hook:none"),
    )
    runtime = AgentRuntime(
        model=script_model(main=[made, "Done."], b=["OK"] * 5),
        world=LocalWorld([send]),
        policy=ActionPolicy(actions=ACTIONS),
        library=AgentLibrary(hooks=Finder()),
    )
    one = open_stage(tmp_path, script_model(), runtime=runtime)
    one.ask("Go.")
    assert [hook.state.spec.kind for hook in one.root.hooks] == ["test-judge", "smart"]
    assert one.root.hooks[1].state.spec.limits.tools == ["send"]
    assert all(hook.state.spec.standing.is_made for hook in one.root.hooks)
    assert "existing hooks: judge, smart" in one.result("c3")["content"]


def test_hooks_that_agents_made_are_there_after_a_resume(tmp_path: Path) -> None:
    made = call_message(call("hook", name="careful", instructions="No.", points=["action"]))
    again = call_message(call("send", "c2", text="x"))
    cast = Cast(main=then(made, "Done.", again, "Done."), careful=always("DENY: no"))
    one = guarded(tmp_path, cast)
    one.ask("Watch yourself.")
    before = full_state(one.session)
    later = one.resume()
    assert full_state(later.session) == before
    later.ask("Send.")
    assert SENT == []
    assert watch(later, "last", action=lambda _: None).name == "last"


def offers(requests: Iterable[ModelRequest]) -> set[tuple[str, bool]]:
    """Return for each agent whether its requests offer `quit`."""
    return {
        (request.agent, "quit" in [tool["name"] for tool in request.tools]) for request in requests
    }


@pytest.mark.req("S4-31")
def test_quit_removes_the_calling_hook_and_no_other(tmp_path: Path) -> None:
    """The hook that quits is asked nothing more; the other hooks stay, and its copy too."""
    quits = call_message(call("quit", "q"))
    cast = Cast(
        main=sends,
        first=lambda _: "OK",
        guard=lambda request: "OK" if last(request).role == "tool" else quits,
        kim=sends,
    )
    one = guarded(tmp_path, cast)
    child = run(one.root.task("kim", "You are Kim."))
    first, hook = guard(one, "first"), guard(one)
    copies = child.hooks
    assert [copy.name for copy in copies] == ["first", "guard"]
    one.ask("Send.")
    one.ask("Again.")
    assert one.root.hooks == [first]
    assert child.hooks == copies
    assert hook.state.place == "gone"
    assert [request.agent for request in cast.asked].count("guard") == 2  # quit, and its verdict
    assert [request.agent for request in cast.asked].count("first") == 2
    assert SENT == ["hello", "hello"]
    with pytest.raises(ToolError, match="quit was not run: guard has left"):
        run(hook.quit())
    before = full_state(one.session)
    assert full_state(one.resume().session) == before
    check_log(one.log)


@pytest.mark.req("S4-31")
def test_quit_is_offered_to_hooks_alone_and_allowed_to_them_alone(tmp_path: Path) -> None:
    """Not to a primary agent, a subagent, nor a hook that took the place of the agent."""

    def takes(request: ModelRequest) -> Any:
        if last(request).role == "tool":
            return "It is mine now."
        return call_message(call("meta", "m"))

    tries = call_message(call("quit", "q"))
    cast = Cast(
        main=lambda request: "Well." if last(request).role == "tool" else tries,
        kim=lambda request: "Well." if last(request).role == "tool" else tries,
        guard=takes,
    )
    one = guarded(tmp_path, cast)
    child = run(one.root.task("kim", "You are Kim."))
    run(child.response("Go."))
    hook = guard(one, points=["response"])
    assert run(Conversation(one.root).say("Go.")) == "It is mine now."
    assert offers(cast.asked[:-1]) == {("main", False), ("kim", False), ("guard", True)}
    assert offers(cast.asked[-1:]) == {("guard", False)}
    for name in ("main", "kim"):
        assert one.result("q", name)["content"].startswith(
            f"Error: {name} may not use a tool 'quit'"
        )
    assert one.select_lines(event_type="agent_moved", place="gone") == []
    for agent in (one.root, child, hook):  # nor by code
        with pytest.raises(InvalidArguments, match="is not a hook"):
            run(agent.quit())
    assert hook.state.place == "primary"
