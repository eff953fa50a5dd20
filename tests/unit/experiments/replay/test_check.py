"""A session that is played again goes the same, whatever happened in it; a changed one does not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
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
from tests.unit.agents.compacting import WORDS, begin, talk
from tests.unit.agents.cutting import cut_after, resume
from tests.unit.agents.hooking import Judging, send, watch
from tests.unit.agents.test_dumb_agent import Echo
from tests.unit.views.play import Play
from tests.unit.world.permissions.people import NO, YES, Person


@tool
def count(what: str) -> str:
    """Count."""
    raise LookupError(what)


@tool(reads_only=True)
def look(at: str) -> str:
    """Look."""
    return f"{at}: a cat"


def checked(log: Path, own: ReplayExtras | None = None) -> ReplayCheck:
    return check(SessionViewer(log).events, own)


def same(log: Path, own: ReplayExtras | None = None) -> ReplayCheck:
    """Check that a session goes the same again; return what came of it."""
    done = checked(log, own)
    assert done.difference is None, (done.difference, done.miss_text, done.notes)
    assert done.requests
    return done


def edited(log: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """Write a log anew with some lines changed, without the sums."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        line.pop("sum", None)
        change(line)
    file = log.with_name("edited.jsonl")
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def test_the_demo_goes_the_same(tmp_path: Path) -> None:
    play_demo(tmp_path / "demo.jsonl")
    done = same(tmp_path / "demo.jsonl")
    assert (done.agents, done.requests) == (4, 9)


def test_tools_subagents_and_discussions_go_the_same_and_no_tool_runs(tmp_path: Path) -> None:
    ran: list[str] = []

    @tool
    def note(text: str) -> str:
        """Note."""
        ran.append(text)
        return f"{len(ran)}"

    lines: list[ScriptedAnswer] = [
        call_message(call("task", "a", name="Ann", prompt="Hi"), call("task", "b", name="Bob")),
        call_message(call("note", "c", text="x"), call("look", "d", at="y"), call("nope", "e")),
        call_message(call("note", "f", text="x"), call("count", "g", what="z")),
        call_message(call("discuss", "h", prompt="Talk.", speakers=["Ann", "Bob"])),
        call_message(call("terminate", "i", name="Bob"), call("discuss", "j", prompt="And?")),
        "Done.",
    ]
    parts: dict[str, list[ScriptedAnswer]] = {
        "Ann": [call_message(call("note", "k", text="ann")), "Hello.", "Yes.", "Well."],
        "Bob": ["Hm.", call_message(call("task", "l", name="Cleo", prompt="?")), "No."],
        "Cleo": ["Here."],
    }
    one = open_stage(tmp_path, script_model(main=lines, **parts), tools=[note, look, count])
    one.ask("Go.")
    one.ask("Go on.")
    before = list(ran)
    done = same(one.log)
    assert (done.agents, ran) == (3, before)


async def plan(agent: Agent, command: str) -> ToolResult:
    start_planning(agent, command)
    return ToolResult("On.")


async def no_plan(agent: Agent, command: str) -> ToolResult:
    assert stop_planning(agent, command)
    return ToolResult("Off.")


def test_what_the_user_did_with_commands_is_done_again(tmp_path: Path) -> None:
    """Also where agents have more actions than they have of themselves."""
    parts: dict[str, list[ScriptedAnswer]] = {
        "Ann": ["Tea.", "Really tea.", "I answer now.", "Still me."],
        "Bob": ["No."],
        "critic": ["OK", "OK", "OK", "OK", "OK"],
    }
    runtime = AgentRuntime(
        model=script_model(main=["Hm.", "OK", "OK", "I am back."], **parts),
        policy=ActionPolicy(actions=ACTIONS),
    )
    one = open_stage(tmp_path, runtime.model, runtime=runtime)  # type: ignore[arg-type]
    talk = Conversation(one.root)

    def do(action: str, **arguments: Any) -> None:
        checked = ACTIONS[action].check(arguments)
        run(
            run_user_command(
                talk.primary, f"/{action}", lambda agent, said: RUN[action](agent, said, checked)
            )
        )

    do("task", name="Ann", prompt="Tea or coffee?")
    do("task", name="Bob", instructions="You are Bob.")
    do("terminate", name="nobody")
    one.ask("What did she say?")
    run(run_user_command(one.root, "/plan true", plan))
    run(run_user_command(one.root, "/plan false", no_plan))
    do("hook", name="critic", instructions="Watch.", points=["response"])
    do("discuss", prompt="Sure?", speakers=["Ann", "Bob"])
    do("endo", subagent="Ann", prompt="Answer for me.", points=["response"])
    run(talk.say())
    run(talk.say("Who is there?"))
    do("talk_with", name="main")
    assert run(talk.say("Back?")) == "I am back."
    same(one.log)


def test_what_hooks_did_is_done_again_by_stand_ins_and_by_their_code(tmp_path: Path) -> None:
    lines: list[ScriptedAnswer] = [
        call_message(call("send", text="tea")),
        call_message(call("task", "t", name="Ann")),
        "no",
    ]
    one = open_stage(tmp_path, script_model(main=[*lines, "yes", "Bye."]), tools=[send])

    def judge(question: HookQuestion) -> Any:
        if question.call is not None and question.call.function.name == "task":
            return Deny("alone")
        return Rewrite('{"text": "coffee"}') if "tea" in question.text else Comment("hm")

    def answer(question: HookQuestion) -> Any:
        if question.text == "no":
            return Deny("be kind")
        return Rewrite("Bye, dear.") if question.text == "Bye." else None

    watch(one, action=judge, response=answer, input=lambda q: Comment("He is back."))
    watch(one, "broken", result=lambda q: 1 / 0)
    one.ask("Go.")
    one.ask("And now?")
    one.session.close()
    same(one.log)

    class Other(Judging):
        """The same hook, whose code has changed."""

        def judge(self, question: HookQuestion) -> Any:
            return Deny("not any more") if question.point == "action" else super().judge(question)

    done = checked(one.log, ReplayExtras(kinds={"test-judge": Other}))
    assert done.difference is not None


def test_hooks_that_save_state_and_copies_for_subagents_go_the_same(tmp_path: Path) -> None:
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
    one = open_stage(
        tmp_path,
        script_model(main=lines, Ann=[call_message(call("send", text="x")), "Hi"]),
        tools=[send],
    )
    Counting(one.session, runtime=one.runtime).install(one.root, "counting")
    one.ask("Go.")
    one.session.close()
    assert same(one.log).agents == 4


def test_dumb_agents_say_again_what_they_said(tmp_path: Path) -> None:
    lines: list[ScriptedAnswer] = [
        call_message(call("discuss", prompt="One.", speakers=["Echo"])),
        "Done.",
    ]
    one = open_stage(tmp_path, script_model(main=lines))
    log_birth(
        Echo(one.session, "Unused.", runtime=one.runtime), one.root.state.birth, "Echo", "subagent"
    )
    one.ask("Go.")
    one.session.close()
    same(one.log)
    same(one.log, ReplayExtras(kinds={"test-echo": Echo}))

    class Louder(Echo):
        async def answer(self, heard: str) -> str:
            return (await super().answer(heard)).upper()

    done = checked(one.log, ReplayExtras(kinds={"test-echo": Louder}))
    assert done.difference is not None
    assert done.difference.after["content"] == "1: ONE."
    assert "nearest is" in done.miss_text


def test_compactions_come_where_they_came(tmp_path: Path) -> None:
    scene = begin(tmp_path, talk(main=["one", "two", "three", "four"]), window=900)
    for text in (WORDS, WORDS, WORDS):
        scene.ask(text)
    run(scene.root.compact("the names"))
    scene.ask("And?")
    scene.stage.session.close()
    assert "compaction" in scene.stage.log.read_text()
    same(scene.stage.log)


def test_failed_and_cancelled_calls_fail_and_are_cancelled_again(tmp_path: Path) -> None:
    failed: list[int] = []
    turns: list[asyncio.Task[Any]] = []

    def fails(_: object) -> Any:
        failed.append(1)
        if len(failed) == 1:
            raise ModelError("down")
        return "two"

    class Slow(Playing):
        """Stops in the middle of an answer, until somebody cuts it off."""

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
    one = open_stage(tmp_path, model)
    one.ask("Go.")
    with pytest.raises(ModelError):
        one.ask("On.")
    one.ask()

    async def cut() -> None:
        turns.append(asyncio.create_task(one.root.response("And?")))
        await asyncio.wait(turns)
        assert turns[0].cancelled()

    run(cut())
    one.ask("Still there?")
    one.session.close()
    same(one.log)


def test_a_budget_stops_where_it_stopped(tmp_path: Path) -> None:
    lines: list[ScriptedAnswer] = [call_message(call("look", f"c{n}", at=str(n))) for n in range(5)]
    one = open_stage(tmp_path, script_model(main=lines), tools=[look], budget=Budget(model_calls=3))
    assert one.ask("Go.").startswith("[stopped]")
    one.session.close()
    same(one.log)


def test_what_the_user_answered_and_allowed_is_said_again(tmp_path: Path) -> None:
    lines: list[ScriptedAnswer] = [
        call_message(call("ask_user", "a", question="Tea?"), call("send", "b", text="x")),
        call_message(call("send", "c", text="y")),
        "Done.",
    ]
    world = LocalWorld(
        [ask_user, send], user=Person(["Green.", YES, NO]), permissions=Permissions("ask")
    )
    one = open_stage(
        tmp_path,
        script_model(main=lines),
        runtime=AgentRuntime(world=world, model=script_model(main=lines)),
    )
    one.ask("Go.")
    one.session.close()
    same(one.log)


def test_templates_and_instructions_are_those_of_then(tmp_path: Path) -> None:
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
    one = open_stage(tmp_path, model, runtime=runtime)
    one.ask("Go.")
    one.session.close()
    (folder / "cook.md").unlink()
    (tmp_path / "ann.txt").unlink()
    same(one.log)


def test_new_models_names_and_places_are_given_again(tmp_path: Path) -> None:
    one = open_stage(tmp_path, script_model(main=["one", "two"]))
    one.ask("Go.")
    other = script_model(main=["-", "two"])
    other.name = "other"
    two = one.resume(other)
    two.ask("And?")
    two.session.close()
    same(two.log)


def test_a_session_that_began_from_a_commit_goes_the_same_where_the_store_is_there(
    tmp_path: Path,
) -> None:
    store = MemoryStore(clock=ticking())
    said = [Message("user", "a"), Message("assistant", "b")]
    ctx = checkpoint(store, CommitDraft(messages=said, created_at="2026-01-01T00:00:00Z"))
    options = SessionOptions(durability="none", clock=ticking(), resolver=make_resolver(store))
    one = open_stage(tmp_path, script_model(main=["-", "Yes."]), options=options)
    start_from_commit(one.root, ctx)
    one.ask("Go.")
    one.session.close()
    same(one.log, ReplayExtras(resolver=make_resolver(store)))
    with pytest.raises(ConfigError, match="store"):
        checked(one.log)
    with pytest.raises(ConfigError):
        checked(one.log, ReplayExtras(resolver=lambda _: []))


def whole(folder: Path) -> Path:
    """Return the log of a session with a bit of everything."""
    lines: list[ScriptedAnswer] = [
        call_message(call("task", "a", name="Ann", prompt="Hi"), call("look", "b", at="y")),
        call_message(call("pay", "c"), text="Now."),
        "Done.",
    ]

    @tool
    def pay() -> str:
        """Pay."""
        return "paid"

    model = script_model(main=lines, Ann=[call_message(call("look", "d", at="z")), "Hello."])
    one = open_stage(folder, model, tools=[look, pay])
    watch(one, response=lambda _: Comment("ok"))
    one.ask("Go.")
    one.session.close()
    return one.log


def test_a_session_that_was_cut_off_anywhere_goes_the_same_as_far_as_it_went(
    tmp_path: Path,
) -> None:
    log = whole(tmp_path)
    lines = len(log.read_text().splitlines())
    odd = []
    for count_ in range(4, lines + 1):
        done = checked(cut_after(log, count_), ReplayExtras(tools=[look]))
        if done.difference is not None:
            odd.append((count_, done.difference.before, done.difference.after))
    # Only what a hook has not judged yet is more than there was: nobody knows that it is missing.
    assert all(before == {} for _, before, _ in odd), odd


def test_a_session_that_was_resumed_after_a_crash_goes_the_same(tmp_path: Path) -> None:
    log = whole(tmp_path)
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


def test_a_changed_answer_is_found_where_it_stands(tmp_path: Path) -> None:
    log = whole(tmp_path)

    def change(line: dict[str, Any]) -> None:
        if line.get("content") == "paid":
            line["content"] = "not paid"

    found = checked(edited(log, change)).difference
    assert found is not None
    assert (found.agent_key, found.before["event_type"]) == ("main", "llm_request")
    assert found.before["context_hash"] != found.after["context_hash"]


def test_a_changed_call_is_found(tmp_path: Path) -> None:
    def other_tool(line: dict[str, Any]) -> None:
        for made in line.get("tool_calls", ()):
            if made["function"]["name"] == "pay":
                made["function"]["name"] = "play"

    found = checked(edited(whole(tmp_path), other_tool)).difference
    assert found is not None
    assert found.agent_key == "main"
    assert "'play'" in str(found.after["content"])


def test_entries_that_a_program_logged_by_hand_are_taken_as_they_are(tmp_path: Path) -> None:
    with Play(tmp_path) as by_hand:
        by_hand.hears(by_hand.root, "Hi")
        by_hand.says(by_hand.root, "I say this by hand.")
        made = by_hand.calls(by_hand.root, ("look", "{}"))
        by_hand.result(by_hand.root, made, "a cat")
        log = by_hand.session.path
    runtime = AgentRuntime(model=script_model(Root=["-", "-", "Yes."]))
    root, session = load_session(log, runtime=runtime, options=fast_options())
    run(root.response("And?"))
    session.close()
    same(log)


def test_nothing_is_sent_and_nothing_stays_behind(tmp_path: Path) -> None:
    log = whole(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    same(log)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


def test_what_cannot_be_played_is_refused(tmp_path: Path) -> None:
    with Play(tmp_path) as by_hand:
        log = by_hand.session.path
        agent = by_hand.session.allocate_agent_id()
        by_hand.session.log_agent_created(
            agent, by_hand.session.state.agents[by_hand.root].birth, spec={"recorded": {}}
        )
    with pytest.raises(ConfigError, match="another program"):
        checked(log)
    with pytest.raises(ConfigError, match="no agent was born"):
        check([])
