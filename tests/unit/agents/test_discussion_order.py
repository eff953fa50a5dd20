"""Orders of discussions: who speaks when, when it ends, and what participants are told."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harken import AgentRuntime, Budget, LocalWorld, Ok, Rewrite, SmartAgent
from harken.agents import Discussion
from harken.agents.action_schemas import ACTIONS
from harken.agents.agent import Agent
from harken.agents.runtime import ActionPolicy
from harken.agents.tree.discussions.rounds import RoundRunner
from harken.core.events import DiscussionOpened, DiscussionSpoken
from harken.core.ids import AgentId, MessageId
from harken.errors import ModelError, TurnStopped
from harken.session.folds.discussions import find_due_step
from harken.session.state import Round
from harken.world.ask_user import ask_user
from harken.world.result import InvalidArguments, ToolError
from harken.world.user import UserUnavailable
from tests.agent_kit import (
    ScriptModel,
    Stage,
    call,
    call_message,
    check_log,
    fails_once,
    open_stage,
    run,
    script_model,
)
from tests.unit.agents.crash_kit import cut_after, resume
from tests.unit.agents.discussion_kit import Person
from tests.unit.agents.hook_kit import watch
from tests.unit.agents.tree_kit import people, talk
from tests.unit.world.permissions.user_kit import ScriptedUser

NAMES = ("Ann", "Ben", "Eve", "Zoe")


def stage(folder: Path, *steps: Any, user: Any = None, **parts: Any) -> Stage:
    """Open a session where main creates four agents and then takes these steps."""
    lines = {name: [f"{name} {number}" for number in range(1, 9)] for name in NAMES}
    model = ScriptModel(
        {"main": [people(*NAMES), *map(call_message, steps), "Done."]} | lines | parts
    )
    runtime = AgentRuntime(
        model=model, world=LocalWorld([], user=user), policy=ActionPolicy(actions=ACTIONS)
    )
    return open_stage(folder, model, runtime=runtime)


def discuss(folder: Path, user: Any = None, parts: Any = None, **arguments: Any) -> Stage:
    """Run one discussion to its end."""
    one = stage(folder, talk(**{"prompt": "Talk.", **arguments}), user=user, **(parts or {}))
    assert one.ask("Go.") == "Done."
    check_log(one.log)
    return one


def order(one: Stage) -> list[str]:
    """Return the names of the speakers, in the order in which they spoke."""
    names = {state.id: state.name for state in one.session.agents.values()}
    rows = one.select_lines(event_type="discussion_spoken")
    return [names.get(row["speaker"], row["speaker"]) or "" for row in rows]


def test_each_speaks_once_in_each_round(tmp_path: Path) -> None:
    one = discuss(tmp_path, speakers=["Ben", "Ann"], rounds=2)
    assert order(one) == ["Ben", "Ann", "Ben", "Ann"]
    assert one.result()["content"].startswith(
        "[Ben]: Ben 1\n\n[Ann]: Ann 1\n\n[Ben]: Ben 2\n\n[Ann]"
    )
    assert one.user_messages("Ann")[1:] == ["Talk.", "[Ben]: Ben 1", "[Ben]: Ben 2"]


@pytest.mark.req("S4-50")
def test_participants_are_told_of_each_other_and_of_the_prefix(tmp_path: Path) -> None:
    one = discuss(
        tmp_path,
        speakers=["Ann", "Ben"],
        listeners=["Zoe"],
        rounds=3,
        until="peace",
        order="moderator:Eve",
    )
    notes = [one.user_messages(name)[0] for name in NAMES]
    assert len(set(notes)) == 1
    for part in ("main leads", "Ann, Ben", "Zoe", "`[NAME]: ...`", "3 rounds", "peace", "Eve"):
        assert part in notes[0]


@pytest.mark.req("S4-11")
def test_a_discussion_of_one_round_needs_no_note(tmp_path: Path) -> None:
    one = discuss(tmp_path, speakers=["Ann", "Ben"])
    assert one.user_messages("Ann") == ["Talk.", "[Ben]: Ben 1"]


def test_a_phrase_ends_it_at_once(tmp_path: Path) -> None:
    parts = {"Ann": ["We disagree.", "So: we\nAGREE!"], "Ben": ["No.", "Ben 2"]}
    one = discuss(tmp_path, parts=parts, speakers=["Ann", "Ben"], rounds=5, until="we agree")
    assert order(one) == ["Ann", "Ben", "Ann"]
    assert "2 of 5 rounds: an answer has 'we agree'" in one.result()["content"]


def test_a_judge_is_asked_after_each_round_and_hears_all(tmp_path: Path) -> None:
    judge = ["CONTINUE: Ben owes an answer.", "It is clear now.\n\n**Verdict: DONE**"]
    one = discuss(
        tmp_path,
        parts={"Eve": judge},
        speakers=["Ann", "Ben"],
        rounds=9,
        until="judge:Eve",
    )
    assert order(one) == ["Ann", "Ben"] * 2
    assert one.user_messages("Eve")[1:4] == ["Talk.", "[Ann]: Ann 1", "[Ben]: Ben 1"]
    assert "[Eve, judge]: It is clear now." in one.result()["content"]
    assert not [text for text in one.user_messages("Ann") if "Eve]" in text]
    verdicts = [row["verdict"] for row in one.select_lines(event_type="discussion_judged")]
    assert verdicts == ["continue", "done"]


def test_a_judge_without_a_verdict_is_asked_again_and_then_it_goes_on(tmp_path: Path) -> None:
    parts = {"Eve": ["Hm.", "Hm, hm.", "DONE"]}
    one = discuss(tmp_path, parts=parts, speakers=["Ann"], rounds=4, until="judge:Eve")
    assert order(one) == ["Ann", "Ann"]
    rows = one.select_lines(event_type="discussion_judged")
    assert [row.get("verdict") for row in rows] == [None, "continue", "done"]
    assert ["failed" in row for row in rows] == [True, True, False]


def test_a_moderator_chooses_and_without_a_choice_the_least_heard_speaks(tmp_path: Path) -> None:
    parts = {"Eve": ["Ben", "**Ben**, please", "Ann or Ben?", "nobody", "[ann]:"]}
    one = discuss(tmp_path, parts=parts, speakers=["Ann", "Ben"], rounds=2, order="moderator:Eve")
    assert order(one) == ["Ben", "Ben", "Ann", "Ann"]
    rows = one.select_lines(event_type="discussion_chosen")
    assert ["speaker" in row for row in rows] == [True, True, False, True, True]
    assert ["failed" in row for row in rows] == [False, False, True, True, False]


def test_a_moderator_knows_the_agent_that_took_a_speakers_place(tmp_path: Path) -> None:
    parts = {
        "Ann": [
            call_message(call("task", "k", name="Kid")),
            call_message(call("endo", "e", subagent="Kid", prompt="You speak.")),
            *["OK"] * 9,
        ],
        "Kid": ["Kid 1", "Kid 2"],
        "Eve": ["Ann", "Kid"],
    }
    one = discuss(tmp_path, parts=parts, speakers=["Ann", "Ben"], rounds=1, order="moderator:Eve")
    assert one.result()["content"].startswith("[Kid]: Kid 1\n\n[Kid]: Kid 2\n\n(The")
    requests = [text for text in one.user_messages("Eve") if text.startswith("Who speaks next")]
    assert [text.rpartition(": ")[2] for text in requests] == ["Ann, Ben", "Kid, Ben"]


def test_a_random_order_is_that_of_its_seed(tmp_path: Path) -> None:
    orders = []
    for name, text in (("a", "random:7"), ("b", "random:7"), ("c", "random:8"), ("d", "random")):
        (tmp_path / name).mkdir()
        one = discuss(tmp_path / name, speakers=[*NAMES], rounds=3, order=text)
        orders.append(order(one))
        [opened] = one.select_lines(event_type="discussion_opened", rounds=3)
        assert isinstance(opened["seed"], int)
        rounds = [orders[-1][start : start + 4] for start in (0, 4, 8)]
        assert [sorted(names) for names in rounds] == [[*NAMES]] * 3
        assert all(a != b for a, b in zip(orders[-1], orders[-1][1:], strict=False))
    assert orders[0] == orders[1] != orders[2]


def test_the_format_gives_this_order() -> None:
    """The order that docs/formats/session-log.md defines: any reader computes it from the seed."""
    ids = [AgentId(f"agent_00{number}") for number in (2, 3, 4)]
    current = Round(DiscussionOpened(speakers=ids, rounds=2, seed=7))
    spoken: list[str] = []
    while (step := find_due_step(current)) is not None:
        spoken.append(step.agent_id)
        current.steps.append(
            DiscussionSpoken(
                discussion=MessageId(""),
                speaker=step.agent_id,
                by=step.agent_id,
                said=MessageId(""),
            )
        )
    assert spoken == EXPECTED


EXPECTED = [f"agent_00{number}" for number in (4, 3, 2, 3, 2, 4)]
"""The second round begins with the second of its order: the first one spoke last."""


def test_the_user_speaks_and_reads_what_was_said_since(tmp_path: Path) -> None:
    user = ScriptedUser(["I say tea.", "Still tea."])
    one = discuss(tmp_path, user=user, speakers=["Ann", "user", "Ben"], rounds=2)
    questions = [asked.question for asked in user.questions]
    assert [asked.agent for asked in user.questions] == ["main", "main"]
    assert questions[0].endswith("\n\nTalk.\n\n[Ann]: Ann 1")
    assert questions[1].endswith("\n\n[Ben]: Ben 1\n\n[Ann]: Ann 2")
    assert "[user]: I say tea." in one.user_messages("Ben")
    assert "[user]: I say tea.\n\n[Ben]: Ben 1" in one.result()["content"]
    [said] = one.select_lines(agent_id="user", content="I say tea.")
    assert said["message_id"] in one.result()["cause"]
    assert one.root.state.speakers == [one.id_of("Ann"), one.id_of("Ben")]


def test_a_user_who_does_not_answer_ends_it_with_an_error(tmp_path: Path) -> None:
    user = ScriptedUser([UserUnavailable("nobody answered in 60 s")])
    one = discuss(tmp_path, user=user, speakers=["Ann", "user"], rounds=2)
    result = one.result()
    assert result["is_error"]
    assert "nobody answered in 60 s" in result["content"]
    assert "round 1 of 2. Had spoken: Ann. Had not: user." in result["content"]


def test_an_agent_that_may_not_ask_the_user_may_not_let_them_speak(tmp_path: Path) -> None:
    model = script_model(
        main=[call_message(call("task", "t", name="Ann", tools=["task", "discuss"], prompt="Go."))],
        Ann=[
            call_message(call("task", "t", name="Ben")),
            call_message(talk(prompt="?", speakers=["user", "Ben"])),
            "No.",
        ],
    )
    world = LocalWorld([ask_user], user=Person())
    one = open_stage(tmp_path, model, runtime=AgentRuntime(model=model, world=world))
    one.ask("Go.")
    assert "may not ask the user" in one.result("c1", "Ann")["content"]


ERRORS: list[tuple[dict[str, Any], Sequence[str]]] = [
    ({"rounds": 0}, ["rounds is 0", "1 to 20"]),
    ({"rounds": 21}, ["rounds is 21", "1 to 20"]),
    ({"until": " "}, ["until is blank", "judge:NAME"]),
    ({"order": "alphabetical"}, ["'alphabetical'", "given, random, random:SEED, moderator:NAME"]),
    ({"order": "random:x"}, ["'random:x'", "random:SEED"]),
    ({"order": "moderator:Joe"}, ["moderator 'Joe' not found", "Eve, Zoe"]),
    ({"until": "judge:Joe"}, ["judge 'Joe' not found", "Eve, Zoe"]),
    ({"until": "judge:Ann"}, ["judge 'Ann' is also a speaker", "Eve, Zoe"]),
    ({"order": "moderator:Ben"}, ["moderator 'Ben' is also a speaker", "Eve, Zoe"]),
    ({"until": "judge:user"}, ["the user cannot be the judge", "Eve, Zoe"]),
    ({"speakers": ["Ann", "user"]}, ["no user is available"]),
    ({"speakers": ["Ann", "Joe"]}, ["'Joe' not found", "Ann, Ben, Eve, Zoe"]),
    ({"turns": 3}, ["turns", "rounds, until, order"]),
    ({"rounds": "many"}, ["rounds"]),
]


@pytest.mark.req("S4-14")
@pytest.mark.parametrize(("arguments", "parts"), ERRORS)
def test_a_mistake_is_one_line_that_says_what_exists(
    tmp_path: Path, arguments: dict[str, Any], parts: Sequence[str]
) -> None:
    one = discuss(tmp_path, **{"speakers": ["Ann", "Ben"], **arguments})
    result = one.result()
    assert result["is_error"]
    assert "\n" not in result["content"]
    for part in parts:
        assert part in result["content"]
    assert one.user_messages("Ann") == []
    assert one.select_lines(event_type="discussion_spoken") == []


def test_code_gets_the_answers_and_the_verdict(tmp_path: Path) -> None:
    model = script_model(Ann=["Tea."], Ben=["No: coffee."], Eve=["DONE: tea wins"])
    one = open_stage(tmp_path, model, runtime=AgentRuntime(model=model, world=LocalWorld([])))

    async def debate() -> Discussion[Agent]:
        for name in ("Ann", "Ben", "Eve"):
            await one.root.task(name)
        return await one.root.discuss(
            "Tea?", ["Ann", "Ben"], rounds=3, until="judge:Eve", order="random:1"
        )

    discussion = run(debate())
    assert sorted((reply.name, str(reply.answer)) for reply in discussion) == [
        ("Ann", "Tea."),
        ("Ben", "No: coffee."),
    ]
    assert {reply.agent and reply.agent.name for reply in discussion} == {"Ann", "Ben"}
    assert (len(discussion), len(discussion[:1]), discussion.end) == (2, 1, "judge")
    assert discussion.verdict is not None
    assert discussion.verdict._asdict() == {"verdict": "done", "text": "tea wins", "judge": "Eve"}
    with pytest.raises(InvalidArguments, match="1 to 20"):
        run(one.root.discuss("Tea?", rounds=0))
    with pytest.raises(ToolError, match="no user is available"):
        run(one.root.discuss("Tea?", speakers=["user"]))


def limited(one: Stage, name: str, calls: int) -> None:
    """Create a subagent that may make so many model calls."""
    budget = Budget(model_calls=calls)
    agent = SmartAgent(one.session, f"You are {name}.", runtime=one.runtime, budget=budget)
    run(one.root.task(name, agent=agent))


def test_speakers_whose_turns_are_all_stopped_are_not_asked_again(tmp_path: Path) -> None:
    one = open_stage(tmp_path, script_model())
    for name in ("Ann", "Ben"):
        limited(one, name, 0)
    discussion = run(one.root.discuss("Tea?", ["Ann", "Ben"], rounds=9))
    assert (discussion.end, len(discussion)) == ("stopped", 2)
    assert [reply.answer.stop_reason for reply in discussion] == ["budget", "budget"]


def stopped_talk(folder: Path) -> Stage:
    """Open a discussion whose first speaker is stopped, and whose second one fails at first."""
    model = script_model(
        main=["", "", call_message(talk(prompt="Talk.", speakers=["Ann", "Ben"])), "Done."],
        Ann=[call_message(call("discuss", "x")), "Ann 2"],
        Ben=[fails_once("Ben 1")],
    )
    one = open_stage(folder, model)
    limited(one, "Ann", 1)
    limited(one, "Ben", 9)
    return one


def test_the_answer_of_a_stopped_speaker_is_no_answer_after_a_resume(tmp_path: Path) -> None:
    one = stopped_talk(tmp_path)
    with pytest.raises(ModelError):
        one.ask("Go.")
    later = one.resume()
    [reference] = later.session.state.rounds
    runner = RoundRunner(later.root, reference, later.session.state.rounds[reference])
    discussion = run(runner.run())
    reasons = [reply.answer.stop_reason for reply in discussion]
    assert reasons == ["budget", None]
    assert discussion[0].answer.startswith("[stopped]")


def test_a_speaker_that_was_stopped_just_before_a_crash_is_not_asked_again(tmp_path: Path) -> None:
    one = stopped_talk(tmp_path)
    with pytest.raises(ModelError):
        one.ask("Go.")
    kinds = [row["event_type"] for row in one.select_lines()]
    one.session.close()
    cut = cut_after(one.log, kinds.index("turn_stopped") + 1)
    assert one.runtime.model is not None
    later = resume(cut, one.runtime.model)
    assert later.ask() == "Done."
    assert len(later.select_lines(event_type="turn_stopped")) == 1
    [stopped, answered] = later.select_lines(event_type="discussion_spoken")
    assert (stopped["stopped"], answered.get("stopped")) == ("budget", None)
    assert "[Ann]: [stopped]" in later.result()["content"]
    assert later.user_messages("Ben")[-1].startswith("[Ann]: [stopped]")
    check_log(later.log)


def test_an_agent_that_was_stopped_and_got_an_input_is_asked(tmp_path: Path) -> None:
    one = open_stage(tmp_path, script_model(Ann=["Tea."]))
    limited(one, "Ann", 0)
    with pytest.raises(TurnStopped):
        run(one.agent("Ann").response("Tea?"))
    stop = one.agent("Ann").state.stop
    assert stop is not None
    assert (stop.event.reason, stop.text[:9]) == ("budget", "[stopped]")
    ann = one.resume().agent("Ann")
    assert ann.state.stop == stop
    ann.harken("Please.")
    assert ann.state.stop is None


@pytest.mark.req("S0-32")
def test_another_input_says_how_far_a_discussion_of_rounds_came(tmp_path: Path) -> None:
    one = stage(
        tmp_path,
        talk(prompt="Talk.", speakers=["Ann", "Ben"], rounds=3),
        Ben=["Ben 1", ModelError("x")],
    )
    with pytest.raises(ModelError):
        one.ask("Go.")
    one.ask("Never mind.")
    result = one.result()
    assert result["closed"] == "interrupted"
    assert result["content"].endswith("This was round 2 of 3. Had spoken: Ann. Had not: Ben.")


def test_hooks_judge_the_answers_in_each_round(tmp_path: Path) -> None:
    one = stage(tmp_path, talk(prompt="Talk.", speakers=["Ann", "Ben"], rounds=2, until="peace"))
    watch(one, response=lambda question: Rewrite("Peace.") if question.text == "Ben 1" else Ok())
    assert one.ask("Go.") == "Done."
    assert order(one) == ["Ann", "Ben"]
    assert one.select_lines(event_type="discussion_spoken")[-1]["heard"] == "Peace."
