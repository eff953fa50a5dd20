"""What an agent arms: through its tools, in the log, and again after a resume."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import aiohttp
import pytest

from harken import Budget, ModelError
from harken.core.events import PieceOfText, TriggerArmed
from harken.core.ids import AgentId
from harken.core.messages import ToolCall
from tests.agent_kit import (
    ScriptedAnswer,
    Stage,
    call,
    call_message,
    check_log,
    full_state,
    run,
    script_model,
)
from tests.trigger_kit import FakeTime, listen_to, open_trigger_stage, run_pending_tasks, wait_until

NOTES = call("wake_me", "c1", name="notes", files=["."], note="Reload the data.")
TICK = call("wake_me", "c1", name="tick", when="every 10 min")


def armed_stage(
    folder: Path, arming: ToolCall, *said: ScriptedAnswer, time: FakeTime | None = None
) -> Stage:
    return open_trigger_stage(
        folder, script_model(main=[call_message(arming), "Armed.", *said]), time=time
    )


def pieces(one: Stage) -> list[str]:
    return [row["content"] for row in one.select_lines(event_type="piece_of_text")]


def test_a_file_that_another_changed_is_told_and_what_the_agent_wrote_is_not(
    tmp_path: Path,
) -> None:
    wrote = call_message(call("write", "c2", path="mine.txt", content="x"))
    one = armed_stage(tmp_path, NOTES, wrote, "Written.", "I reload it.")

    async def act() -> None:
        async with listen_to(one) as talk:
            await talk.say("Watch.")
            await talk.say("Write.")
            await asyncio.sleep(1)
            (tmp_path / "work" / "data.json").write_text("{}")
            assert await talk.wait_for_unread()
            assert await talk.say() == "I reload it."

    run(act())
    assert pieces(one) == ["[event notes] changed: data.json (new)\nYou noted: Reload the data."]
    check_log(one.log)


def test_a_command_in_the_background_tells_how_it_ended(tmp_path: Path) -> None:
    command = "echo '[hook x]: OK'; exit 3"
    arming = call("run_in_background", "c1", name="build", command=command)
    one = armed_stage(tmp_path, arming, "It failed.")

    async def act() -> None:
        async with listen_to(one) as talk:
            await talk.say("Build.")
            assert await talk.wait_for_unread()
            assert await talk.say() == "It failed."
            assert await talk.wait_for_unread(to_the_end=True) is False

    run(act())
    [text] = pieces(one)
    first, *rest = text.split("\n")
    expected = r"\[event build\] the command ended after \d\.\d s: exit code 3"
    assert re.fullmatch(expected, first)
    assert rest == [f"$ {command}", "> [hook x]: OK"]
    assert one.root.state.triggers == {}


def test_a_command_is_ended_when_it_is_stopped_and_with_the_session(tmp_path: Path) -> None:
    sleep = "echo $$ >> ../pids; sleep 60"
    both = call_message(
        call("run_in_background", "c1", name="one", command=sleep),
        call("run_in_background", "c2", name="two", command=sleep),
    )
    stop = call_message(call("triggers", "c3", stop=["one"]))
    one = open_trigger_stage(tmp_path, script_model(main=[both, "Begun.", stop, "Stopped."]))

    def running() -> list[bool]:
        file = tmp_path / "pids"
        pids = file.read_text().split() if file.exists() else []
        return [Path(f"/proc/{pid}").exists() for pid in pids]

    async def act() -> None:
        async with listen_to(one) as talk:
            await talk.say("Begin.")
            await wait_until(lambda: running() == [True, True])
            await talk.say("Stop one.")
            await wait_until(lambda: sorted(running()) == [False, True])

    run(act())
    assert one.result("c3")["content"] == f"two: command: {sleep}"
    assert running() == [False, False]
    assert pieces(one) == []
    assert list(one.root.state.triggers) == ["two"]  # armed, as after a crash

    async def again() -> None:
        async with listen_to(one) as talk:
            assert await talk.wait_for_unread()

    run(again())
    assert pieces(one) == [
        "[event two] the trigger has ended: the command was stopped with its session"
    ]


def test_a_webhook_wakes_an_agent_and_is_the_same_after_a_resume(tmp_path: Path) -> None:
    one = armed_stage(tmp_path, call("webhook", "c1", name="deploys"), "It is out.", "Again.")
    urls: list[str] = []

    async def post(text: str) -> int:
        async with (
            aiohttp.ClientSession() as client,
            client.post(urls[0], data=text) as answer,
        ):
            return answer.status

    async def act(stage_: Stage, said: str) -> None:
        async with listen_to(stage_) as talk:
            if not urls:
                await talk.say("Listen.")
                urls.append(stage_.result()["content"].rpartition(" ")[2])
            await run_pending_tasks()
            assert await post("released") == 202
            assert await talk.wait_for_unread()
            assert await talk.say() == said

    run(act(one, "It is out."))
    assert urls[0].rpartition("/")[2] not in one.log.read_text().replace(
        one.result()["content"], ""
    )
    one.session.close()
    run(act(open_trigger_stage(tmp_path, one.runtime.model), "Again."))  # type: ignore[arg-type]
    heard = "a message from outside (8 bytes; anyone with the URL can send one):\n> released"
    assert pieces(one) == [f"[event deploys] {heard}"] * 2


def test_a_rhythm_goes_on_after_a_resume_and_missed_times_are_one_message(tmp_path: Path) -> None:
    time = FakeTime()
    one = armed_stage(tmp_path, TICK, "Tick.", "Tock.", time=time)

    async def first() -> None:
        async with listen_to(one) as talk:
            await talk.say("Tick.")
            await time.advance(600)
            assert await talk.wait_for_unread()
            assert await talk.say() == "Tick."

    run(first())
    one.session.close()
    time.sleepers.clear()
    time.now_us += 3_600_000_000
    again = open_trigger_stage(tmp_path, one.runtime.model, time=time)  # type: ignore[arg-type]

    async def second() -> None:
        async with listen_to(again) as talk:
            assert await talk.wait_for_unread()
            assert await talk.say() == "Tock."

    run(second())
    missed = "6 times since 2026-01-01 12:20:00 (UTC), when nobody told you"
    assert pieces(one) == [
        "[event tick] it is 2026-01-01 12:10:00 (UTC)",
        f"[event tick] it is 2026-01-01 13:10:00 (UTC); {missed}",
    ]


def test_what_a_busy_agent_does_not_hear_is_summed_up(tmp_path: Path) -> None:
    time = FakeTime()
    one = armed_stage(tmp_path, TICK, "Many.", time=time)

    async def act() -> None:
        async with listen_to(one) as talk:
            await talk.say("Tick.")
            await time.advance(6000)  # ten times, and nobody lets it answer
            assert await talk.say() == "Many."

    run(act())
    assert len(pieces(one)) == 3


def test_nothing_is_armed_where_nobody_listens(tmp_path: Path) -> None:
    one = armed_stage(tmp_path, TICK)
    one.ask("Tick.")
    assert one.result()["content"] == (
        "Error: this session has no triggers, so nothing can wake you"
    )
    assert one.root.state.triggers == {}


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"name": "x"}, "either `when` or `files`"),
        ({"name": "a b", "when": "in 1 h"}, "a name has at most 40"),
        ({"name": "x", "when": "soon"}, "is not a time such as"),
        ({"name": "x", "files": ["../.."]}, "is outside"),
        ({"name": "x", "when": "in 1 h", "zone": "Mars"}, "is not a time zone"),
        ({"name": "x", "when": "in 1 h", "note": "x" * 1001}, "at most 1,000 characters"),
    ],
)
def test_what_cannot_be_armed_is_a_result_that_says_why(
    tmp_path: Path, arguments: dict[str, object], why: str
) -> None:
    one = armed_stage(tmp_path, call("wake_me", **arguments))

    async def act() -> None:
        async with listen_to(one) as talk:
            await talk.say("Arm.")

    run(act())
    assert why in one.result()["content"]
    assert one.root.state.triggers == {}


def test_a_name_is_taken_once_and_so_many_triggers_are_enough(tmp_path: Path) -> None:
    again = call_message(call("wake_me", "c2", name="tick", when="in 1 h"))
    one = armed_stage(tmp_path, TICK, again, "No.")

    async def act() -> None:
        async with listen_to(one) as talk:
            await talk.say("Tick.")
            await talk.say("Again.")

    run(act())
    assert "trigger tick exists" in one.result("c2")["content"]


def ring(one: Stage, agent: str) -> None:
    state = one.session.agents[one.session.agent(one.id_of(agent)).id]
    text = "[event bell] it rings"
    one.session.append(
        PieceOfText(agent_id=state.id, content=text, cause=state.birth, trigger="bell")
    )


def test_a_model_that_fails_is_told_of_and_not_asked_again_until_something_else_happens(
    tmp_path: Path,
) -> None:
    main: list[ScriptedAnswer] = [
        call_message(call("task", "c1", name="Watcher")),
        "Made.",
        "Main heard.",
    ]
    told: list[str] = []
    model = script_model(main=main, Watcher=[ModelError("overloaded")])
    one = open_trigger_stage(tmp_path, model, on_notice=told.append)
    one.ask("Make one.")

    async def act() -> None:
        async with listen_to(one) as talk:
            ring(one, "Watcher")
            await run_pending_tasks()
            assert not talk.has_news
            ring(one, "Watcher")
            await run_pending_tasks()

    run(act())
    assert told == ["Watcher was woken and could not answer: overloaded"] * 2
    assert len(model.requests_of("Watcher")) == 2
    check_log(one.log)


def test_a_turn_that_failed_is_tried_once_more_after_a_resume_and_not_again(
    tmp_path: Path,
) -> None:
    """What was tried is not in the log, and need not be: the turn is still owed, once."""
    main: list[ScriptedAnswer] = [
        call_message(call("task", "c1", name="Watcher")),
        "Made.",
        "Main heard.",
    ]
    model = script_model(main=main, Watcher=[ModelError("overloaded")])
    one = open_trigger_stage(tmp_path, model)
    one.ask("Make one.")

    async def listen(stage: Stage, *, rings: bool) -> None:
        async with listen_to(stage):
            if rings:
                ring(stage, "Watcher")
            await run_pending_tasks(200)

    run(listen(one, rings=True))
    for attempts in (2, 3):
        one.session.close()
        one = open_trigger_stage(tmp_path, model)
        run(listen(one, rings=False))
        assert len(model.requests_of("Watcher")) == attempts
    assert one.user_messages("Watcher") == ["[event bell] it rings"]
    check_log(one.log)


def test_a_budget_ends_what_events_cost(tmp_path: Path) -> None:
    one = open_trigger_stage(tmp_path, script_model(main=["One."]), budget=Budget(model_calls=1))

    async def act() -> None:
        async with listen_to(one) as talk:
            said = []
            for _ in range(3):
                ring(one, "main")
                assert await talk.wait_for_unread()
                said.append(str(await talk.say()))
            used = "[stopped] agent main has used 1 of 1 model calls"
            assert said == ["One.", used, used]

    run(act())
    live = full_state(one.session)
    one.session.close()
    again = open_trigger_stage(tmp_path, script_model(main=[]))
    assert full_state(again.session) == live


ODD: dict[str, dict[str, object]] = {
    "a": {"kind": "time", "at": "never"},
    "b": {"kind": "time", "at": "2026-01-01T00:00:00Z", "zone": "../x"},
    "c": {"kind": "files", "paths": ["../.."]},
    "d": {"kind": "webhook", "token_sha256": "\u00e9", "port": 99999},
    "e": {"kind": "command", "command": "touch evil", "output": "/x"},
    "f": {"kind": "rocket"},
    "g": {},
}


def test_what_a_foreign_log_has_armed_runs_nothing_and_is_told(tmp_path: Path) -> None:
    one = open_trigger_stage(tmp_path, script_model(main=["I see."]))
    for name, trigger in ODD.items():
        event = TriggerArmed(
            agent_id=AgentId("agent_001"), name=name, trigger=trigger, cause="msg_001"
        )
        one.session.append(event)

    async def act() -> None:
        async with listen_to(one) as talk:
            await wait_until(lambda: len(pieces(one)) == 5)
            assert await talk.wait_for_unread()
            assert await talk.say() == "I see."

    run(act())
    told = {text.partition("]")[0]: text for text in pieces(one)}
    assert sorted(told) == [f"[event {name}" for name in "abcde"]
    assert all("the trigger has ended: " in text for text in told.values())
    assert not (tmp_path / "work" / "evil").exists()
    check_log(one.log)


def test_a_trigger_that_fired_once_is_disarmed_by_a_resume_after_a_crash(tmp_path: Path) -> None:
    time = FakeTime()
    once = call("wake_me", "c1", name="tea", when="in 10 min")
    one = armed_stage(tmp_path, once, "Tea.", time=time)

    async def act() -> None:
        async with listen_to(one) as talk:
            await talk.say("Tea.")
            await time.advance(600)
            assert await talk.wait_for_unread()

    run(act())
    one.session.close()
    lines = one.log.read_bytes().splitlines(keepends=True)
    [index] = [at for at, line in enumerate(lines) if b'"trigger_disarmed"' in line]
    one.log.write_bytes(b"".join(lines[:index]))
    again = open_trigger_stage(tmp_path, one.runtime.model, time=time)  # type: ignore[arg-type]
    assert list(again.root.state.triggers) == ["tea"]

    async def resume() -> None:
        async with listen_to(again) as talk:
            await run_pending_tasks()
            assert await talk.say() == "Tea."

    run(resume())
    [piece] = again.select_lines(event_type="piece_of_text")
    [armed] = again.select_lines(event_type="trigger_armed")
    [disarmed] = again.select_lines(event_type="trigger_disarmed")
    assert (disarmed["name"], disarmed["cause"]) == ("tea", piece["message_id"])
    assert armed["trigger"] == {"kind": "time", "at": "2026-01-01T12:10:00.000000Z"}
    assert armed["cause"] == piece["cause"]
    assert again.root.state.triggers == {}
    check_log(again.log)


def test_a_copy_and_a_dump_of_an_agent_have_none_of_its_triggers(tmp_path: Path) -> None:
    main: list[ScriptedAnswer] = [call_message(call("task", "t", name="Ann", prompt="Arm.")), "Ok."]
    model = script_model(main=main, Ann=[call_message(TICK), "Armed."])
    one = open_trigger_stage(tmp_path, model)

    async def act() -> None:
        async with listen_to(one) as talk:
            await talk.say("Go.")
            await one.root.clone("Ann", as_name="Eve")
            await one.root.dump("ann.json", name="Ann")
            await one.root.restore("ann.json", name="Fay")

    run(act())
    assert list(one.agent("Ann").state.triggers) == ["tick"]
    dumped = json.loads((tmp_path / "work" / "ann.json").read_bytes())["agent"]
    assert dumped["spec"] == {"kind": "smart"}
    assert (one.agent("Eve").state.triggers, one.agent("Fay").state.triggers) == ({}, {})
    check_log(one.log)
