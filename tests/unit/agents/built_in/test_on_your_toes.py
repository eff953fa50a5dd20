"""The built-in smart hook `on-your-toes`: a disagreement is well founded before the user hears it."""

from pathlib import Path
from typing import Any

import pytest

from harken.agents.hooks.hook import hook_points
from harken.agents.tree.hook_file import HookFiles
from harken.llm.base import ModelRequest
from tests.agent_kit import call, call_message, check_log
from tests.unit.agents.smart_hooks import Cast, guarded, last, texts
from tests.unit.agents.tree.test_hook_action import then

BARE = "No, that is wrong: use tabs."
FAIR = (
    "You want one width for everybody, and spaces give that. Still: with tabs each reader chooses."
)


def toes(request: ModelRequest) -> Any:
    """Follow what the file says: look at what was said, and deny a bare no."""
    question = texts(request)[-1]
    if last(request).role == "tool":
        return "It is told that it is wrong, without its reasons.\nDENY: the case for spaces is missing"
    return call_message(call("read_log", last=3)) if BARE in question else "OK"


@pytest.mark.req("S4-24")
def test_a_bare_disagreement_is_sent_back_and_a_fair_one_is_heard(tmp_path: Path) -> None:
    one = guarded(tmp_path, cast := Cast(main=then(BARE, FAIR, "Four."), toes=toes))
    hook = HookFiles().create("on-your-toes", one.root).install(one.root, "toes")
    assert one.ask("Spaces are best.") == FAIR
    [back] = one.select_lines(agent_id=one.root.agent_id, role="user")[1:]
    assert back["content"].endswith("the case for spaces is missing")
    assert one.ask("Two and two?") == "Four."
    assert "steel" not in "".join(texts(cast.asked[0]))
    assert cast.read_by("toes")[0][0].startswith(
        "You keep the agent honest when it is about to dis"
    )
    assert "Spaces are best." in cast.read_by("toes")[1][-1]
    assert [m["role"] for m in hook.transcript] == ["system", "system"]
    assert hook_points(hook) == {"response"}
    check_log(one.log)
