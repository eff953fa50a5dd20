"""The verdict of a smart hook is that of its model: no code of Harken or of the test decides.

The models here are functions of what they read: instructions, questions, notes, messages. None
knows the session: they decide by words that each test makes up, and other words have other effects.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest

from harken import Agent, SessionViewer
from harken.agents.tree.hook_action import new_hook
from harken.agents.tree.hook_file import HookFiles
from harken.core.event_types.spec import HookPoint
from harken.llm.base import ModelRequest
from tests.agent_kit import Stage, call, call_message, check_log, full_state
from tests.unit.agents.smart_hooks import Cast, guarded, is_question, last, texts

_JUDGED = re.compile(r"^(~~~+)\n(.*?)^\1$", re.DOTALL | re.MULTILINE)


def read_question(request: ModelRequest) -> tuple[str, str]:
    """Return the question of a hook, and the judged text in it."""
    question = next(text for text in reversed(texts(request)) if is_question(text))
    return question, [match[2].rstrip("\n") for match in _JUDGED.finditer(question)][-1]


def read_notes(request: ModelRequest) -> list[str]:
    return [text.removeprefix("[note] ") for text in texts(request) if text.startswith("[note] ")]


def install(stage: Stage, name: str, instructions: str, *points: HookPoint) -> Agent:
    root = stage.root
    return new_hook(root, instructions, points=points).install(root, name)


# A monitor of resources.


def search(request: ModelRequest) -> Any:
    """Create as many searchers as the user wants, one after the other."""
    wanted = next(int(text) for text in reversed(texts(request)) if text.isdigit())
    calls = [call for message in request.messages for call in message.tool_calls or ()]
    if len(calls) == wanted:
        return "Done."
    number = len(calls) + 1
    return call_message(call("task", f"c{number}", name=f"Searcher{number}"))


def monitor(request: ModelRequest) -> Any:
    """Allow as many subagents as its instructions say, by its notes."""
    limit = re.search(r"at most (\d+) subagents", texts(request)[0])
    assert limit is not None
    question, judged = read_question(request)
    name = re.search(r'"name": ?"(\w+)"', judged)
    if name is None or "task" not in question:
        return "OK"
    notes = read_notes(request)
    if last(request).role == "tool":
        return f"{name[1]} is number {len(notes) + 1}.\n\nOK"
    if len(notes) >= int(limit[1]):
        return f"DENY: Maximum subagents ({limit[1]}) already reached."
    return call_message(call("keep_note", text=f"{name[1]} was created"))


@pytest.mark.req("S0-53", "S4-21", "S4-25")
@pytest.mark.parametrize("limit", range(4))
def test_example_3_with_a_model_as_the_hook(tmp_path: Path, limit: int) -> None:
    """The limit is in the instructions only. The session is resumed before the last calls."""
    stage = guarded(tmp_path, cast := Cast(main=search, ResourceMonitor=monitor))
    instructions = f"Monitor resource usage: at most {limit} subagents."
    hook = install(stage, "ResourceMonitor", instructions, "action")
    assert stage.ask("2") == "Done."
    stage = stage.resume()
    assert stage.ask("4") == "Done."
    births = stage.select_lines(event_type="agent_created", relation="subagent")
    assert [birth["name"] for birth in births] == [f"Searcher{n + 1}" for n in range(limit)]
    words = f"Maximum subagents ({limit}) already reached."
    for number in range(1, 5):
        [made] = [
            line
            for line in stage.select_lines(role="assistant", agent_id=stage.root.agent_id)
            if f'"Searcher{number}"' in str(line.get("tool_calls"))
        ]
        [question] = [
            line
            for line in stage.select_lines(agent_id=hook.agent_id, role="user", purpose="question")
            if f'"Searcher{number}"' in line["content"]
        ]
        assert question["cause"] == made["message_id"]
        assert any(question["content"] in reading for reading in cast.read_by("ResourceMonitor"))
        if number > limit:
            assert stage.result(f"c{number}")["content"] == (
                f"Error: Action blocked by hook 'ResourceMonitor': {words}"
            )
    denials = stage.select_lines(agent_id=hook.agent_id, content=f"DENY: {words}")
    verdicts = stage.select_lines(event_type="hook_verdict", verdict="deny")
    assert len(denials) == len(verdicts) == 4 - limit
    assert [verdict["said"] for verdict in verdicts] == [row["message_id"] for row in denials]
    check_log(stage.log)
    assert full_state(stage.resume().session) == full_state(stage.session)


# Steel-manning.

VIEWS = [
    ("rewrite it in Rust", "it stops half way without saying so"),
    ("use spaces", "each reader sees the same width"),
    ("ship on Friday", "the users have waited for a month"),
]


def colleague(request: ModelRequest) -> Any:
    """Disagree with the user; when reminded of a view, hear an advocate of it first."""
    message, text = last(request), texts(request)[-1]
    if text.startswith("[hook "):
        view = re.search(r"the case for <(.+)>", text)
        assert view is not None, f"no view in {text}"
        instructions = "You make the strongest case for a view."
        return call_message(
            call("task", name="advocate", instructions=instructions, prompt=f"Why <{view[1]}>?")
        )
    if message.role == "tool":
        return f"You are right that {text}. I would still not, because it costs a week."
    if text.startswith("I think we should "):
        return "No, that is wrong."
    return "Gladly."


def honest(request: ModelRequest) -> Any:
    """Deny an answer that disagrees and does no justice to the view of the user."""
    _, answer = read_question(request)
    is_fair = "You are right that" in answer and "because" in answer
    if is_fair or not re.search(r"\b(no|not|wrong)\b", answer, re.IGNORECASE):
        return "OK"
    if last(request).role != "tool":
        return call_message(call("read_log", last=20))
    views = re.findall(r"I think we should (.+?)\.", texts(request)[-1])
    return f"It is told that it is wrong.\n\nDENY: you did not look at the case for <{views[-1]}>."


def tell(request: ModelRequest) -> str:
    """Give the reason of a view."""
    view = re.search(r"<(.+)>", texts(request)[-1])
    assert view is not None
    return dict(VIEWS)[view[1]]


def steel_man(folder: Path, judge: Any) -> Stage:
    stage = guarded(folder, Cast(main=colleague, toes=judge, advocate=tell))
    HookFiles().create("on-your-toes", stage.root).install(stage.root, "toes")
    return stage


@pytest.mark.req("S1-20", "S4-35", "S4-24")
@pytest.mark.parametrize(("view", "reason"), VIEWS)
def test_model_that_sees_disagreement_makes_the_agent_hear_an_advocate(
    tmp_path: Path, view: str, reason: str
) -> None:
    """The reminder names the view that the hook read; the advocate is created because of it."""
    stage = steel_man(tmp_path, honest)
    assert stage.ask("Please make tea.") == "Gladly."
    assert not stage.select_lines(event_type="agent_created", name="advocate")
    answer = stage.ask(f"I think we should {view}.")
    assert answer == f"You are right that {reason}. I would still not, because it costs a week."
    [birth] = stage.select_lines(event_type="agent_created", name="advocate")
    [reminder] = stage.select_lines(agent_id=stage.root.agent_id, purpose="returned")
    assert reminder["content"].endswith(f"you did not look at the case for <{view}>.")
    [creating] = stage.select_lines(message_id=birth["cause"])
    assert creating["message_id"] > reminder["message_id"]
    assert stage.user_messages("advocate") == [f"Why <{view}>?"]
    [denial] = stage.select_lines(event_type="hook_verdict", verdict="deny")
    [draft] = stage.select_lines(message_id=denial["subject"])
    assert draft["content"] == "No, that is wrong."
    dialog = SessionViewer(stage.log).extract_dialog(["main"])
    assert draft["content"] not in [item["content"] for item in dialog]
    check_log(stage.log)


@pytest.mark.req("S1-20", "S4-35")
@pytest.mark.parametrize("words", ["OK", "It is told that it is wrong.\n\nOK"])
def test_same_disagreement_is_heard_if_the_model_lets_it_through(
    tmp_path: Path, words: str
) -> None:
    stage = steel_man(tmp_path, lambda _: words)
    assert stage.ask(f"I think we should {VIEWS[0][0]}.") == "No, that is wrong."
    assert not stage.select_lines(event_type="agent_created", name="advocate")
    assert not stage.select_lines(event_type="hook_verdict", verdict="deny")


# A limit of discussions.


def discuss(rounds: int) -> Any:
    """Lead some rounds of a discussion with Kim."""

    def lead(request: ModelRequest) -> Any:
        calls = [call for message in request.messages for call in message.tool_calls or ()]
        if not calls:
            return call_message(call("task", "c0", name="Kim", instructions="You argue."))
        if len(calls) > rounds:
            return "Decided."
        return call_message(call("discuss", f"d{len(calls)}", prompt="And now?"))

    return lead


def limiter(request: ModelRequest) -> Any:
    """Compare each round with the notes of earlier rounds; deny a round after two stale ones."""
    question, judged = read_question(request)
    notes = read_notes(request)
    if last(request).role == "tool":
        return "OK"
    if question.startswith("[result]") and judged.startswith("Argument"):
        is_new = not any(note.endswith(f": {judged}") for note in notes)
        return call_message(call("keep_note", text=f"{'new' if is_new else 'stale'}: {judged}"))
    is_stale = [note.startswith("stale") for note in notes[-2:]] == [True, True]
    is_round = question.startswith("[action]") and "discuss" in question
    return "DENY: nobody has a new argument" if is_round and is_stale else "OK"


def count_rounds(arguments: Sequence[str]) -> int:
    """Return the number of rounds that are held: a third one in a row without news is not."""
    is_stale = [argument in arguments[:index] for index, argument in enumerate(arguments)]
    pairs = [*pairwise(is_stale)]
    return pairs.index((True, True)) + 2 if (True, True) in pairs else len(arguments)


@pytest.mark.req("S4-35")
@pytest.mark.parametrize("arguments", [*map("".join, product("ab", repeat=4))])
def test_discussion_ends_when_the_model_reads_nothing_new(tmp_path: Path, arguments: str) -> None:
    says = [f"Argument {letter}." for letter in arguments]
    cast = Cast(
        main=discuss(len(arguments)),
        Kim=lambda request: says[sum(m.role == "assistant" for m in request.messages)],
        limiter=limiter,
    )
    stage = guarded(tmp_path, cast)
    HookFiles().create("discussion-limiter", stage.root).install(stage.root, "limiter")
    assert stage.ask("What do we drink?") == "Decided."
    rounds = count_rounds(says)
    results = [stage.result(f"d{n + 1}")["content"] for n in range(len(arguments))]
    assert results[:rounds] == says[:rounds]
    blocked = "Error: Action blocked by hook 'limiter': nobody has a new argument"
    assert results[rounds:] == [blocked] * (len(arguments) - rounds)
    assert stage.user_messages("Kim") == ["And now?"] * rounds
    check_log(stage.log)
