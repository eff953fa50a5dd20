"""A verdict counts when it is through, and as it is then: live, and wherever a log was cut."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from harken import (
    AgentRuntime,
    Conversation,
    Deny,
    Hook,
    HookQuestion,
    LocalWorld,
    Ok,
    Rewrite,
    Session,
    SessionViewer,
    load_session,
    register_agent_class,
    tool,
)
from harken.agents.action_schemas import ACTIONS
from harken.agents.open_calls import has_open_calls
from harken.agents.runtime import ActionPolicy, AgentLibrary
from harken.core.event_types.spec import AgentSpec
from harken.core.events import TranscriptEntry
from harken.core.ids import AgentId
from harken.core.verdict import Verdict
from harken.llm.base import ModelRequest
from tests.agent_kit import (
    Stage,
    call,
    call_message,
    check_log,
    fast_options,
    full_state,
    open_stage,
    run,
)
from tests.session_kit import read_lines
from tests.unit.agents.crash_kit import cut_after
from tests.unit.agents.smart_hooks import Cast, always, guard, texts

LOOKED: list[str] = []
"""What `look` was run with."""


@tool(idempotent=True)
def look(text: str) -> str:
    """Look."""
    LOOKED.append(text)
    return f"saw {text}"


@register_agent_class("test-censor-opinions")
class Censor(Hook):
    """Watches a hook: some of what that one says is not to be said, some is said otherwise."""

    async def judge(self, question: HookQuestion) -> Verdict:
        if question.point != "response" or "rude" not in question.text:
            is_secret = question.point == "response" and "secret" in question.text
            return Deny("be silent") if is_secret else Ok()
        return Rewrite(question.text.replace("rude", "kind"))


class Leaving(Hook):
    """Says one thing about each action or answer, and leaves with it."""

    def says(self, question: HookQuestion) -> Verdict:
        raise NotImplementedError

    async def judge(self, question: HookQuestion) -> Verdict:
        if question.point not in ("action", "response"):
            return Ok()
        await self.quit()
        return self.says(question)


@register_agent_class("test-denying")
class Denying(Leaving):
    def says(self, question: HookQuestion) -> Verdict:
        return Deny("no")


@register_agent_class("test-changing-opinions")
class Changing(Leaving):
    def says(self, question: HookQuestion) -> Verdict:
        return Rewrite('{"text": "safe"}')


@register_agent_class("test-ending")
class Ending(Leaving):
    def says(self, question: HookQuestion) -> Verdict:
        return Rewrite(f"{question.text} End.")


@register_agent_class("test-beginning")
class Beginning(Hook):
    async def judge(self, question: HookQuestion) -> Verdict:
        return Rewrite(f"Begin. {question.text}") if question.point == "response" else Ok()


@register_agent_class("test-asked")
class Asked(Hook):
    async def judge(self, question: HookQuestion) -> Verdict:
        return Ok()


KINDS = {one._kind: one for one in (Censor, Denying, Changing, Ending, Beginning, Asked)}


def begun(folder: Path, cast: Cast, *hooks: type[Hook]) -> Stage:
    runtime = AgentRuntime(
        model=cast.model(),
        world=LocalWorld([look]),
        policy=ActionPolicy(actions=ACTIONS),
        library=AgentLibrary(kinds=KINDS),
    )
    one = open_stage(folder, cast.model(), runtime=runtime)
    for hook in hooks:
        hook(one.session, runtime=runtime).install(one.root, hook._kind)
    return one


def done(_: ModelRequest) -> str:
    return "Done."


def looks(request: ModelRequest) -> Any:
    is_asked = request.messages[-1].role == "user"
    return call_message(call("look", "c1", text="x")) if is_asked else "Done."


def check_cuts(
    one: Stage,
    outcome: Callable[[Stage], Any],
    last: Callable[[Any], bool],
    in_memory: int | None = None,
) -> None:
    """Cut the log after each line up to the last that fits: what comes of it is the same."""
    expected = outcome(one)
    one.session.close()
    rows = read_lines(one.log)
    first = next(at for at, row in enumerate(rows) if row.get("content") == "Go.")
    end = max(at for at, row in enumerate(rows) if last(row))
    for kept in range(first + 1, end + 1):
        LOOKED.clear()
        few = replace(fast_options(), in_memory=in_memory)
        root, session = load_session(cut_after(one.log, kept), runtime=one.runtime, options=few)
        later = Stage(root, session, one.runtime)
        assert has_open_calls(root), kept
        later.ask()
        assert outcome(later) == expected, kept
        before = full_state(later.session)
        again = later.resume()
        assert full_state(again.session) == before, kept
        again.session.close()
        check_log(later.log)


@pytest.mark.req("S0-20", "S4-24")
@pytest.mark.parametrize("keeps", ["notes", "all"])
@pytest.mark.parametrize("point", ["input", "response"])
@pytest.mark.parametrize(
    ("says", "heard"), [("COMMENT: a secret", []), ("COMMENT: rude", ["[hook guard]: kind"])]
)
def test_what_hooks_of_a_hook_make_of_its_words_is_what_counts(
    tmp_path: Path, keeps: Literal["notes", "all"], point: Any, says: str, heard: list[str]
) -> None:
    one = begun(tmp_path, Cast(main=done, guard=always(says, "OK")))
    watching = guard(one, points=(point,), spec=AgentSpec(keeps=keeps))
    Censor(one.session, runtime=one.runtime).install(watching, "censor")
    Asked(one.session, runtime=one.runtime).install(one.root, "last")
    assert one.ask("Go.") == "Done."

    def outcome(later: Stage) -> Any:
        return [text for text in later.user_messages("main") if text != "Go."]

    assert outcome(one) == heard
    last = one.select_lines(event_type="hook_verdict", agent_id=one.id_of("last"))[-1]
    check_cuts(one, outcome, lambda row: row["message_id"] == last["message_id"])


def test_a_guard_lets_no_answer_through_while_its_own_hooks_judge_that(tmp_path: Path) -> None:
    def judges(request: ModelRequest) -> str:
        question = next(text for text in reversed(texts(request)) if text.startswith("[response]"))
        if "Better." in question:
            return "OK"
        return always("OK, the secret is out.\nOK", "DENY: no")(request)  # type: ignore[no-any-return]

    def answers(request: ModelRequest) -> str:
        return "Better." if "blocked" in texts(request)[-1] else "Done."

    one = begun(tmp_path, Cast(main=answers, guard=judges))
    watching = guard(one, points=("response",))
    Censor(one.session, runtime=one.runtime).install(watching, "censor")
    assert one.ask("Go.") == "Better."

    def outcome(later: Stage) -> Any:
        own = later.select_lines(role="assistant", agent_id=later.root.agent_id)
        return [row["content"] for row in own], later.user_messages("main")

    check_cuts(one, outcome, lambda row: row.get("content") == "Better.")


def test_what_a_user_is_shown_is_what_hooks_of_a_hook_made_of_its_words(tmp_path: Path) -> None:
    one = begun(tmp_path, Cast(main=done, guard=always("REWRITE: rude")))
    watching = guard(one, points=("response",))
    Censor(one.session, runtime=one.runtime).install(watching, "censor")
    assert one.ask("Go.") == "kind"

    def outcome(later: Stage) -> Any:
        return [row["content"] for row in later.select_lines(agent_id="user")]

    assert outcome(one) == ["kind"]
    check_cuts(one, outcome, lambda row: row.get("agent_id") == "user")


@pytest.mark.req("S4-23", "S4-31", "S0-20")
@pytest.mark.parametrize("in_memory", [1, None])
@pytest.mark.parametrize(("hook", "ran"), [(Denying, []), (Changing, ["safe"])])
def test_what_a_hook_said_of_a_call_holds_also_where_it_has_left(
    tmp_path: Path, hook: type[Hook], ran: list[str], in_memory: int | None
) -> None:
    LOOKED.clear()
    one = begun(tmp_path, Cast(main=looks), hook)
    one.ask("Go.")

    def outcome(later: Stage) -> Any:
        assert ran == LOOKED
        return later.result()["content"], later.agent(hook._kind).state.place

    check_cuts(one, outcome, lambda row: row.get("role") == "tool", in_memory)


def test_rewrites_follow_each_other_also_where_the_last_has_left(tmp_path: Path) -> None:
    one = begun(tmp_path, Cast(main=done), Beginning, Ending)
    assert one.ask("Go.") == "Begin. Done. End."

    def outcome(later: Stage) -> Any:
        return [row["content"] for row in later.select_lines(agent_id="user")]

    check_cuts(one, outcome, lambda row: row.get("agent_id") == "user")


def test_a_word_that_is_none_there_stops_nobody_from_being_asked(tmp_path: Path) -> None:
    """A denial of an input, cut off before the hook is asked again."""
    one = begun(tmp_path, Cast(main=done, guard=always("DENY: no", "OK")))
    guard(one, points=("input",), spec=AgentSpec(keeps="notes"))
    Asked(one.session, runtime=one.runtime).install(one.root, "last")
    one.ask("Go.")

    def outcome(later: Stage) -> Any:
        verdicts = later.select_lines(event_type="hook_verdict", agent_id=later.id_of("last"))
        return [row["point"] for row in verdicts]

    assert len(outcome(one)) == 2
    check_cuts(one, outcome, lambda row: row.get("content") == "Done.")


@pytest.mark.parametrize("keeps", ["notes", "all"])
def test_denials_of_what_a_hook_says_are_counted_for_each_question(
    tmp_path: Path, keeps: Literal["notes", "all"]
) -> None:
    one = begun(tmp_path, Cast(main=done, guard=always("COMMENT: a secret", "OK")))
    watching = guard(one, points=("input",), spec=AgentSpec(keeps=keeps))
    Censor(one.session, runtime=one.runtime).install(watching, "censor")
    for _ in range(4):
        one.ask("Go.")
    blocked = [text for text in one.user_messages("guard") if "blocked" in text]
    assert blocked == ["[hook censor]: Your response was blocked (1 of 3): be silent"] * 4


def test_what_a_hook_said_of_one_call_is_no_verdict_on_another(tmp_path: Path) -> None:
    """What it said of the first was not through when it was cut off; that call is never run."""

    def judges(request: ModelRequest) -> str:
        return "OK" if '"first"' in texts(request)[-1] else "DENY: not the second"

    def acts(request: ModelRequest) -> Any:
        at = sum(one.role == "tool" for one in request.messages)
        made = [call("send", "c0", text="first"), call("look", "c1", text="second")]
        return call_message(made[at]) if at < 2 else "Done."

    one = begun(tmp_path, Cast(main=acts, guard=judges))
    watching = guard(one, points=("action",), spec=AgentSpec(keeps="all"))
    Censor(one.session, runtime=one.runtime).install(watching, "censor")
    one.ask("Go.")
    one.session.close()
    said = next(at for at, row in enumerate(read_lines(one.log)) if row.get("content") == "OK")
    LOOKED.clear()
    cut = cut_after(one.log, said + 1)
    root, session = load_session(cut, runtime=one.runtime, options=fast_options())
    later = Stage(root, session, one.runtime)
    later.ask()
    assert later.result("c1")["content"].endswith("'guard': not the second")
    assert LOOKED == []


def test_the_result_of_a_move_is_judged_once_after_a_crash(tmp_path: Path) -> None:
    """The move and its result are one group, so there is always a result to judge."""
    one = begun(tmp_path, Cast(main=done, guard=always(call_message(call("meta")), "Hello.")))
    Asked(one.session, runtime=one.runtime).install(guard(one, points=("input",)), "last")
    run(Conversation(one.root).say("Go."))
    one.session.close()
    moved = next(
        at for at, row in enumerate(read_lines(one.log)) if row["event_type"] == "turn_stopped"
    )
    cut = cut_after(one.log, moved + 1)
    root, session = load_session(cut, runtime=one.runtime, options=fast_options())
    later = Stage(root, session, one.runtime)
    assert run(Conversation(root).say()) == "Hello."
    asked = [
        message["content"]
        for message in SessionViewer(later.log).get_transcript("last")
        if message["role"] == "user"
    ]
    [question] = [text for text in asked if text.startswith("[result]")]
    assert "You have taken the place of main" in question


def test_a_hook_whose_words_were_cut_off_has_not_left(tmp_path: Path) -> None:
    """It called `quit`; what had arrived of its verdict looks like one."""
    one = begun(tmp_path, Cast(main=done, guard=always(call_message(call("quit")), "OK")))
    guard(one, points=("input",), spec=AgentSpec(keeps="notes"))
    one.ask("Go.")
    watching = AgentId(one.id_of("guard"))
    one.session.close()
    requests = [
        (at, row["message_id"])
        for at, row in enumerate(read_lines(one.log))
        if row["event_type"] == "llm_request" and row["agent_id"] == watching
    ]
    at, request = requests[-1]
    cut = cut_after(one.log, at + 1)
    with Session(cut, options=fast_options()) as session:
        said = TranscriptEntry(agent_id=watching, role="assistant", content="OK", cause=request)
        session.append(said)
    _, session = load_session(cut, runtime=one.runtime, options=fast_options())
    assert session.agents[watching].place == "hook"
    session.close()
