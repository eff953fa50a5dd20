"""An agent in the middle of a turn."""

import asyncio
from pathlib import Path

import pytest

from harken import tool
from harken.errors import AgentBusy
from tests.agent_kit import (
    call,
    call_message,
    check_log,
    open_stage,
    run,
    script_model,
)


@pytest.mark.req("S0-38", "S0-39")
def test_an_agent_in_the_middle_of_a_turn_says_so_and_is_not_disturbed(tmp_path: Path) -> None:
    acting, go_on = asyncio.Event(), asyncio.Event()

    @tool
    async def work() -> str:
        """Work."""
        acting.set()
        await go_on.wait()
        return "worked"

    one = open_stage(
        tmp_path, script_model(main=[call_message(call("work")), "Done.", "Yes?"]), tools=[work]
    )

    async def disturbed() -> str:
        turn = asyncio.create_task(one.root.response("Work."))
        await acting.wait()
        with pytest.raises(AgentBusy, match="main is in a turn"):
            one.root.harken("Hurry!")
        with pytest.raises(AgentBusy, match="main is in a turn"):
            await one.root.response("Hurry!")
        go_on.set()
        return await turn

    assert run(disturbed()) == "Done."
    assert one.result()["content"] == "worked"
    assert one.user_messages("main") == ["Work."]
    assert one.ask("Hurry!") == "Yes?"
    check_log(one.log)
