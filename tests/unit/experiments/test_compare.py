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


def load_run(scene: Stage, name: str) -> ComparedRun:
    scene.session.close()
    return ComparedRun.of(name, SessionViewer(scene.log).events)


def cafe(folder: Path, lines: list[ScriptedAnswer] = LINES, *questions: str) -> Stage:
    folder.mkdir(exist_ok=True)
    scene = open_stage(folder, script_model(main=lines), tools=[price])
    for text in questions or ("What is tea?", "Thanks."):
        scene.ask(text)
    return scene


def run_again(
    base_run: ComparedRun,
    folder: Path,
    message_ref: str,
    lines: list[ScriptedAnswer],
    change: Change | None = None,
) -> ComparedRun:
    point = ForkPoint.find(
        base_run.name,
        base_run.steps.links,
        message_ref,
        log=folder / base_run.name / "s.jsonl",
    )
    model = script_model(main=lines)
    log = folder / f"{len(list(folder.iterdir()))}.jsonl"
    result = run(
        rerun(
            point, log, change, runtime=AgentRuntime(models=ModelSettings(resolver=lambda _: model))
        )
    )
    return ComparedRun.of(result.log.stem, SessionViewer(result.log).events)


def test_equal_runs_do_not_diverge(tmp_path: Path) -> None:
    first, two = load_run(cafe(tmp_path / "a"), "a"), load_run(cafe(tmp_path / "b"), "b")
    comparison = compare(first, two)
    assert comparison.same
    assert comparison.partings == []
    assert metric_values(comparison.outcome_before)["tool_calls"] == 1
    assert comparison.outcome_after.tools == {"price": 1}
    assert comparison.outcome_after.answer == "Bye."


def test_runs_diverge_at_the_first_different_message(tmp_path: Path) -> None:
    other_lines: list[ScriptedAnswer] = [LINES[0], "4 euros.", "Bye."]
    base_run = load_run(cafe(tmp_path / "a"), "a")
    two = load_run(cafe(tmp_path / "b", other_lines), "b")
    (parting,) = compare(base_run, two).partings
    assert (parting.agent, parting.position, parting.answer) == ("main", 4, 1)
    assert parting.before is not None
    assert (parting.before.heading, parting.before.text) == ("assistant", "3 euros.")
    assert [(span.kind, span.text) for span in parting.spans] == [
        ("dropped", "3"),
        ("added", "4"),
        ("same", " euros."),
    ]


def test_shorter_run_diverges_at_its_end(tmp_path: Path) -> None:
    base_run = load_run(cafe(tmp_path / "a"), "a")
    two = load_run(cafe(tmp_path / "b", LINES, "What is tea?"), "b")
    (parting,) = compare(base_run, two).partings
    assert parting.position == 5
    assert parting.after is None
    assert parting.answer_before == "Bye."
    assert parting.answer_after is None


def test_rerun_is_compared_from_its_start(tmp_path: Path) -> None:
    base_run = load_run(cafe(tmp_path / "a"), "a")
    two = run_again(base_run, tmp_path, "2", [".", "3 euros."])
    comparison = compare(base_run, two)
    (parting,) = comparison.partings
    assert parting.position == 5  # the rerun has no second turn
    assert comparison.outcome_before.tools == comparison.outcome_after.tools == {}
    assert comparison.outcome_before.model_calls == 2
    assert compare(two, base_run).partings[0].position == 5


def test_edit_is_the_divergence_and_the_first_other_answer_is_named(tmp_path: Path) -> None:
    base_run = load_run(cafe(tmp_path / "a"), "a")
    two = run_again(base_run, tmp_path, "3", [".", ".", "See you."], Change(edit=[("#1", "Tea?")]))
    (parting,) = compare(base_run, two).partings
    assert (parting.position, parting.answer) == (1, 3)
    assert (parting.answer_before, parting.answer_after) == ("Bye.", "See you.")


def test_agents_of_one_run_only_are_named(tmp_path: Path) -> None:
    lines: list[ScriptedAnswer] = [
        call_message(call("task", name="Ann", instructions="You are Ann.", prompt="Hi")),
        ".",
    ]
    (tmp_path / "b").mkdir()
    other_scene = open_stage(
        tmp_path / "b", script_model(main=lines, Ann=["Hello."]), tools=[price]
    )
    other_scene.ask("What is tea?")
    comparison = compare(load_run(cafe(tmp_path / "a"), "a"), load_run(other_scene, "b"))
    assert comparison.only_after == ["Ann"]
    assert not comparison.same


def test_errors_are_counted(tmp_path: Path) -> None:
    lines: list[ScriptedAnswer] = [call_message(call("nothing")), "."]
    base_run = load_run(cafe(tmp_path / "a", lines, "Go"), "a")
    assert base_run.outcome.tool_errors == 1


def test_several_runs_are_compared_pairwise(tmp_path: Path) -> None:
    base_run = load_run(cafe(tmp_path / "a"), "a")
    kinds = ["Bye.", "Bye.", "See you."]
    reruns = [run_again(base_run, tmp_path, "3", [".", ".", kind]) for kind in kinds]
    comparison = compare_groups([base_run], reruns)
    assert (comparison.pairs, comparison.same) == (3, 2)
    assert [(place.agent, place.position, place.pairs) for place in comparison.places] == [
        ("main", 6, 1)
    ]
    assert [(a.text, a.before, a.after) for a in comparison.answers] == [
        ("Bye.", 1, 2),
        ("See you.", 0, 1),
    ]
    calls_made = next(metric for metric in comparison.metrics if metric.name == "model_calls")
    assert calls_made.before is not None
    assert (calls_made.before.median, calls_made.after and calls_made.after.max) == (1, 1)
