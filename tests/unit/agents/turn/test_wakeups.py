"""What happens outside wakes the agent that asked: when, in which words, and who hears of it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from harken import Message, Tool, ToolContext, tool
from harken.agents.inputs import has_news
from harken.core.events import PieceOfText
from harken.llm.base import ModelRequest
from tests.agent_kit import (
    ScriptedAnswer,
    Stage,
    call,
    call_message,
    check_log,
    full_state,
    request_texts,
    run,
    script_model,
)
from tests.trigger_kit import FakeTime, listen_to, open_trigger_stage, run_pending_tasks, wait_until

TEA = call("wake_me", "c1", name="tea", when="in 10 min", note="Take the tea out.")
RINGS = "[event tea] it is 2026-01-01 12:10:00 (UTC)\nYou noted: Take the tea out."


def test_a_timer_wakes_the_primary_agent_and_the_user_gets_the_answer(tmp_path: Path) -> None:
    time = FakeTime()
    one = open_trigger_stage(
        tmp_path, script_model(main=[call_message(TEA), "I will.", "Tea!"]), time=time
    )

    async def day() -> None:
        async with listen_to(one) as talk:
            assert await talk.say("Remind me of the tea.") == "I will."
            news = asyncio.create_task(talk.wait_for_unread())
            await time.advance(599)
            assert not news.done()
            await time.advance(1)
            await news
            assert await talk.say() == "Tea!"
            assert not talk.has_news

    run(day())
    [piece] = one.select_lines(event_type="piece_of_text")
    [calling] = [row for row in one.select_lines(role="assistant") if row.get("tool_calls")]
    assert (piece["content"], piece["trigger"]) == (RINGS, "tea")
    assert piece["cause"] == calling["message_id"]
    [heard] = one.select_lines(role="user", substance=piece["message_id"])
    assert heard["content"] == RINGS
    assert one.root.state.triggers == {}
    check_log(one.log)
    live = full_state(one.session)
    assert full_state(woken_stage_again(one, time).session) == live


def woken_stage_again(
    one: Stage, time: FakeTime | None = None, **parts: list[ScriptedAnswer]
) -> Stage:
    one.session.close()
    model = script_model(**parts) if parts else one.runtime.default_model
    assert model is not None
    return open_trigger_stage(one.log.parent, model, time=time)


def ring(one: Stage, agent: str = "main", name: str = "bell") -> str:
    """Let something happen for an agent, as a source would."""
    id_ = one.session.agent(one.id_of(agent)).id
    birth = one.session.agents[id_].birth
    text = f"[event {name}] it rings"
    piece = PieceOfText(agent_id=id_, content=text, cause=birth, trigger=name)
    return one.session.append(piece)


def test_in_the_middle_of_a_turn_it_is_heard_before_the_next_request(tmp_path: Path) -> None:
    held: list[Stage] = []

    @tool
    async def work() -> str:
        """Work while the bell rings."""
        ring(held[0])
        return "worked"

    both = call_message(call("work", "c1"), call("work", "c2"))
    model = script_model(main=[both, "I heard it twice."])
    one = open_trigger_stage(tmp_path, model, tools=[work])
    held.append(one)
    assert one.ask("Work.") == "I heard it twice."
    roles = [
        (row["role"], row.get("content"))
        for row in one.select_lines(agent_id="agent_001")
        if "role" in row
    ]
    bell = ("user", "[event bell] it rings")
    assert roles[3:] == [("tool", "worked")] * 2 + [bell, bell, ("assistant", "I heard it twice.")]
    check_log(one.log)


def test_what_came_while_nobody_listened_is_heard_before_what_the_user_says(tmp_path: Path) -> None:
    one = open_trigger_stage(tmp_path, script_model(main=["Yes.", "And hello."]))
    one.ask("Are you there?")
    ring(one)
    assert one.ask("Hello.") == "And hello."
    assert one.user_messages("main") == ["Are you there?", "[event bell] it rings", "Hello."]


def watcher(
    folder: Path, main: list[ScriptedAnswer], said: list[ScriptedAnswer], *tools: Tool
) -> Stage:
    model = script_model(
        main=[call_message(call("task", "c1", name="Watcher")), "Made.", *main], Watcher=said
    )
    one = open_trigger_stage(folder, model, tools=tools)
    one.ask("Make a watcher.")
    return one


def test_a_subagent_answers_and_its_parent_hears_of_it_and_answers_the_user(tmp_path: Path) -> None:
    one = watcher(tmp_path, ["It rang."], ["It rings, they say."])

    async def day() -> None:
        async with listen_to(one) as talk:
            ring(one, "Watcher")
            await talk.wait_for_unread()
            assert await talk.say() == "It rang."

    run(day())
    [said] = one.select_lines(agent_id=one.id_of("Watcher"), role="assistant")
    [heard] = one.select_lines(agent_id="agent_001", substance=said["message_id"])
    assert (heard["role"], heard["content"]) == ("user", "[Watcher]: It rings, they say.")
    assert one.session.state.pending_reports == {}
    check_log(one.log)
    live = full_state(one.session)
    assert full_state(woken_stage_again(one).session) == live


def test_an_answer_climbs_the_tree_up_to_the_user(tmp_path: Path) -> None:
    model = script_model(
        main=[
            call_message(call("task", "c1", name="Middle", prompt="Begin.")),
            "Made.",
            "Main heard.",
        ],
        Middle=[call_message(call("task", "c2", name="Low")), "Begun.", "Middle heard."],
        Low=["Low heard."],
    )
    one = open_trigger_stage(tmp_path, model)
    one.ask("Make two.")

    async def day() -> None:
        async with listen_to(one) as talk:
            ring(one, "Low")
            await talk.wait_for_unread()
            assert await talk.say() == "Main heard."

    run(day())
    assert one.user_messages("Middle")[1:] == ["[Low]: Low heard."]
    assert one.user_messages("main")[1:] == ["[Middle]: Middle heard."]
    assert one.session.state.pending_reports == {}


def test_a_parent_in_a_turn_hears_it_between_two_steps(tmp_path: Path) -> None:
    held: list[Stage] = []

    @tool
    async def work() -> str:
        """Work until the watcher has answered."""
        ring(held[0], "Watcher")
        await wait_until(lambda: has_news(held[0].root))
        return "worked"

    one = watcher(tmp_path, [call_message(call("work", "c2")), "I know."], ["It rings."], work)
    held.append(one)

    async def day() -> None:
        async with listen_to(one) as talk:
            assert await talk.say("Work.") == "I know."
            await run_pending_tasks()
            assert not talk.has_news

    run(day())
    assert one.user_messages("main")[-1] == "[Watcher]: It rings."
    check_log(one.log)


def test_a_discussion_waits_for_a_subagent_that_an_event_has_woken(tmp_path: Path) -> None:
    going = asyncio.Event()
    ready = asyncio.Event()

    async def slow(_: ModelRequest) -> str:
        ready.set()
        await going.wait()
        return "It rings."

    talk_with = call_message(call("discuss", "c2", prompt="And?", speakers=["Watcher"]))
    one = watcher(tmp_path, [talk_with, "Good."], [slow, "All is well."])

    async def day() -> None:
        async with listen_to(one) as talk:
            ring(one, "Watcher")
            await ready.wait()
            turn = asyncio.create_task(talk.say("Ask the watcher."))
            await run_pending_tasks()
            assert not turn.done()
            going.set()
            assert await turn == "Good."

    run(day())
    assert one.result("c2")["content"] == "All is well."
    assert one.user_messages("Watcher") == ["[event bell] it rings", "And?"]
    check_log(one.log)


def test_in_a_discussion_it_is_heard_by_who_speaks_and_nobody_is_told_twice(tmp_path: Path) -> None:
    held: list[Stage] = []

    @tool
    async def work(caller: ToolContext) -> str:
        """Work while the bell rings."""
        ring(held[0], "Watcher")
        return "worked"

    talk_with = call_message(call("discuss", "c2", prompt="And?", speakers=["Watcher"]))
    parts: list[ScriptedAnswer] = [call_message(call("work", "c3")), "It rang, all is well."]
    one = watcher(tmp_path, [talk_with, "Good."], parts, work)
    held.append(one)

    async def day() -> None:
        async with listen_to(one) as talk:
            assert await talk.say("Ask the watcher.") == "Good."
            await run_pending_tasks()
            assert not talk.has_news

    run(day())
    assert one.user_messages("main")[1:] == ["Ask the watcher."]
    assert one.session.state.pending_reports == {}
    assert Message("user", "[event bell] it rings").content in request_texts(
        one.runtime.model.requests_of("Watcher")[-1]  # type: ignore[union-attr]
    )


def test_a_terminated_agent_is_not_woken_and_its_triggers_end(tmp_path: Path) -> None:
    time = FakeTime()
    model = script_model(
        main=[
            call_message(call("task", "c1", name="Watcher", prompt="Mind the tea.")),
            call_message(call("terminate", "c2", name="Watcher")),
            "Ended.",
        ],
        Watcher=[call_message(TEA), "I will."],
    )
    one = open_trigger_stage(tmp_path, model, time=time)

    async def day() -> None:
        async with listen_to(one) as talk:
            assert await talk.say("Go.") == "Ended."
            await run_pending_tasks()
            assert not talk.is_waiting
            await time.advance(700)

    run(day())
    assert one.select_lines(trigger="tea") == []
