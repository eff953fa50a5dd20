from __future__ import annotations

from pathlib import Path

from harken import AgentRuntime, SessionViewer
from harken.agents.runtime import ModelSettings
from harken.experiments.change import Change
from harken.experiments.compare import compare, compare_groups, metric_values
from harken.experiments.fork_point import ForkPoint
from harken.experiments.outcome import ComparedRun
from harken.experiments.rerun import rerun
from tests.agent_kit import ScriptedAnswer, Stage, call, call_message, open_stage, run, script_model
from tests.unit.experiments.test_rerun import price

LINES: list[ScriptedAnswer] = [call_message(call("price", drink="tea")), "3 euros.", "Bye."]


def taken(one: Stage, name: str) -> ComparedRun:
    one.session.close()
    return ComparedRun.of(name, SessionViewer(one.log).events)


def cafe(folder: Path, lines: list[ScriptedAnswer] = LINES, *asked: str) -> Stage:
    folder.mkdir(exist_ok=True)
    one = open_stage(folder, script_model(main=lines), tools=[price])
    for text in asked or ("What is tea?", "Thanks."):
        one.ask(text)
    return one


def again(
    one: ComparedRun,
    folder: Path,
    at: str,
    lines: list[ScriptedAnswer],
    change: Change | None = None,
) -> ComparedRun:
    point = ForkPoint.find(one.name, one.steps.links, at)
    model = script_model(main=lines)
    log = folder / f"{len(list(folder.iterdir()))}.jsonl"
    done = run(
        rerun(
            point, log, change, runtime=AgentRuntime(models=ModelSettings(resolver=lambda _: model))
        )
    )
    return ComparedRun.of(done.log.stem, SessionViewer(done.log).events)


def test_equal_runs_do_not_part(tmp_path: Path) -> None:
    one, two = taken(cafe(tmp_path / "a"), "a"), taken(cafe(tmp_path / "b"), "b")
    found = compare(one, two)
    assert found.same
    assert found.partings == []
    assert metric_values(found.outcome_before)["tool_calls"] == 1
    assert found.outcome_after.tools == {"price": 1}
    assert found.outcome_after.answer == "Bye."


def test_runs_part_at_the_first_message_that_differs(tmp_path: Path) -> None:
    other: list[ScriptedAnswer] = [LINES[0], "4 euros.", "Bye."]
    one = taken(cafe(tmp_path / "a"), "a")
    two = taken(cafe(tmp_path / "b", other), "b")
    (parting,) = compare(one, two).partings
    assert (parting.agent, parting.position, parting.answer) == ("main", 4, 1)
    assert parting.before is not None
    assert (parting.before.heading, parting.before.text) == ("assistant", "3 euros.")
    assert [(span.kind, span.text) for span in parting.spans] == [
        ("dropped", "3"),
        ("added", "4"),
        ("same", " euros."),
    ]


def test_a_run_that_ends_sooner_parts_at_its_end(tmp_path: Path) -> None:
    one = taken(cafe(tmp_path / "a"), "a")
    two = taken(cafe(tmp_path / "b", LINES, "What is tea?"), "b")
    (parting,) = compare(one, two).partings
    assert parting.position == 5
    assert parting.after is None
    assert parting.answer_before == "Bye."
    assert parting.answer_after is None


def test_a_rerun_is_compared_from_where_it_left(tmp_path: Path) -> None:
    one = taken(cafe(tmp_path / "a"), "a")
    two = again(one, tmp_path, "2", [".", "3 euros."])
    found = compare(one, two)
    (parting,) = found.partings
    assert parting.position == 5  # the rerun has no second turn
    assert found.outcome_before.tools == found.outcome_after.tools == {}
    assert found.outcome_before.model_calls == 2
    assert compare(two, one).partings[0].position == 5


def test_an_edit_is_where_they_part_and_the_first_other_answer_is_named(tmp_path: Path) -> None:
    one = taken(cafe(tmp_path / "a"), "a")
    two = again(one, tmp_path, "3", [".", ".", "See you."], Change(edit=[("#1", "Tea?")]))
    (parting,) = compare(one, two).partings
    assert (parting.position, parting.answer) == (1, 3)
    assert (parting.answer_before, parting.answer_after) == ("Bye.", "See you.")


def test_agents_that_are_in_one_only_are_named(tmp_path: Path) -> None:
    lines: list[ScriptedAnswer] = [
        call_message(call("task", name="Ann", instructions="You are Ann.", prompt="Hi")),
        ".",
    ]
    (tmp_path / "b").mkdir()
    other = open_stage(tmp_path / "b", script_model(main=lines, Ann=["Hello."]), tools=[price])
    other.ask("What is tea?")
    found = compare(taken(cafe(tmp_path / "a"), "a"), taken(other, "b"))
    assert found.only_after == ["Ann"]
    assert not found.same


def test_errors_are_counted(tmp_path: Path) -> None:
    lines: list[ScriptedAnswer] = [call_message(call("nothing")), "."]
    one = taken(cafe(tmp_path / "a", lines, "Go"), "a")
    assert one.outcome.tool_errors == 1


def test_several_runs_are_compared_each_with_each(tmp_path: Path) -> None:
    one = taken(cafe(tmp_path / "a"), "a")
    kinds = ["Bye.", "Bye.", "See you."]
    reruns = [again(one, tmp_path, "3", [".", ".", kind]) for kind in kinds]
    found = compare_groups([one], reruns)
    assert (found.pairs, found.same) == (3, 2)
    assert [(place.agent, place.position, place.pairs) for place in found.places] == [
        ("main", 6, 1)
    ]
    assert [(a.text, a.before, a.after) for a in found.answers] == [
        ("Bye.", 1, 2),
        ("See you.", 0, 1),
    ]
    calls_made = next(metric for metric in found.metrics if metric.name == "model_calls")
    assert calls_made.before is not None
    assert (calls_made.before.median, calls_made.after and calls_made.after.max) == (1, 1)
