"""A smart hook whose own turn was stopped: that is its verdict, also after a crash."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from harken import Deny, Hook, HookQuestion, SmartAgent, register_agent_class
from harken.agents.tree.hook_action import new_hook
from harken.core.event_types.spec import HookPoint
from harken.core.verdict import Verdict
from tests.agent_kit import check_log, open_stage, script_model
from tests.unit.agents.crash_kit import cut_after, resume


@register_agent_class("test-denies-answers")
class Denying(Hook):
    """Denies each answer."""

    points: ClassVar[frozenset[HookPoint]] = frozenset({"response"})

    def judge(self, _: HookQuestion) -> Verdict:
        return Deny("think again")


@pytest.mark.req("S4-27")
def test_a_hook_that_was_stopped_just_before_a_crash_is_not_asked_again(tmp_path: Path) -> None:
    model = script_model(main=["Tea.", "Tea!"], smart=["OK"] * 9)
    one = open_stage(tmp_path, model)
    assert isinstance(one.root, SmartAgent)
    smart = new_hook(one.root, "You watch.", points=["input"], tools=[])
    smart.install(one.root, "smart")
    Denying(one.session, runtime=one.runtime).install(smart, "above")
    assert one.ask("Go.") == "Tea."
    kinds = [row["event_type"] for row in one.select_lines()]
    one.session.close()
    later = resume(cut_after(one.log, kinds.index("turn_stopped") + 1), model)
    assert later.ask() == "Tea."
    assert len(later.select_lines(event_type="llm_request", agent_id=later.id_of("smart"))) == 3
    [verdict] = later.select_lines(event_type="hook_verdict", agent_id=later.id_of("smart"))
    assert "stopped" in verdict["failed"]
    check_log(later.log)
