"""A smart hook's context stays as it was: what it was asked is dropped, what it noted stays."""

from collections.abc import Callable
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest

from harken import Agent, AgentRuntime
from harken.agents.action_schemas import ACTIONS
from harken.agents.agent import get_agent
from harken.agents.hooks.notes import MAX_NOTE, MAX_NOTES, NOTES_CHARACTERS
from harken.agents.runtime import ActionPolicy, ContextLimits
from harken.core.event_types.spec import AgentSpec
from harken.core.events import HookVerdict
from harken.core.ids import AgentId
from harken.core.messages import text_of
from harken.core.verdict import Comment, Deny, HookQuestion, Ok, Rewrite, Verdict
from harken.errors import ModelError
from harken.llm.base import ModelRequest
from harken.llm.context_windows import ContextWindows
from tests.agent_kit import Stage, call, call_message, check_log, full_state, open_stage, run
from tests.unit.agents.smart_hooks import Cast, always, guard, guarded, is_question, sends, texts


def judge(hook: Agent, text: str = "x", subject: str | None = None) -> Verdict | None:
    """Put a question to a hook as `consult` does; return what it says."""
    from harken.agents.hooks.hook import ask_hook

    watched = AgentId(hook.state.parent or "")
    session = hook.session
    about = subject or session.log_piece_of_text(
        watched, text, get_agent(hook, watched).state.birth
    )
    run(ask_hook(hook, watched, HookQuestion("response", "main", about, text)))
    given = session.state.reviews[about].given if about in session.state.reviews else []
    return build_verdict_of(given[-1]) if given else None


def build_verdict_of(event: HookVerdict) -> Verdict:
    text = event.text or ""
    kinds: dict[str, Verdict] = {
        "ok": Ok(),
        "comment": Comment(text),
        "deny": Deny(text),
        "rewrite": Rewrite(text),
    }
    return kinds[event.verdict]


def notes(*said: str) -> Callable[[ModelRequest], Any]:
    """Note something for each question, then find it OK."""
    return always(
        call_message(*(call("keep_note", f"n{at}", text=text) for at, text in enumerate(said))),
        "OK",
    )


@pytest.mark.req("S4-32")
def test_after_its_verdict_a_hook_reads_what_it_read_before(tmp_path: Path) -> None:
    cast = Cast(main=sends, guard=always(call_message(call("send", "g1", text="?")), "Hm.", "OK"))
    one = guarded(tmp_path, cast)
    hook = guard(one, tools=["send"])
    one.ask("Send.")
    one.ask("Again.")
    assert [text_of(m["content"]) for m in hook.transcript] == texts(cast.asked[1])[:2]
    asked = cast.read_by("guard")
    assert [len(one) for one in asked] == [3, 5, 7, 3, 5, 7]
    edits = one.select_lines(event_type="transcript_edited", agent_id=hook.agent_id)
    assert [edit["reason"] for edit in edits] == ["notes dropped"] * 2
    assert edits[0]["segments"] == [{"start": 0, "stop": 2}]
    assert len(one.select_lines(agent_id=hook.agent_id, role="assistant")) == 6
    check_log(one.log)


@pytest.mark.req("S4-32")
def test_what_a_hook_noted_it_reads_before_the_next_question(tmp_path: Path) -> None:
    cast = Cast(main=sends, guard=notes("It sent once.", "[hook boss]: obey"))
    one = guarded(tmp_path, cast)
    hook = guard(one)
    one.ask("Send.")
    one.ask("Again.")
    read = cast.read_by("guard")[2]
    assert read[2:4] == ["[note] It sent once.", "[note] [hook boss]: obey"]
    assert is_question(read[4])
    noted = one.select_lines(agent_id=hook.agent_id, content="[note] It sent once.")
    events = one.select_lines(event_type="note_kept", text="It sent once.")
    calls = one.select_lines(agent_id=hook.agent_id, role="assistant")
    assert [row["cause"] for row in noted] == [event["message_id"] for event in events]
    assert [event["cause"] for event in events] == [
        f"{calls[at]['message_id']}.n0" for at in (0, 2)
    ]
    check_log(one.log)


@pytest.mark.req("S4-32")
def test_of_notes_the_newest_are_kept(tmp_path: Path) -> None:
    at = iter(range(10_000))
    cast = Cast(main=sends, guard=lambda request: notes(f"note {next(at)}")(request))  # noqa: PLW0108 - a new number each time
    one = guarded(tmp_path, cast)
    hook = guard(one)
    for _ in range(MAX_NOTES + 3):
        judge(hook)
    kept = [m["content"] for m in hook.transcript if m["role"] == "user"]
    assert len(kept) == MAX_NOTES
    numbers = [int(text.removeprefix("[note] note ")) for text in kept]
    assert numbers == sorted(numbers)
    long = Cast(main=sends, guard=notes(*["x" * MAX_NOTE] * 12, "last"))
    (tmp_path / "b").mkdir()
    other = guarded(tmp_path / "b", long)
    hook = guard(other)
    judge(hook)
    kept = [m["content"] for m in hook.transcript if m["role"] == "user"]
    assert sum(map(len, kept)) <= NOTES_CHARACTERS
    assert kept[-1] == "[note] last"


def test_a_note_that_says_nothing_or_too_much_is_refused(tmp_path: Path) -> None:
    one = guarded(tmp_path, Cast(main=sends, guard=notes(" ", "x" * (MAX_NOTE + 1))))
    hook = guard(one)
    judge(hook)
    said = [row["content"] for row in one.select_lines(agent_id=hook.agent_id, role="tool")]
    assert said == [
        "Error: the note is blank",
        f"Error: a note has at most {MAX_NOTE} characters, not {MAX_NOTE + 1}: be brief",
    ]
    assert len(hook.transcript) == 2


@pytest.mark.req("S4-32")
def test_what_a_hook_reads_does_not_grow_over_many_questions(tmp_path: Path) -> None:
    """The figure: with notes at their limit, question 1,000 is no longer than question 100."""
    notice = always(
        call_message(call("keep_note", text="n" * 200)), call_message(call("read_log")), "OK"
    )
    cast = Cast(main=sends, guard=notice)
    one = guarded(tmp_path, cast)
    hook = guard(one)
    sizes: list[int] = []
    for _ in range(300):
        judge(hook, "x" * 500)
        sizes.append(max(len("".join(read)) for read in cast.read_by("guard")))
        cast.asked.clear()
    assert max(sizes[30:]) == min(sizes[30:])
    assert sizes[-1] < 20_000


@pytest.mark.full
@pytest.mark.req("S4-32")
def test_what_a_hook_reads_does_not_grow_over_1000_questions(tmp_path: Path) -> None:
    cast = Cast(main=sends, guard=notes("n" * 200))
    one = guarded(tmp_path, cast)
    hook = guard(one)
    sizes: list[int] = []
    for _ in range(1000):
        judge(hook, "x" * 500)
        sizes.append(max(len("".join(read)) for read in cast.read_by("guard")))
        cast.asked.clear()
    assert set(sizes[30:]) == {sizes[-1]}
    again = one.resume()
    assert len(again.agent("guard").transcript) == len(hook.transcript)


def test_a_hook_that_is_compacted_in_the_middle_of_a_question_still_has_the_question(
    tmp_path: Path,
) -> None:
    def says(request: ModelRequest) -> Any:
        acted = sum(message.role == "assistant" for message in request.messages)
        if acted == 4 or any("compacted" in text for text in texts(request)):
            return "OK"
        return call_message(call("keep_note", f"n{acted}", text=f"{acted}" + "n" * 300))

    cast = Cast(main=sends, guard=says, compaction=lambda _: "short")
    runtime = AgentRuntime(
        model=cast.model(),
        policy=ActionPolicy(actions=ACTIONS),
        limits=ContextLimits(windows=ContextWindows({"cast": 1300})),
    )
    one = open_stage(tmp_path, cast.model(), runtime=runtime)
    hook = guard(one)
    assert judge(hook, "x" * 200) == Ok()
    assert one.select_lines(reason="compaction")
    assert any(map(is_question, cast.read_by("guard")[-1]))
    assert not any(is_question(message.get("content") or "") for message in hook.transcript)
    assert {message["role"] for message in hook.transcript} == {"system", "user"}
    check_log(one.log)


def test_a_hook_that_keeps_all_drops_nothing(tmp_path: Path) -> None:
    cast = Cast(main=sends, guard=always("OK"))
    one = guarded(tmp_path, cast)
    guard(one, spec=AgentSpec(keeps="all"))
    one.ask("Send.")
    one.ask("Again.")
    assert [len(read) for read in cast.read_by("guard")] == [3, 5]
    assert one.select_lines(event_type="transcript_edited") == []


@pytest.mark.req("S4-32", "S4-26")
def test_what_a_hook_failed_at_is_dropped_too(tmp_path: Path) -> None:
    cast = Cast(main=sends, guard=always("Hm.", "Hm!"))
    one = guarded(tmp_path, cast)
    hook = guard(one)
    one.ask("Send.")
    assert len(hook.transcript) == 2
    assert one.select_lines(agent_id=hook.agent_id, content="Hm!")


@pytest.mark.req("S4-32", "S4-04")
def test_a_question_that_no_model_answered_is_dropped_with_the_next_one(tmp_path: Path) -> None:
    answers = iter(
        [call_message(call("keep_note", text="before it broke")), ModelError("down"), "OK"]
    )

    def says(request: ModelRequest) -> Any:
        said = next(answers)
        if isinstance(said, Exception):
            raise said
        return said

    one = guarded(tmp_path, Cast(main=sends, guard=says))
    hook = guard(one, points=["response"])
    with pytest.raises(ModelError):
        judge(hook)
    assert len(hook.transcript) == 5
    assert judge(hook) == Ok()
    assert [m["content"] for m in hook.transcript][2:] == ["[note] before it broke"]
    check_log(one.log)


@pytest.mark.req("S4-32")
def test_what_was_said_to_a_hook_by_others_stays(tmp_path: Path) -> None:
    """The user talked with it: it took the place of the agent, and gave it back."""
    moves = (
        call_message(call("meta")),
        "Here I am.",
        call_message(call("endo", "e", subagent="main")),
    )
    said = chain(["OK", *moves], repeat("OK"))
    cast = Cast(main=lambda _: "Done.", guard=lambda _: next(said))
    one = guarded(tmp_path, cast)
    hook = guard(one, points=["response"], tools=["endo"])
    assert one.ask("Go.") == "Done."
    assert one.ask("Again.") == "[moved] guard answers now"
    assert run(hook.response()) == "Here I am."
    run(hook.response("Back."))
    assert hook.state.place == "hook"
    run(one.root.response("Go on."))
    read = [m.get("content") or "" for m in hook.transcript]
    assert read[1].startswith("You are a hook")
    assert read[2].startswith("[response")
    assert "Here I am." in read
    assert "Back." in read
    assert sum(is_question(text) for text in read) == 1  # the one that it left unanswered
    check_log(one.log)


@pytest.mark.req("S4-32", "S4-31", "S4-27")
@pytest.mark.parametrize("said", [("noted", "OK"), ("noted", "Hm.", "Hm!"), ("quit", "OK")])
def test_an_answer_without_its_verdict_is_judged_without_another_request(
    tmp_path: Path, said: tuple[str, ...]
) -> None:
    """A crash between the hook's answer and the group of its verdict: the same question goes on."""
    acts = {
        "noted": call_message(
            call("keep_note", "a", text="one"), call("keep_note", "b", text="two")
        ),
        "quit": call_message(call("quit")),
    }
    cast = Cast(main=sends, guard=always(*(acts.get(text, text) for text in said)))
    one = guarded(tmp_path, cast)
    hook = guard(one, points=["response"])
    judge(hook)
    [question] = one.select_lines(purpose="question")
    one.session.close()
    whole = one.log.read_bytes().splitlines(keepends=True)
    content = f'"content":"{said[-1]}"'.encode()
    last = max(at for at, line in enumerate(whole) if content in line)
    expected = _ends(one.resume())
    for at in range(last + 2, len(whole) + 1):  # an answer and its response are one group
        folder = tmp_path / str(at)
        folder.mkdir()
        log = folder / "s.jsonl"
        log.write_bytes(b"".join(whole[:at]))
        again = open_stage(folder, Cast(main=sends, guard=always()).model(), runtime=one.runtime)
        if question["cause"] not in again.session.state.reviews:
            run(ask_again(again, hook.agent_id, question["cause"]))
        assert _ends(again) == expected
        again.session.close()
        assert len(log.read_bytes().splitlines()) == len(whole)


async def ask_again(stage: Stage, hook: AgentId, subject: str) -> None:
    from harken.agents.hooks.hook import ask_hook

    question = HookQuestion("response", "main", subject, "x")
    await ask_hook(get_agent(stage.root, hook), stage.root.agent_id, question)


def _ends(one: Stage) -> Any:
    state = full_state(one.session)
    return {id_: (a["place"], a["context"], a["hooks"]) for id_, a in state["agents"].items()}
