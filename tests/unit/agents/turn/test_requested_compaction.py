"""An agent compacts its own context: after the results of its calls, before its next request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harken import Budget, ModelError, register_agent_class
from harken.agents.action_schemas import ACTIONS
from harken.agents.hooks.hook import Hook
from harken.agents.hooks.notifications import (
    CompactionStarting,
    HookNotification,
    NotificationReply,
)
from harken.agents.texts import NOT_COMPACTED, TOO_SHORT_TO_COMPACT
from harken.core.verdict import Deny, HookQuestion, Ok, Rewrite
from harken.experiments.replay.check import check
from harken.views.viewer import SessionViewer
from tests.agent_kit import call, call_message, check_log, request_texts, select_lines
from tests.unit.agents.compaction_kit import SUMMARY, Scene, Talk, begin, talk
from tests.unit.agents.hook_kit import watch

BOTH = call_message(call("compact", "c1", keep="the colors"), call("look", "c2", n=1))


def scene_of(folder: Path, model: Talk, **how: Any) -> Scene:
    return begin(folder, model, actions=ACTIONS, **how)


@pytest.mark.req("S4-45")
def test_an_agent_compacts_its_context_after_all_results_and_before_its_next_request(
    tmp_path: Path,
) -> None:
    model = talk(main=["one", BOTH, "three"])
    scene = scene_of(tmp_path, model)
    scene.ask("first")
    assert scene.ask("second") == "three"
    [summed] = model.requests_of("compaction")
    assert request_texts(summed)[-1].endswith("keep in particular:\nthe colors")
    last = request_texts(model.requests_of("main")[-1])
    assert any(SUMMARY in text for text in last)
    assert "second" in last
    assert last[-1].startswith("1: kettle")
    assert "one" not in last
    edits = {"event_type": "transcript_edited", "agent_id": scene.stage.id_of("main")}
    assert len(select_lines(scene.stage.log, **edits)) == 1
    assert scene.is_exact()
    check_log(scene.stage.log)


def test_a_context_that_keeps_the_call_is_compacted_once(tmp_path: Path) -> None:
    long = "word " * 4000
    short = call_message(call("compact", "c1"))
    model = talk(main=["one", short, call_message(call("look", "c2")), "four"])
    scene = scene_of(tmp_path, model)
    scene.ask(long)
    assert scene.ask("second") == "four"
    assert len(model.requests_of("compaction")) == 1
    assert any("compact" in str(m.tool_calls) for m in model.requests_of("main")[-1].messages)
    check_log(scene.stage.log)


def test_a_context_that_is_too_short_stays_and_the_agent_is_told(tmp_path: Path) -> None:
    model = talk(main=[call_message(call("compact")), "two"])
    scene = scene_of(tmp_path, model)
    assert scene.ask("word " * 4000) == "two"
    assert request_texts(model.requests_of("main")[-1])[-1] == NOT_COMPACTED.format(
        TOO_SHORT_TO_COMPACT
    )
    assert model.requests_of("compaction") == []
    check_log(scene.stage.log)


def test_a_compaction_whose_model_fails_is_told_and_not_tried_again(tmp_path: Path) -> None:
    model = talk(main=["one", BOTH, "three", "four"], compaction=ModelError("no tea today"))
    scene = scene_of(tmp_path, model)
    scene.ask("first")
    assert scene.ask("second") == "three"
    told = request_texts(model.requests_of("main")[-1])
    assert told[-1] == NOT_COMPACTED.format("no tea today")
    assert "one" in told
    assert scene.ask("third") == "four"
    assert len(model.requests_of("compaction")) == 1
    check_log(scene.stage.log)


def test_a_hook_denies_or_rewrites_the_call(tmp_path: Path) -> None:
    def judge(question: HookQuestion) -> Deny | Rewrite | Ok:
        assert question.call is not None
        if question.call.function.name != "compact":
            return Ok()
        return Deny("not yet") if question.call.id == "c0" else Rewrite('{"keep":"tea"}')

    model = talk(main=["one", call_message(call("compact", "c0", keep="x")), BOTH, "three"])
    scene = scene_of(tmp_path, model)
    watch(scene.stage, action=judge)
    scene.ask("first")
    assert scene.ask("second") == "three"
    [summed] = model.requests_of("compaction")
    assert request_texts(summed)[-1].endswith("keep in particular:\ntea")


def test_a_resume_does_what_was_requested_before_a_crash(tmp_path: Path) -> None:
    model = talk(main=["one", BOTH, "three"])
    scene = scene_of(tmp_path, model)
    scene.ask("first")
    assert scene.ask("second") == "three"
    lines = scene.stage.log.read_bytes().splitlines(keepends=True)
    results = [number for number, line in enumerate(lines) if b'"role":"tool"' in line]
    later = talk(main=["one", "one", "three again"])
    resumed = scene.resumed(later, b"".join(lines[: results[-1] + 1]))
    resumed.ask()
    assert len(later.requests_of("compaction")) == 1
    assert any(SUMMARY in text for text in request_texts(later.requests_of("main")[-1]))
    check_log(resumed.stage.log)


def test_a_budget_ends_the_turn_with_the_context_unchanged(tmp_path: Path) -> None:
    model = talk(main=["one", BOTH, "three"])
    scene = scene_of(tmp_path, model, budget=Budget(model_calls=2))
    scene.ask("first")
    assert "[stopped]" in scene.ask("second")
    assert model.requests_of("compaction") == []
    assert "one" in [text for _, text in scene.context()]


def test_an_agent_without_the_action_cannot_compact(tmp_path: Path) -> None:
    model = talk(main=["one", call_message(call("compact")), "three"])
    scene = begin(tmp_path, model)
    scene.ask("first")
    scene.ask("second")
    assert model.requests_of("compaction") == []
    assert "may not use" in scene.stage.result("c1")["content"]


@register_agent_class("test-keeper")
class Keeper(Hook):
    """Refuses compactions, and remembers what it was notified of."""

    speaks_for_user = False

    def begin(self) -> None:
        self.happenings: list[HookNotification] = []

    def judge(self, question: HookQuestion) -> Ok:
        return Ok()

    async def heed(self, happening: HookNotification) -> NotificationReply | None:
        self.happenings.append(happening)
        return NotificationReply(hook="keeper", refusal="not now")


def test_a_hook_that_refuses_compactions_refuses_it_as_that_of_the_user(tmp_path: Path) -> None:
    model = talk(main=["one", BOTH, "three"])
    scene = scene_of(tmp_path, model)
    keeper = Keeper(scene.stage.session, runtime=scene.stage.runtime).install(scene.root)
    scene.ask("first")
    assert scene.ask("second") == "three"
    assert keeper.happenings == [CompactionStarting(trigger="manual", instructions="the colors")]
    note = NOT_COMPACTED.format("hook keeper refuses the compaction: not now")
    assert request_texts(model.requests_of("main")[-1])[-1] == note
    assert model.requests_of("compaction") == []


def test_a_replay_compacts_at_the_same_position(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, talk(main=["one", BOTH, "three"]))
    scene.ask("first")
    assert scene.ask("second") == "three"
    scene.stage.session.close()
    result = check(SessionViewer(scene.stage.log).events)
    assert (result.difference, result.requests) == (None, 4)
