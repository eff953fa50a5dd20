"""A session in which code called actions is played again, by its own classes or by stand-ins."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from harken import (
    Agent,
    Budget,
    Comment,
    Deny,
    DumbAgent,
    Hook,
    Ok,
    SessionViewer,
    SmartAgent,
    load_session,
    register_agent_class,
)
from harken.agents.agent_classes import registered_name
from harken.agents.hooks.options import HookOptions
from harken.agents.open_calls import has_open_calls
from harken.experiments.replay.check import check
from harken.experiments.replay.player import ReplayExtras
from harken.world.result import InvalidArguments, ToolError
from tests.agent_kit import (
    Stage,
    call,
    call_message,
    fast_options,
    open_stage,
    run,
    script_model,
)
from tests.session_kit import read_lines
from tests.unit.agents.crash_kit import cut_after
from tests.unit.agents.hook_kit import Judging, send, watch

PARTS = {name: [f"{name} {n}." for n in range(1, 9)] for name in ("Ada", "Ben", "Eve", "Zoe")}


@register_agent_class("test-replayed-troupe")
class Troupe(DumbAgent):
    """Creates two agents at once, lets them talk, copies one and ends another."""

    async def answer(self, input: str) -> str:
        await asyncio.gather(self.task("Ada", "You are Ada.", prompt="Hi?"), self.task("Ben"))
        replies = await self.discuss(input, speakers=["Ada", "Ben"])
        await self.clone("Ada", as_name="Eve")
        await self.terminate("Ben")
        return " ".join(reply.answer for reply in replies)


@register_agent_class("test-replayed-asking")
class Asking(Hook):
    """Asks an agent of its own before its verdict, once, and leaves."""

    points = frozenset({"response"})

    async def judge(self, question: Any) -> Comment:
        _, answer = await self.task("Eve", "Advise.", prompt="May it?")
        await self.quit()
        return Comment(str(answer))


class GuardOptions(HookOptions, frozen=True):
    word: str = "strict"


@register_agent_class("test-replayed-guard")
class Guarding(Hook):
    """Comments on each input with a word from its options."""

    Options = GuardOptions
    options: GuardOptions
    points = frozenset({"input"})

    def judge(self, question: Any) -> Comment:
        return Comment(self.options.word)


def scene(folder: Path) -> Stage:
    return open_stage(folder, script_model(main=["Done."] * 9, **PARTS))


def replayed(log: Path, *classes: type[Agent]) -> None:
    """Check that a session is the same again, with these classes and without them."""
    for kinds in ({}, {registered_name(kind): kind for kind in classes}):
        done = check(SessionViewer(log).events, ReplayExtras(kinds=kinds))
        assert done.difference is None, (log, kinds, done.difference, done.miss_text, done.notes)


def test_calls_of_a_dumb_agent(tmp_path: Path) -> None:
    one = scene(tmp_path)
    agent = run(one.root.task("troupe", agent=Troupe))
    run(agent.response("Well?"))
    one.session.close()
    replayed(one.log, Troupe, Asking)


def test_calls_of_the_program_for_a_smart_agent(tmp_path: Path) -> None:
    one = scene(tmp_path)

    async def program(root: Agent) -> None:
        await root.task("Ada", "You are Ada.")
        await root.task("Ben", prompt="Hi?")
        await root.discuss("Well?", speakers=["Ada", "Ben"])
        with pytest.raises(ToolError):
            await root.terminate("Zoe")
        await root.response("Who is there?")
        await root.terminate("Ada")
        await root.endo("Ben")

    run(program(one.root))
    one.session.close()
    replayed(one.log, Troupe, Asking)


def test_calls_that_hooks_judge_and_calls_of_hooks(tmp_path: Path) -> None:
    one = scene(tmp_path)
    watch(one, action=lambda q: Deny("no") if "Ben" in q.text else Ok())
    Asking(one.session, runtime=one.runtime).install(one.root)
    run(one.root.task("Ada"))
    with pytest.raises(ToolError):
        run(one.root.task("Ben"))
    one.ask("Go.")
    assert [hook.name for hook in one.root.hooks if not isinstance(hook, Judging)] == []
    one.session.close()
    replayed(one.log, Troupe, Asking)


@register_agent_class("test-replayed-cast")
class Cast(DumbAgent):
    """Creates the agents that are missing, and lets them talk."""

    async def answer(self, input: str) -> str:
        for name in ("Ada", "Ben"):
            if name not in self.subagents:
                await self.task(name, f"You are {name}.")
        replies = await self.discuss(input, speakers=["Ada", "Ben"])
        return " ".join(reply.answer for reply in replies)


def test_a_program_that_was_cut_anywhere_and_went_on(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    one = scene(tmp_path / "whole")
    agent = run(one.root.task("cast", agent=Cast))
    begins = len(read_lines(one.log))
    run(agent.response("Well?"))
    ends = len(read_lines(one.log))
    one.session.close()
    for count in range(begins, ends):
        cut = cut_after(one.log, count)
        root, session = load_session(cut, runtime=one.runtime, options=fast_options())
        replayed(cut, Cast)
        again = root.subagents["cast"]
        text = None if any(m["role"] == "user" for m in again.transcript) else "Well?"
        if has_open_calls(again) or text is not None:
            run(again.response(text))
        session.close()
        # The log does not show that the code began again between two of its calls: its class
        # goes on after the discussion, where the cut program held a second one.
        replayed(cut, *([Cast] if count < ends - 1 else []))


def test_objects_of_the_program_have_their_tools_budgets_and_options(tmp_path: Path) -> None:
    one = open_stage(tmp_path, script_model(main=["Done."] * 9, **PARTS), tools=[send])
    own = SmartAgent(
        one.session,
        "You are Ada.",
        runtime=one.runtime,
        tools=["send", "task"],
        budget=Budget(model_calls=3),
    )
    run(one.root.task("Ada", agent=own, prompt="Hi?"))
    critic = SmartAgent(one.session, "You watch.", runtime=one.runtime, tools=["send"])
    run(one.root.subagents["Ada"].hook("Eve", agent=critic))
    guard = Guarding(one.session, runtime=one.runtime, options={"word": "mild"})
    run(one.root.hook("guard", agent=guard))
    assert one.ask("Go.") == "Done."
    one.session.close()
    replayed(one.log, Guarding)


def test_calls_of_the_program_at_once(tmp_path: Path) -> None:
    one = scene(tmp_path)

    async def program(root: Agent) -> None:
        troupe = await root.task("troupe", agent=Troupe)
        await asyncio.gather(*(troupe.task(name, prompt="Hi?") for name in ("Ada", "Ben", "Eve")))
        await asyncio.gather(troupe.discuss("A?", ["Ada"]), troupe.discuss("B?", ["Ben", "Eve"]))
        await asyncio.gather(troupe.discuss("C?", ["Ada"]), root.task("Zoe", prompt="Hi?"))
        await troupe.terminate("Eve")

    run(program(one.root))
    one.session.close()
    replayed(one.log, Troupe)


@register_agent_class("test-replayed-failing")
class Failing(DumbAgent):
    """Answers every second input."""

    async def answer(self, input: str) -> str:
        if input.startswith("Bad"):
            raise {"Bad": KeyError("a key"), "Bad!": InvalidArguments("no such thing")}[input]
        return "Good."


def test_an_error_of_a_dumb_agent(tmp_path: Path) -> None:
    discussion = call_message(call("discuss", prompt="Bad", speakers=["failing"]))
    one = open_stage(tmp_path, script_model(main=["-"] * 5 + [discussion, "Done."]))

    async def program(root: Agent) -> None:
        with pytest.raises(KeyError):
            await root.task("failing", agent=Failing, prompt="Bad")
        await root.discuss("Well?", ["failing"])
        with pytest.raises(InvalidArguments):
            await root.discuss("Bad!", ["failing"])
        await root.discuss("Well?", ["failing"])
        with pytest.raises(KeyError):
            await root.discuss("Bad", ["failing"])

    run(program(one.root))
    assert one.ask("Go.") == "Done."
    one.session.close()
    replayed(one.log, Failing)
