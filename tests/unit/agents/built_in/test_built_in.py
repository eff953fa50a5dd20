"""What holds for all built-in hooks."""

from pathlib import Path
from typing import Any

import pytest

from harken import AgentRuntime
from harken.agents.hooks.registry import BUILT_IN, get_hook_class
from tests.agent_kit import call, call_message, check_log, full_state
from tests.unit.agents.built_in.built_in import hooked, looks, resumed

SILENT = sorted(BUILT_IN.keys() - {"planning-mode"})


@pytest.mark.parametrize("name", SILENT)
def test_a_hook_with_nothing_to_say_leaves_no_trace_but_its_birth(
    tmp_path: Path, name: str
) -> None:
    acts = call_message(
        call("change", "c0", what="x"), call("todo", "c1", items=[{"text": "look"}])
    )
    one = hooked(tmp_path, name, {"main": [*looks(3), acts, "Done.", "Well."]})
    one.ask("Go.")
    one.ask("And?")
    assert len(one.select_lines(agent_id=one.id_of(name))) == 1
    check_log(one.log)


@pytest.mark.req("S4-27", "S4-29")
@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_a_subagent_gets_a_copy_and_all_is_the_same_after_a_resume(
    tmp_path: Path, name: str
) -> None:
    asks = call_message(call("task", "t", name="Ann", prompt="Look."))
    parts: dict[str, Any] = {"main": [asks, *looks(2), "Done."], "Ann": [*looks(2), "Seen."]}
    one = hooked(tmp_path, name, parts)
    one.ask("Go.")
    [own], [copy] = one.root.hooks, one.root.subagents["Ann"].hooks
    assert (copy._kind, copy.name) == (own._kind, own.name)
    assert copy.agent_id != own.agent_id
    resumed(one)


@pytest.mark.parametrize("name", sorted(BUILT_IN))
@pytest.mark.parametrize("saved", [3, ["x"], {}, {"said": 3, "made": 3, "said_at": "x"}, "told"])
def test_a_state_that_cannot_be_read_is_none(tmp_path: Path, name: str, saved: Any) -> None:
    one = hooked(tmp_path, name, {"main": ["Hello."]})
    hook = one.agent(name)
    hook.load_saved_state(saved)  # type: ignore[attr-defined]
    assert hook.dump_state() is None  # type: ignore[attr-defined]
    assert one.ask("Hi.") == "Hello."


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_every_built_in_hook_has_a_section_in_the_reference(name: str) -> None:
    page = (Path(__file__).parents[4] / "docs/reference/hooks.md").read_text()
    section = page.partition(f"## {name}\n")[2].partition("\n## ")[0]
    assert section, f"docs/reference/hooks.md has no section {name}"
    for option in get_hook_class(name, AgentRuntime()).Options.__struct_fields__:
        assert f"`{option}`" in section, f"{name}: {option} is not described"


def test_a_hook_that_watches_nobody_has_nothing_to_say(tmp_path: Path) -> None:
    one = hooked(tmp_path, "todo-reminder", {"main": ["Hello."]})
    before = full_state(one.session)
    for name in BUILT_IN:
        kind = get_hook_class(name, one.runtime)
        assert kind(one.session).options == kind.Options()
    assert full_state(one.session) == before
