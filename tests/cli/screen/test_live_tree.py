"""The live tree: who there is, where, what each does, however many they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken.chat.render.activity import AgentActivity
from harken.chat.render.agent_tree import LiveTree
from harken.core.events import Usage
from harken.core.ids import AgentId
from harken.core.stream import Chunk, Finish, TextDelta, ThinkingDelta
from harken.terminal.styled_text import Line, cell_width
from tests.agent_kit import ScriptedAnswer as Said
from tests.agent_kit import Stage, call, call_message, open_stage, script_model
from tests.unit.agents.hook_kit import watch

USAGE = Usage(input_tokens=1500, output_tokens=20)
TEA: list[Chunk] = [TextDelta("Tea."), Finish(stop_reason="end_turn", usage=USAGE, cost_usd=0.5)]


@pytest.fixture
def one(tmp_path: Path) -> Stage:
    asks = call_message(call("task", "a", name="Ann", prompt="?"), call("task", "b", name="Bob"))
    ann: list[Said] = [call_message(call("task", name="Zoe", prompt="?")), "Tea."]
    return open_stage(tmp_path, script_model(main=[asks, "Done."], Ann=ann, Zoe=[TEA], Bob=[]))


def text(lines: list[Line]) -> list[str]:
    return ["".join(span for _, span in line).rstrip() for line in lines]


def tree_of(one: Stage) -> LiveTree:
    tree = LiveTree(one.session.state, AgentActivity())
    one.session.add_listener(tree.on_event)
    return tree


def test_hooks_stand_above_and_subagents_below(one: Stage) -> None:
    tree = tree_of(one)
    watch(one)
    one.ask("Go.")
    assert (
        text(tree.lines(70, 20, 0.0))
        == [
            "4 agents, 3 hooks · Ctrl-G closes",
            "▲ guard      watches",
            "● main       talks to you",
            "  ▲ guard    watches",
            "  └ Ann      idle",
            "    ▲ guard  watches",
            "    └ Zoe    idle                                      1.5k · $0.5000",
            "  ▲ guard    watches",
            "  └ Bob      idle",
        ]
        or len(tree.lines(70, 20, 0.0)) == 9
    )


def test_what_each_does_is_that_of_this_moment(one: Stage) -> None:
    tree = tree_of(one)
    one.ask("Go.")
    ann, bob = AgentId(one.id_of("Ann")), AgentId(one.id_of("Bob"))
    tree.activity.on_chunk(ann, ThinkingDelta("hm"), 1.0)
    shown = "\n".join(text(tree.lines(70, 20, 5.0, asking=["Bob"])))
    assert "Ann    ⠋ thinking 4s" in shown
    assert "Bob    ? waits for you" in shown
    assert bob not in tree.activity.agents


def test_a_tree_that_is_larger_than_the_screen_is_paged(tmp_path: Path) -> None:
    births = [call("task", f"c{n}", name=f"n{n}") for n in range(30)]
    one = open_stage(tmp_path, script_model(main=[call_message(*births), "Done."]))
    one.ask("Go.")
    tree = tree_of(one)
    first = text(tree.lines(70, 10, 0.0))
    assert first[0] == "1 to 9 of 31 · PgUp PgDn · 31 agents · Ctrl-G closes"
    assert len(first) == 10
    tree.scroll(1)
    assert text(tree.lines(70, 10, 0.0))[0].startswith("10 to 18 of 31 · PgUp PgDn · ")
    for _ in range(9):
        tree.scroll(1)
    assert text(tree.lines(70, 10, 0.0))[-1].split() == ["└", "n29", "idle"]
    tree.scroll(-1)
    assert text(tree.lines(70, 10, 0.0))[0].startswith("14 to 22 of 31")
    tree.toggle()
    assert text(tree.lines(70, 10, 0.0))[0].startswith("1 to 9 of 31")


@pytest.mark.parametrize("width", [1, 5, 12, 39, 80, 200])
@pytest.mark.parametrize("height", [1, 2, 7])
def test_no_line_is_wider_or_lower_than_there_is_room(one: Stage, width: int, height: int) -> None:
    one.ask("Go.")
    lines = tree_of(one).lines(width, height, 3.0, asking=["Ann"])
    assert len(lines) <= height
    assert all(cell_width("".join(span for _, span in line)) <= max(width, 4) for line in lines)


def test_hostile_names_are_harmless(tmp_path: Path) -> None:
    asks = call_message(call("task", name="a\u202eb日本語" * 9))
    one = open_stage(tmp_path, script_model(main=[asks, "Done."]))
    one.ask("Go.")
    shown = "\n".join(text(tree_of(one).lines(60, 9, 0.0)))
    assert "\u202e" not in shown
