"""An agent chooses the model of a subagent or a hook, among those that it may pass on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harken import Agent, AgentRuntime, SmartAgent, register_agent_class
from harken.agents.action_schemas import ACTIONS
from harken.agents.runtime import ActionPolicy, AgentLibrary, ModelSettings
from harken.agents.templates.template import Templates
from harken.agents.tree.registry import RUN
from harken.agents.tree.user_command import run_user_command
from harken.errors import ConfigError
from harken.experiments.replay.check import check
from harken.llm.base import Model
from harken.views.viewer import SessionViewer
from harken.world.result import InvalidArguments
from tests.agent_kit import (
    ScriptedAnswer,
    ScriptModel,
    Stage,
    call,
    call_message,
    check_log,
    open_stage,
    run,
)
from tests.unit.agents.test_dumb_agent import Echo

NAMES = ("lab/small", "lab/large", "lab/secret", "lab/odd")


@register_agent_class("test-own-smart")
class OwnSmart(SmartAgent):
    """A smart agent of a program."""


def choosing(
    folder: Path,
    *steps: ScriptedAnswer,
    allowed: Sequence[str] | None = ("lab/small", "lab/broken"),
    by_model: dict[str, dict[str, Any]] | None = None,
    **parts: Sequence[ScriptedAnswer],
) -> Stage:
    """Return a stage whose main has the model `lab/large`."""
    answers = {"main": [*steps, "Done.", "Again."], **parts}
    models = {name: ScriptModel(answers, name) for name in NAMES}

    def resolve(name: str) -> Model:
        if name not in models:
            raise ConfigError(f"{name}: no key")
        return models[name]

    (folder / "agents").mkdir()
    (folder / "agents/spy.md").write_text("---\nmodel: lab/secret\n---\nYou spy.")
    settings = ModelSettings(resolver=resolve, by_model=by_model or {}, allowed=allowed)
    runtime = AgentRuntime(
        model=models["lab/large"],
        models=settings,
        policy=ActionPolicy(actions=ACTIONS),
        library=AgentLibrary(templates=Templates([folder / "agents"])),
    )
    return open_stage(folder, models["lab/large"], runtime=runtime)


def task(name: str, model: str | None = None, /, _id: str = "c1", **more: Any) -> ScriptedAnswer:
    arguments = {"name": name, "instructions": f"You are {name}.", "model": model, **more}
    return call_message(call("task", _id, **{k: v for k, v in arguments.items() if v is not None}))


def model_of(one: Stage, name: str) -> str | None:
    return one.agent(name).state.language_model


def refusal(name: str, *models: str) -> str:
    return f"you have no model {name!r} to pass on; your models: {', '.join(models)}"


@pytest.mark.req("S4-08")
def test_a_subagent_gets_an_allowed_model_with_its_parameters(tmp_path: Path) -> None:
    asked = task("Ann", "lab/small", prompt="Tea?")
    parameters = {"lab/small": {"max_tokens": 100}}
    one = choosing(tmp_path, asked, task("Ben", _id="c2"), by_model=parameters, Ann=["Tea."])
    one.ask("Go.")
    assert (model_of(one, "Ann"), model_of(one, "Ben")) == ("lab/small", "lab/large")
    assert one.agent("Ann").state.spec.parameters == {"max_tokens": 100}
    [request] = one.select_lines(event_type="llm_request", agent_id=one.id_of("Ann"))
    assert request["model"] == "lab/small"
    assert model_of(one.resume(), "Ann") == "lab/small"
    check_log(one.log)


@pytest.mark.req("S4-30")
def test_a_hook_gets_an_allowed_model(tmp_path: Path) -> None:
    made = call_message(
        call("hook", "c1", name="tone", instructions="Watch.", model="lab/small"),
        call("hook", "c2", name="bad", instructions="Watch.", model="lab/secret"),
        call("hook", "c3", name="named", instructions="hook:x", model="lab/small"),
    )
    one = choosing(tmp_path, made, tone=["OK"] * 9)
    one.ask("Go.")
    assert model_of(one, "tone") == "lab/small"
    assert (
        refusal("lab/secret", "lab/large", "lab/small", "lab/broken") in one.result("c2")["content"]
    )
    assert "defined by hook:x" in one.result("c3")["content"]
    assert [hook.name for hook in one.root.hooks] == ["tone"]


@pytest.mark.req("S4-08")
def test_a_refused_model_is_one_error_that_names_the_allowed_ones(tmp_path: Path) -> None:
    one = choosing(tmp_path, task("Ann", "lab/secret"), task("Ben", "lab/broken", _id="c2"))
    one.ask("Go.")
    why = refusal("lab/secret", "lab/large", "lab/small", "lab/broken")
    assert one.result()["content"] == f"Error: {why}"
    assert "model 'lab/broken' cannot be used: lab/broken: no key" in one.result("c2")["content"]
    assert not one.root.subagents
    check_log(one.log)


def test_a_subagent_passes_on_its_own_model_which_its_parent_may_not(tmp_path: Path) -> None:
    one = choosing(
        tmp_path,
        task("Spy", instructions="template:spy", prompt="Go."),
        task("Ann", "lab/secret", _id="c2"),
        task("Cat", "lab/small", _id="c3", prompt="Go."),
        Spy=[task("Aide", "lab/secret"), "Done."],
        Cat=[task("Kit", "lab/large"), "Done."],
    )
    one.ask("Go.")
    assert (model_of(one, "Spy"), model_of(one, "Aide")) == ("lab/secret", "lab/secret")
    assert (
        refusal("lab/secret", "lab/large", "lab/small", "lab/broken") in one.result("c2")["content"]
    )
    assert refusal("lab/large", "lab/small", "lab/broken") in one.result(agent="Cat")["content"]


def test_a_chosen_model_precedes_that_of_the_template(tmp_path: Path) -> None:
    one = choosing(tmp_path, task("Spy", "lab/small", instructions="template:spy"))
    one.ask("Go.")
    assert model_of(one, "Spy") == "lab/small"


@pytest.mark.parametrize(
    ("allowed", "by_model", "models"),
    [
        ((), {"lab/small": {}}, ["lab/large"]),
        (None, {}, ["lab/large"]),
        (None, {"lab/odd": {}, "lab/*": {}}, ["lab/large", "lab/odd"]),
    ],
)
def test_by_default_the_models_of_the_configuration_are_allowed(
    tmp_path: Path, allowed: tuple[str, ...] | None, by_model: dict[str, Any], models: list[str]
) -> None:
    one = choosing(tmp_path, task("Ann", "lab/none"), allowed=allowed, by_model=by_model)
    one.ask("Go.")
    assert refusal("lab/none", *models) in one.result()["content"]


def test_code_chooses_a_model_within_the_same_limits(tmp_path: Path) -> None:
    one = choosing(tmp_path, tone=["OK"] * 9)
    root = one.root
    assert run(root.task("Ann", "You.", model="lab/small")).state.language_model == "lab/small"
    assert run(root.hook("tone", "Watch.", model="lab/small")).state.language_model == "lab/small"
    own = run(root.task("Own", "You.", model="lab/small", agent=OwnSmart))
    assert (type(own), own.state.language_model) == (OwnSmart, "lab/small")
    with pytest.raises(InvalidArguments, match="you have no model 'lab/secret' to pass on"):
        run(root.task("Ben", "You.", model="lab/secret"))
    check_log(one.log)


def test_an_agent_of_the_program_has_its_own_model(tmp_path: Path) -> None:
    one = choosing(tmp_path)
    made = SmartAgent(one.session, "You.", runtime=one.runtime)
    for agent in (made, Echo):
        with pytest.raises(TypeError, match="has its own model, or none"):
            run(one.root.task("Ann", model="lab/small", agent=agent))
    with pytest.raises(TypeError, match="points, tools and model"):
        run(one.root.hook("tone", model="lab/small", agent=made))


def test_the_user_may_name_any_model(tmp_path: Path) -> None:
    one = choosing(tmp_path)
    arguments = ACTIONS["task"].check({"name": "Ann", "instructions": "x", "model": "lab/secret"})

    async def command(agent: Agent, reference: str) -> Any:
        return await RUN["task"](agent, reference, arguments)

    result = run(run_user_command(one.root, "/task Ann x model=lab/secret", command))
    assert not result.is_error
    assert model_of(one, "Ann") == "lab/secret"


def test_a_replay_creates_agents_with_the_chosen_models(tmp_path: Path) -> None:
    one = choosing(tmp_path, task("Ann", "lab/small", prompt="Tea?"), Ann=["Tea."])
    one.ask("Go.")
    one.session.close()
    result = check(SessionViewer(one.log).events)
    assert result.difference is None, (result.difference, result.notes)
