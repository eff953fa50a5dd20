"""An answer that was cut off before its hooks judged it: they do, each once, wherever that was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harken import (
    AgentRuntime,
    Comment,
    Deny,
    HookQuestion,
    LocalWorld,
    Ok,
    Rewrite,
    SessionViewer,
    load_session,
    register_agent_class,
)
from harken.agents.open_calls import has_open_calls
from harken.agents.runtime import AgentLibrary
from harken.core.event_types.spec import AgentSpec
from harken.core.events import AgentMoved
from harken.core.verdict import Verdict
from harken.experiments.replay.check import check
from tests.agent_kit import (
    LogLine,
    ScriptModel,
    Stage,
    call,
    call_message,
    check_log,
    fast_options,
    full_state,
    open_stage,
    script_model,
)
from tests.session_kit import read_lines
from tests.unit.agents.crash_kit import cut_after
from tests.unit.agents.hook_kit import Judging, watch
from tests.unit.agents.smart_hooks import Cast, always, guard


@register_agent_class("test-commenting")
class Commenting(Judging):
    def judge(self, question: HookQuestion) -> Verdict:
        return Comment("Well.") if question.point == "response" else Ok()


@register_agent_class("test-strict-unjudged")
class Strict(Judging):
    """Says no to each answer that is not among those that it lets through."""

    def judge(self, question: HookQuestion) -> Verdict:
        is_fine = question.point != "response" or "Good" in question.text
        return Ok() if is_fine else Deny("not good")


@register_agent_class("test-redacting")
class Redacting(Judging):
    def judge(self, question: HookQuestion) -> Verdict:
        return Rewrite("[redacted]") if question.point == "response" else Ok()


@register_agent_class("test-seldom")
class Seldom(Judging):
    """Has nothing to say."""

    def should_ask(self, question: HookQuestion) -> bool:
        return False


KINDS = {one._kind: one for one in (Commenting, Strict, Redacting, Seldom)}


def begun(folder: Path, model: Any, *hooks: type[Judging]) -> Stage:
    one = open_stage(
        folder,
        model,
        runtime=AgentRuntime(model=model, world=LocalWorld([]), library=AgentLibrary(kinds=KINDS)),
    )
    for hook in hooks:
        hook(one.session, runtime=one.runtime).install(one.root, hook._kind)
    return one


def resumed(log: Path, one: Stage) -> Stage:
    root, session = load_session(log, runtime=one.runtime, options=fast_options())
    return Stage(root, session, one.runtime)


def answers(one: Stage) -> list[LogLine]:
    own = one.select_lines(role="assistant", agent_id="agent_001")
    return [row for row in own if "cause" not in row]


def judged(one: Stage, hook: str) -> list[Any]:
    """Return the answers on which a hook gave its verdict."""
    verdicts = one.select_lines(
        event_type="hook_verdict", agent_id=one.id_of(hook), point="response"
    )
    return [row["subject"] for row in verdicts]


def cuts(one: Stage) -> range:
    """Return after how many lines an answer, or what comes of it, was logged last."""
    rows = read_lines(one.log)
    first = next(at for at, row in enumerate(rows) if row.get("content") == "Go.")
    return range(first + 1, len(rows) + 1)


@pytest.mark.req("S0-32", "S4-27")
@pytest.mark.parametrize("count", range(5))
def test_a_guard_is_asked_once_about_each_answer_wherever_a_log_is_cut(
    tmp_path: Path, count: int
) -> None:
    """Some answers are denied, then comes one that is not, or the third denial ends the turn."""

    def says(request: Any) -> Any:
        said = sum(one.role == "assistant" for one in request.messages)
        return "Good." if said >= count else f"Bad {said}."

    model = Cast(main=says).model()
    one = begun(tmp_path, model, Commenting, Seldom, Strict, Redacting)
    live = one.ask("Go.")
    assert live == ("[redacted]" if count < 3 else "[stopped] hooks blocked the answer 3 times")
    expected = [row["content"] for row in answers(one)]
    assert not has_open_calls(one.root)
    one.session.close()
    for kept in cuts(one):
        later = resumed(cut_after(one.log, kept), one)
        is_whole = kept == cuts(one)[-1]
        shown = bool(
            later.select_lines(agent_id="user") or later.select_lines(event_type="piece_of_text")
        )
        assert has_open_calls(later.root) is not shown, kept
        assert not (is_whole and has_open_calls(later.root))
        if has_open_calls(later.root):
            assert later.ask() == live, kept
        assert [row["content"] for row in answers(later)] == expected, kept
        ids = [row["message_id"] for row in answers(later)]
        assert judged(later, Commenting._kind) == ids, kept
        assert judged(later, Strict._kind) == ids, kept
        assert judged(later, Redacting._kind) == (ids[-1:] if count < 3 else []), kept
        assert len(later.select_lines(agent_id="user")) == (count < 3), kept
        heard = [text for text in later.user_messages("main") if text.endswith(": Well.")]
        assert len(heard) == len(ids), kept
        assert not has_open_calls(later.root), kept
        before = full_state(later.session)
        later.session.close()
        last = resumed(later.log, one)
        assert full_state(last.session) == before
        assert not has_open_calls(last.root), kept
        last.session.close()
        assert check(SessionViewer(last.log).events).difference is None, kept
        check_log(last.log)


def test_a_smart_guard_is_asked_about_an_answer_that_was_cut_off(tmp_path: Path) -> None:
    model = Cast(main=lambda _: "Done.", guard=always("OK")).model()
    one = begun(tmp_path, model)
    guard(one, points=("response",), spec=AgentSpec(keeps="notes"))
    assert one.ask("Go.") == "Done."
    one.session.close()
    for kept in cuts(one):
        later = resumed(cut_after(one.log, kept), one)
        if has_open_calls(later.root):
            assert later.ask() == "Done."
        [answer] = answers(later)
        verdicts = later.select_lines(role="assistant", agent_id=later.id_of("guard"))
        assert [row["content"] for row in verdicts] == ["OK"], kept
        asked = later.select_lines(role="user", agent_id=later.id_of("guard"))
        assert {row["cause"] for row in asked} == {answer["message_id"]}
        assert not has_open_calls(resumed(later.log, closed(later)).root)


def closed(one: Stage) -> Stage:
    one.session.close()
    return one


def cut_at_answer(one: Stage) -> Path:
    """Cut a log after its last model call: hooks were asked nothing of what came of it."""
    ends = [at for at, row in enumerate(read_lines(one.log)) if row["event_type"] == "llm_response"]
    return cut_after(closed(one).log, ends[-1] + 1)


def test_without_hooks_that_watch_there_an_answer_is_given(tmp_path: Path) -> None:
    for number, hooks in enumerate(([], [Seldom])):
        (tmp_path / str(number)).mkdir()
        one = begun(tmp_path / str(number), script_model(main=["Done."]), *hooks)
        one.ask("Go.")
        assert not has_open_calls(resumed(cut_at_answer(one), one).root)


def test_a_hook_that_came_later_does_not_judge_what_was_said(tmp_path: Path) -> None:
    one = begun(tmp_path, script_model(main=["Done."]))
    one.ask("Go.")
    Strict(one.session, runtime=one.runtime).install(one.root, "late")
    assert not has_open_calls(one.root)
    assert not has_open_calls(resumed(one.log, closed(one)).root)


def test_a_hook_that_failed_has_judged(tmp_path: Path) -> None:
    one = begun(tmp_path, script_model(main=["Bad."] * 9))

    def fails(question: HookQuestion) -> Verdict:
        raise RuntimeError("cannot")

    watch(one, response=fails)
    assert one.ask("Go.") == "[stopped] hooks blocked the answer 3 times"
    assert not has_open_calls(one.root)
    text = "RuntimeError: cannot"
    at = next(n for n, row in enumerate(read_lines(one.log)) if row.get("failed") == text)
    later = resumed(cut_after(closed(one).log, at + 1), one)
    assert has_open_calls(later.root)
    assert later.ask() == "Bad."  # now it does not fail
    heard = [line for line in later.user_messages("main") if "blocked" in line]
    why = "(1 of 3): the hook failed (RuntimeError: cannot)"
    assert heard == [f"[hook guard]: Your response was blocked {why}"]


def test_a_comment_that_reads_like_a_denial_is_none(tmp_path: Path) -> None:
    one = begun(tmp_path, script_model(main=["Done."]))
    watch(one, input=lambda _: Comment("Your response was blocked (3 of 3): no"))
    assert one.ask("Go.") == "Done."


def test_a_guard_that_nobody_registered_lets_no_answer_through(tmp_path: Path) -> None:
    one = begun(tmp_path, script_model(main=["Done."]), Strict)
    one.ask("Go.")
    log = cut_at_answer(one)
    root, session = load_session(
        log, runtime=AgentRuntime(model=ScriptModel({})), options=fast_options()
    )
    assert has_open_calls(root)
    session.close()


def test_an_answer_that_was_judged_is_not_judged_again(tmp_path: Path) -> None:
    one = begun(tmp_path, script_model(main=["Good."]), Strict)
    one.ask("Go.")
    assert one.ask() == "Good."
    later = resumed(one.log, closed(one))
    assert not has_open_calls(later.root)
    assert later.ask() == "Good."
    assert len(judged(later, Strict._kind)) == 1


def test_who_has_changed_places_owes_nothing_of_before(tmp_path: Path) -> None:
    one = begun(
        tmp_path, script_model(main=[call_message(call("task", name="Ann")), "Good."]), Strict
    )
    one.ask("Go.")
    later = resumed(cut_at_answer(one), one)
    main, ann = later.root, later.root.subagents["Ann"]
    assert has_open_calls(main)
    for now, before in ((ann, main), (main, ann)):
        move = AgentMoved(agent_id=now.agent_id, place="primary", cause=main.state.birth)
        move.replaces, move.replaced_as = before.agent_id, "subagent"
        later.session.append(move)
    assert not has_open_calls(main)


def test_an_answer_that_was_given_stays_given_after_a_comment_on_it(tmp_path: Path) -> None:
    one = begun(tmp_path, script_model(main=["One.", "Two."]))
    watch(one, response=lambda _: Comment("Mind."))
    assert one.ask("Go.") == "One."
    assert one.ask() == "One."
    later = one.resume()
    assert not has_open_calls(later.root)
    assert later.ask() == "One."
