"""`task` with a template: who the subagent is, what it may use, and what is said where it fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harken import AgentRuntime, LocalWorld, ScriptedModel, tool
from harken.agents.runtime import AgentLibrary, ModelSettings
from harken.agents.templates.template import Templates
from harken.core.messages import ToolCall
from harken.errors import ConfigError
from harken.llm.base import ModelRequest
from tests.agent_kit import (
    ScriptModel,
    Stage,
    call,
    call_message,
    check_log,
    open_stage,
    script_model,
)


@tool(reads_only=True)
def read(path: str) -> str:
    """Read a file."""
    return path


@tool
def write(path: str) -> str:
    """Write a file."""
    return path


ANN = call("task", name="Ann", instructions="template:reviewer", prompt="Look!")


def set_up(tmp_path: Path, model: ScriptModel, **more: Any) -> Stage:
    agents = tmp_path / "agents"
    agents.mkdir(exist_ok=True)
    library = AgentLibrary(templates=Templates([agents]))
    more = {"world": LocalWorld([read, write]), "library": library, **more}
    return open_stage(tmp_path, model, runtime=AgentRuntime(model=model, **more))


def with_template(tmp_path: Path, text: str, *made: ToolCall, **more: Any) -> Stage:
    """Let main make what it makes of a template `reviewer`."""
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "reviewer.md").write_text(text)
    model = script_model(main=[call_message(*(made or (ANN,))), "Done."], Ann=["Fine."])
    one = set_up(tmp_path, model, **more)
    one.ask("Go.")
    check_log(one.log)
    return one


@pytest.mark.req("S4-08")
def test_a_template_gives_a_subagent_its_instructions_and_its_birth_says_so(
    tmp_path: Path,
) -> None:
    one = with_template(tmp_path, "---\ndescription: Reviews.\n---\nYou are a reviewer.")
    assert one.result()["content"] == "Fine."
    assert one.agent("Ann").transcript[0]["content"] == "You are a reviewer."
    [birth] = one.select_lines(event_type="agent_created", name="Ann")
    [template] = list(one.runtime.library.templates)
    assert birth["spec"]["template"] == {"name": "reviewer", "hash": template.hash}
    assert birth["language_model"] == "play"
    assert "limits" not in birth["spec"]
    assert one.resume().agent("Ann").state.spec.template == template.origin


@pytest.mark.req("S4-06")
def test_an_edit_of_a_template_counts_for_the_next_subagent(tmp_path: Path) -> None:
    file = tmp_path / "agents" / "reviewer.md"

    @tool
    def edit(text: str) -> str:
        """Edit the template."""
        file.write_text(text)
        return "edited"

    bob = call("task", "c3", name="Bob", instructions="template:reviewer")
    model = script_model(
        main=[
            call_message(ANN),
            call_message(call("edit", "c2", text="new")),
            call_message(bob),
            "Done.",
        ]
    )
    model.answers = {**model.answers, "Ann": ["Fine."]}
    file.parent.mkdir()
    file.write_text("old")
    one = set_up(tmp_path, model, world=LocalWorld([edit]))
    one.ask("Go.")
    prompts = [one.agent(name).transcript[0]["content"] for name in ("Ann", "Bob")]
    assert prompts == ["old", "new"]
    hashes = [row["spec"]["template"]["hash"] for row in one.select_lines(relation="subagent")]
    assert len(set(hashes)) == 2


@pytest.mark.req("S4-06")
def test_an_edit_of_an_instructions_file_counts_for_the_next_subagent(tmp_path: Path) -> None:
    file = tmp_path / "ann.md"

    @tool
    def edit(text: str) -> str:
        """Edit the file."""
        file.write_text(text)
        return "edited"

    ann, bob = (call("task", n, name=n, instructions="file:ann.md") for n in ("Ann", "Bob"))
    model = script_model(
        main=[call_message(ann), call_message(call("edit", text="new")), call_message(bob), "Done."]
    )
    file.write_text("old")
    one = set_up(tmp_path, model, world=LocalWorld([edit], folder=tmp_path))
    one.ask("Go.")
    prompts = [one.agent(name).transcript[0]["content"] for name in ("Ann", "Bob")]
    assert prompts == ["old", "new"]


@pytest.mark.req("S4-05")
def test_a_template_limits_what_its_agent_may_use(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "reviewer.md").write_text("---\ntools: [read]\n---\nHi")
    written = call_message(call("write", path="x"))
    model = script_model(main=[call_message(ANN), "Done."], Ann=[written, "I may not."])
    one = set_up(tmp_path, model)
    one.ask("Go.")
    [asked, *_] = model.requests_of("Ann")
    assert [schema["name"] for schema in asked.tools] == ["read"]
    refused = one.result(agent="Ann")
    assert refused["is_error"]
    assert refused["content"] == "Error: Ann may not use a tool 'write'; it may use: read"
    [birth] = one.select_lines(event_type="agent_created", name="Ann")
    assert birth["spec"]["limits"]["tools"] == ["read"]


@pytest.mark.req("S4-05")
def test_a_template_gives_no_more_than_its_parent_has(tmp_path: Path) -> None:
    file = tmp_path / "agents" / "reviewer.md"
    file.parent.mkdir()
    file.write_text("---\ntools: [read, write, task]\n---\nHi")
    sub = call("task", name="Sub", tools=["read", "task"], prompt="Make Ann.")
    model = script_model(
        main=[call_message(sub), "Done."], Sub=[call_message(ANN), "Made."], Ann=["Fine."]
    )
    one = set_up(tmp_path, model)
    one.ask("Go.")
    [birth] = one.select_lines(event_type="agent_created", name="Ann")
    assert birth["spec"]["limits"]["tools"] == ["read", "task"]


@pytest.mark.req("S4-05")
def test_tools_of_the_call_and_of_the_template_both_limit(tmp_path: Path) -> None:
    both = call("task", name="Ann", instructions="template:reviewer", tools=["write", "read"])
    one = with_template(tmp_path, "---\ntools: [read, task]\n---\nHi", both)
    [birth] = one.select_lines(event_type="agent_created", name="Ann")
    assert birth["spec"]["limits"]["tools"] == ["read"]


def test_a_template_without_tools_makes_an_agent_without_tools(tmp_path: Path) -> None:
    one = with_template(tmp_path, "---\ntools: []\n---\nHi")
    [birth] = one.select_lines(event_type="agent_created", name="Ann")
    assert birth["spec"]["limits"]["tools"] == []


def test_a_template_names_the_model_of_its_agent(tmp_path: Path) -> None:
    other = ScriptedModel([{"answer": "I am another one."}], name="other")
    one = with_template(
        tmp_path, "---\nmodel: other\n---\nHi", models=ModelSettings(resolver=lambda name: other)
    )
    assert one.result()["content"] == "I am another one."
    [birth] = one.select_lines(event_type="agent_created", name="Ann")
    assert birth["language_model"] == "other"


def test_an_agent_is_asked_with_the_parameters_for_its_model(tmp_path: Path) -> None:
    other = ScriptedModel([{"answer": "Hi"}], name="other")
    one = with_template(
        tmp_path,
        "---\nmodel: other\n---\nHi",
        ANN,
        call("task", "c2", name="Bob", tools=[]),
        models=ModelSettings(
            resolver=lambda name: other,
            parameters={"max_tokens": 5, "thinking": True},
            by_model={"other": {"thinking": False}, "play": {"max_tokens": 6}},
        ),
    )
    asked = {
        row["name"]: row["spec"]["parameters"]
        for row in one.select_lines(event_type="agent_created")
    }
    assert asked == {
        "main": {"max_tokens": 6, "thinking": True},
        "Ann": {"max_tokens": 5, "thinking": False},
        "Bob": {"max_tokens": 6, "thinking": True},
    }


def no_models(name: str) -> Any:
    raise ConfigError(f"model {name!r} not found")


BAD = {
    "---\nmodel: gone\n---\nHi": "cannot be used: model 'gone' not found",
    "---\ntools: [Read]\n---\nHi": "template:reviewer: tool 'Read' not found; "
    "existing tools: clone, compact, discuss, ",
    "---\nno end": "reviewer.md: its front matter has no end",
}


@pytest.mark.req("S4-09")
@pytest.mark.parametrize("text", BAD)
def test_a_template_that_cannot_be_used_creates_nobody_and_says_why(
    tmp_path: Path, text: str
) -> None:
    one = with_template(tmp_path, text, models=ModelSettings(resolver=no_models))
    assert one.result()["is_error"]
    assert BAD[text] in one.result()["content"]
    assert list(one.session.agents) == [one.root.agent_id]


@pytest.mark.req("S4-09")
@pytest.mark.parametrize("name", ["", "nobody", "../reviewer", "reviewer.md", "a\nb"])
def test_a_template_that_is_not_there_creates_nobody(tmp_path: Path, name: str) -> None:
    made = call("task", name="Ann", instructions=f"template:{name}")
    one = with_template(tmp_path, "Hi", made)
    assert one.result()["content"].startswith(f"Error: instructions template:{name} cannot be used")
    assert "existing templates: reviewer" in one.result()["content"]
    assert list(one.session.agents) == [one.root.agent_id]


def described(request: ModelRequest) -> str:
    return str(next(one["description"] for one in request.tools if one["name"] == "task"))


def test_models_are_told_which_templates_there_are(tmp_path: Path) -> None:
    one = with_template(tmp_path, "---\ndescription: Reviews.\n---\nYou are a reviewer.")
    model = one.runtime.model
    assert isinstance(model, ScriptModel)
    assert described(model.requests[0]).endswith(
        "`template:NAME`, for one of these kinds of agents:\n- reviewer: Reviews."
    )


def test_a_new_template_is_told_to_new_agents_and_after_a_resume(tmp_path: Path) -> None:
    """What an agent is shown stays while it runs: a prompt that a provider caches begins with it."""
    model = script_model(
        main=[call_message(call("task", name="A", prompt="Hi")), "1", "2", "3"], A=["Hello"]
    )
    one = set_up(tmp_path, model)
    one.ask("Go.")
    (tmp_path / "agents" / "ann.md").write_text("You are Ann.")
    one.ask("Again.")
    resumed = one.resume()
    resumed.ask("And again.")
    told = ["- ann" in described(request) for request in model.requests_of("main")]
    assert told == [False, False, False, True]
    assert len(resumed.select_lines(event_type="tools_defined")) == 2


def test_without_templates_nothing_that_a_model_is_shown_changes(tmp_path: Path) -> None:
    plain = AgentRuntime(model=script_model(main=["1"]))
    with_folder = AgentRuntime(
        model=script_model(main=["1"]), library=AgentLibrary(templates=Templates([tmp_path]))
    )
    hashes = []
    for at, runtime in enumerate((plain, with_folder)):
        folder = tmp_path / str(at)
        folder.mkdir()
        one = open_stage(folder, runtime.model, runtime=runtime)  # type: ignore[arg-type]
        one.ask("Go.")
        [defined] = one.select_lines(event_type="tools_defined")
        hashes.append(defined["tools_hash"])
    assert hashes[0] == hashes[1]
