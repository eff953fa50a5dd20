"""A replayed session is equal; a changed one is not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from harken import (
    AgentRuntime,
    Budget,
    Comment,
    Deny,
    HookQuestion,
    LocalWorld,
    Rewrite,
    SessionViewer,
    Templates,
    load_session,
    register_agent_class,
    tool,
)
from harken.agents.action_schemas import ACTIONS
from harken.agents.agent import Agent, log_birth
from harken.agents.built_in.planning_mode import start_planning, stop_planning
from harken.agents.load import start_from_commit
from harken.agents.runtime import ActionPolicy, AgentLibrary
from harken.agents.tree.registry import RUN
from harken.agents.tree.user_command import run_user_command
from harken.agents.turn.conversation import Conversation
from harken.cli.commands.demo import play as play_demo
from harken.context.checkpoint import CommitDraft, checkpoint
from harken.context.materialize import make_resolver
from harken.core.event_types.spec import AgentSpec, ForeignAgent
from harken.core.messages import Message
from harken.core.stream import Chunk, TextDelta, ThinkingDelta
from harken.errors import ConfigError, ModelError
from harken.experiments.replay.check import ReplayCheck, check
from harken.experiments.replay.player import ReplayExtras
from harken.llm.base import ModelRequest
from harken.session.session import SessionOptions
from harken.store.memory import MemoryStore
from harken.testing import ticking
from harken.world.ask_user import ask_user
from harken.world.permissions.permissions import Permissions
from harken.world.result import ToolResult
from tests.agent_kit import (
    ScriptedAnswer,
    call,
    call_message,
    fast_options,
    open_stage,
    request_texts,
    run,
    script_model,
)
from tests.agent_kit import ScriptModel as Playing
from tests.unit.agents.compaction_kit import WORDS, begin, talk
from tests.unit.agents.crash_kit import cut_after, resume
from tests.unit.agents.hook_kit import Judging, send, watch
from tests.unit.agents.test_dumb_agent import Echo
from tests.unit.views.log_builder import LogBuilder
from tests.unit.world.permissions.user_kit import NO, YES, ScriptedUser


@tool
def count(word: str) -> str:
    """Count."""
    raise LookupError(word)


@tool(reads_only=True)
def look(place_name: str) -> str:
    """Look."""
    return f"{place_name}: a cat"


def check_log(log: Path, extras: ReplayExtras | None = None) -> ReplayCheck:
    return check(SessionViewer(log).events, extras)


def same(log: Path, extras: ReplayExtras | None = None) -> ReplayCheck:
    """Check that a replay of a session is equal. Return the result."""
    result = check_log(log, extras)
    assert result.difference is None, (result.difference, result.miss_text, result.notes)
    assert result.requests
    return result


def test_demo_is_replayed_equally(tmp_path: Path) -> None:
    play_demo(tmp_path / "demo.jsonl")
    result = same(tmp_path / "demo.jsonl")
    assert (result.agents, result.requests) == (4, 9)


def test_tools_subagents_and_discussions_are_replayed_without_running_tools(tmp_path: Path) -> None:
    ran: list[str] = []

    @tool
    def note(text: str) -> str:
        """Note."""
        ran.append(text)
        return f"{len(ran)}"

    lines: list[ScriptedAnswer] = [
        call_message(call("task", "a", name="Ann", prompt="Hi"), call("task", "b", name="Bob")),
        call_message(
            call("note", "c", text="x"), call("look", "d", place_name="y"), call("nope", "e")
        ),
        call_message(call("note", "f", text="x"), call("count", "g", word="z")),
        call_message(call("discuss", "h", prompt="Talk.", speakers=["Ann", "Bob"])),
        call_message(call("terminate", "i", name="Bob"), call("discuss", "j", prompt="And?")),
        "Done.",
    ]
    parts: dict[str, list[ScriptedAnswer]] = {
        "Ann": [call_message(call("note", "k", text="ann")), "Hello.", "Yes.", "Well."],
        "Bob": ["Hm.", call_message(call("task", "l", name="Cleo", prompt="?")), "No."],
        "Cleo": ["Here."],
    }
    scene = open_stage(tmp_path, script_model(main=lines, **parts), tools=[note, look, count])
    scene.ask("Go.")
    scene.ask("Go on.")
    before = list(ran)
    result = same(scene.log)
    assert (result.agents, ran) == (3, before)


async def plan(agent: Agent, command: str) -> ToolResult:
    start_planning(agent, command)
    return ToolResult("On.")


async def no_plan(agent: Agent, command: str) -> ToolResult:
    assert stop_planning(agent, command)
    return ToolResult("Off.")


def test_user_commands_are_replayed(tmp_path: Path) -> None:
    """This includes agents with more than their default actions."""
    parts: dict[str, list[ScriptedAnswer]] = {
        "Ann": ["Tea.", "Really tea.", "I answer now.", "Still me."],
        "Bob": ["No."],
        "critic": ["OK", "OK", "OK", "OK", "OK"],
    }
    runtime = AgentRuntime(
        model=script_model(main=["Hm.", "OK", "OK", "I am back."], **parts),
        policy=ActionPolicy(actions=ACTIONS),
    )
    scene = open_stage(tmp_path, runtime.model, runtime=runtime)  # type: ignore[arg-type]
    talk = Conversation(scene.root)

    def do(action: str, **arguments: Any) -> None:
        checked_arguments = ACTIONS[action].check(arguments)
        run(
            run_user_command(
                talk.primary,
                f"/{action}",
                lambda agent, argument_text: RUN[action](agent, argument_text, checked_arguments),
            )
        )

    do("task", name="Ann", prompt="Tea or coffee?")
    do("task", name="Bob", instructions="You are Bob.")
    do("terminate", name="nobody")
    scene.ask("What did she say?")
    run(run_user_command(scene.root, "/plan true", plan))
    run(run_user_command(scene.root, "/plan false", no_plan))
    do("hook", name="critic", instructions="Watch.", points=["response"])
    do("discuss", prompt="Sure?", speakers=["Ann", "Bob"])
    do("endo", subagent="Ann", prompt="Answer for me.", points=["response"])
    run(talk.say())
    run(talk.say("Who is there?"))
    do("talk_with", name="main")
    assert run(talk.say("Back?")) == "I am back."
    same(scene.log)


def test_hooks_are_replayed_by_recording_and_by_code(tmp_path: Path) -> None:
    lines: list[ScriptedAnswer] = [
        call_message(call("send", text="tea")),
        call_message(call("task", "t", name="Ann")),
        "no",
    ]
    scene = open_stage(tmp_path, script_model(main=[*lines, "yes", "Bye."]), tools=[send])

    def judge(question: HookQuestion) -> Any:
        if question.call is not None and question.call.function.name == "task":
            return Deny("alone")
        return Rewrite('{"text": "coffee"}') if "tea" in question.text else Comment("hm")

    def answer(question: HookQuestion) -> Any:
        if question.text == "no":
            return Deny("be kind")
        return Rewrite("Bye, dear.") if question.text == "Bye." else None

    watch(scene, action=judge, response=answer, input=lambda q: Comment("He is back."))
    watch(scene, "broken", result=lambda q: 1 / 0)
    scene.ask("Go.")
    scene.ask("And now?")
    scene.session.close()
    same(scene.log)

    class Other(Judging):
        """The same hook after a change of its code."""

        def judge(self, question: HookQuestion) -> Any:
            return Deny("not any more") if question.point == "action" else super().judge(question)

    result = check_log(scene.log, ReplayExtras(kinds={"test-judge": Other}))
    assert result.difference is not None


def test_stateful_hooks_and_subagent_copies_are_replayed(tmp_path: Path) -> None:
    @register_agent_class("test-counting-copies")
    class Counting(Judging):
        def begin(self) -> None:
            super().begin()
            self.count = 0

        def judge(self, question: HookQuestion) -> Any:
            self.count += 1
            return Comment(f"{self.count}")

        def saved_state(self) -> Any:
            return {"count": self.count}

    lines: list[ScriptedAnswer] = [call_message(call("task", name="Ann", prompt="Hi")), "Done."]
    scene = open_stage(
        tmp_path,
        script_model(main=lines, Ann=[call_message(call("send", text="x")), "Hi"]),
        tools=[send],
    )
    Counting(scene.session, runtime=scene.runtime).install(scene.root, "counting")
    scene.ask("Go.")
    scene.session.close()
    assert same(scene.log).agents == 4


def test_dumb_agents_repeat_their_answers(tmp_path: Path) -> None:
    lines: list[ScriptedAnswer] = [
        call_message(call("discuss", prompt="One.", speakers=["Echo"])),
        "Done.",
    ]
    scene = open_stage(tmp_path, script_model(main=lines))
    log_birth(
        Echo(scene.session, "Unused.", runtime=scene.runtime),
        scene.root.state.birth,
        "Echo",
        "subagent",
    )
    scene.ask("Go.")
    scene.session.close()
    same(scene.log)
    same(scene.log, ReplayExtras(kinds={"test-echo": Echo}))

    class Louder(Echo):
        async def answer(self, text: str) -> str:
            return (await super().answer(text)).upper()

    result = check_log(scene.log, ReplayExtras(kinds={"test-echo": Louder}))
    assert result.difference is not None
    assert result.difference.after["content"] == "1: ONE."
    assert "nearest is" in result.miss_text


def test_compactions_occur_at_the_same_position(tmp_path: Path) -> None:
    scene = begin(tmp_path, talk(main=["one", "two", "three", "four"]), window=900)
    for text in (WORDS, WORDS, WORDS):
        scene.ask(text)
    run(scene.root.compact("the names"))
    scene.ask("And?")
    scene.stage.session.close()
    assert "compaction" in scene.stage.log.read_text()
    same(scene.stage.log)


def test_failed_and_cancelled_calls_are_replayed(tmp_path: Path) -> None:
    failed: list[int] = []
    turns: list[asyncio.Task[Any]] = []

    def fails(_: object) -> Any:
        failed.append(1)
        if len(failed) == 1:
            raise ModelError("down")
        return "two"

    class Slow(Playing):
        """A model that blocks in the middle of an answer until it is cancelled."""

        async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
            if request_texts(request)[-1] != "And?":
                async for chunk in super().stream(request):
                    yield chunk
                return
            yield ThinkingDelta("Hm.")
            yield TextDelta("I was about")
            turns[0].cancel()
            await asyncio.Event().wait()

    model = Slow({"main": ["one", fails, "two", "three"]})
    scene = open_stage(tmp_path, model)
    scene.ask("Go.")
    with pytest.raises(ModelError):
        scene.ask("On.")
    scene.ask()

    async def cancel_soon() -> None:
        turns.append(asyncio.create_task(scene.root.response("And?")))
        await asyncio.wait(turns)
        assert turns[0].cancelled()

    run(cancel_soon())
    scene.ask("Still there?")
    scene.session.close()
    same(scene.log)


def test_budget_stops_at_the_same_position(tmp_path: Path) -> None:
    lines: list[ScriptedAnswer] = [
        call_message(call("look", f"c{n}", place_name=str(n))) for n in range(5)
    ]
    scene = open_stage(
        tmp_path, script_model(main=lines), tools=[look], budget=Budget(model_calls=3)
    )
    assert scene.ask("Go.").startswith("[stopped]")
    scene.session.close()
    same(scene.log)


def test_user_answers_and_permissions_are_replayed(tmp_path: Path) -> None:
    lines: list[ScriptedAnswer] = [
        call_message(call("ask_user", "a", question="Tea?"), call("send", "b", text="x")),
        call_message(call("send", "c", text="y")),
        "Done.",
    ]
    world = LocalWorld(
        [ask_user, send], user=ScriptedUser(["Green.", YES, NO]), permissions=Permissions("ask")
    )
    scene = open_stage(
        tmp_path,
        script_model(main=lines),
        runtime=AgentRuntime(world=world, model=script_model(main=lines)),
    )
    scene.ask("Go.")
    scene.session.close()
    same(scene.log)


def test_templates_and_instructions_are_the_recorded_ones(tmp_path: Path) -> None:
    folder = tmp_path / "agents"
    folder.mkdir()
    (folder / "cook.md").write_text("---\ntools: [look]\n---\nYou cook.")
    (tmp_path / "ann.txt").write_text("You are Ann.")
    lines: list[ScriptedAnswer] = [
        call_message(call("task", "a", name="Cook", instructions="template:cook", prompt="Tea?")),
        call_message(call("task", "b", name="Ann", instructions="file:ann.txt", prompt="Tea?")),
        call_message(call("task", "c", name="Nobody", instructions="template:nobody")),
        call_message(call("task", "d", name="Nobody", instructions="file:nobody.txt")),
        "Done.",
    ]
    model = script_model(main=lines, Cook=["Soon."], Ann=["Yes."])
    runtime = AgentRuntime(
        model=model,
        world=LocalWorld([look], folder=tmp_path),
        library=AgentLibrary(templates=Templates([folder])),
    )
    scene = open_stage(tmp_path, model, runtime=runtime)
    scene.ask("Go.")
    scene.session.close()
    (folder / "cook.md").unlink()
    (tmp_path / "ann.txt").unlink()
    same(scene.log)


def test_model_name_and_place_changes_are_replayed(tmp_path: Path) -> None:
    scene = open_stage(tmp_path, script_model(main=["one", "two"]))
    scene.ask("Go.")
    other_model = script_model(main=["-", "two"])
    other_model.name = "other"
    two = scene.resume(other_model)
    two.ask("And?")
    two.session.close()
    same(two.log)


def test_session_started_from_a_commit_is_replayed_with_its_store(
    tmp_path: Path,
) -> None:
    store = MemoryStore(clock=ticking())
    messages = [Message("user", "a"), Message("assistant", "b")]
    ctx = checkpoint(store, CommitDraft(messages=messages, created_at="2026-01-01T00:00:00Z"))
    options = SessionOptions(durability="none", clock=ticking(), resolver=make_resolver(store))
    scene = open_stage(tmp_path, script_model(main=["-", "Yes."]), options=options)
    start_from_commit(scene.root, ctx)
    scene.ask("Go.")
    scene.session.close()
    same(scene.log, ReplayExtras(resolver=make_resolver(store)))
    with pytest.raises(ConfigError, match="store"):
        check_log(scene.log)
    with pytest.raises(ConfigError):
        check_log(scene.log, ReplayExtras(resolver=lambda _: []))


def record_session(folder: Path) -> Path:
    """Return the log of a session with most features."""
    lines: list[ScriptedAnswer] = [
        call_message(call("task", "a", name="Ann", prompt="Hi"), call("look", "b", place_name="y")),
        call_message(call("pay", "c"), text="Now."),
        "Done.",
    ]

    @tool
    def pay() -> str:
        """Pay."""
        return "paid"

    model = script_model(
        main=lines, Ann=[call_message(call("look", "d", place_name="z")), "Hello."]
    )
    scene = open_stage(folder, model, tools=[look, pay])
    watch(scene, response=lambda _: Comment("ok"))
    scene.ask("Go.")
    scene.session.close()
    return scene.log


def test_session_truncated_anywhere_is_replayed_up_to_its_end(
    tmp_path: Path,
) -> None:
    log = record_session(tmp_path)
    lines = len(log.read_text().splitlines())
    failures = []
    for count_ in range(4, lines + 1):
        result = check_log(cut_after(log, count_), ReplayExtras(tools=[look]))
        if result.difference is not None:
            failures.append((count_, result.difference.before, result.difference.after))
    # Only missing reviews of hooks are added: the log does not show that they are missing.
    assert all(before == {} for _, before, _ in failures), failures


def test_session_resumed_after_a_crash_is_replayed(tmp_path: Path) -> None:
    log = record_session(tmp_path)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    ends = [n for n, line in enumerate(lines, 1) if line.get("event_type") == "llm_request"]
    ends += [n for n, line in enumerate(lines, 1) if line.get("tool_calls")]
    for end in ends:
        later = resume(
            cut_after(log, end), script_model(main=["-", "-", "-", "-"], Ann=["-", "-"]), look
        )
        later.ask("Are you there?")
        later.session.close()
        same(later.log, ReplayExtras(tools=[look]))


def test_manual_entries_are_accepted_unchanged(tmp_path: Path) -> None:
    with LogBuilder(tmp_path) as by_hand:
        by_hand.hears(by_hand.root, "Hi")
        by_hand.says(by_hand.root, "I say this by hand.")
        call_message = by_hand.calls(by_hand.root, ("look", "{}"))
        by_hand.result(by_hand.root, call_message, "a cat")
        log = by_hand.session.path
    runtime = AgentRuntime(model=script_model(Root=["-", "-", "Yes."]))
    root, session = load_session(log, runtime=runtime, options=fast_options())
    run(root.response("And?"))
    session.close()
    same(log)


def test_replay_sends_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    log = record_session(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    same(log)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


def test_unreplayable_session_is_refused(tmp_path: Path) -> None:
    with LogBuilder(tmp_path) as by_hand:
        log = by_hand.session.path
        agent = by_hand.session.allocate_agent_id()
        by_hand.session.log_agent_created(
            agent,
            by_hand.session.state.agents[by_hand.root].birth,
            spec=AgentSpec(foreign=ForeignAgent()),
        )
    with pytest.raises(ConfigError, match="another program"):
        check_log(log)
    with pytest.raises(ConfigError, match="has no agent"):
        check([])
