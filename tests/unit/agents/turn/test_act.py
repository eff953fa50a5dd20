"""Several calls of one message: what runs beside what, and in which order results come."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harken import Agent, FunctionModel, SmartAgent, Tool, tool
from harken.agents.agent import log_birth
from harken.core.messages import ToolCall
from harken.errors import ModelError
from harken.llm.base import ModelRequest
from tests.agent_kit import (
    ScriptedAnswer,
    ScriptModel,
    Stage,
    call,
    call_message,
    check_log,
    fails_once,
    open_stage,
    request_texts,
    run,
    script_model,
)


@dataclass
class Meeting:
    """Where calls wait until so many are there: only those that overlap ever get on."""

    needed: int
    there: list[str] = field(default_factory=list)
    now: list[str] = field(default_factory=list)
    most: int = 0
    full: asyncio.Event = field(default_factory=asyncio.Event)

    async def join(self, name: str) -> str:
        self.there.append(name)
        self.now.append(name)
        self.most = max(self.most, len(self.now))
        if len(self.there) >= self.needed:
            self.full.set()
        try:
            await asyncio.wait_for(self.full.wait(), 1)
        except TimeoutError:
            return f"{name} was alone"
        finally:
            self.now.remove(name)
        return f"{name} met {self.needed - 1}"

    def tool(self, name: str, *, reads_only: bool) -> Tool:
        @tool(name=name, reads_only=reads_only)
        async def join(who: str) -> str:
            """Join the meeting."""
            return await self.join(who)

        return join


def together(
    folder: Path, meeting: Meeting, *made: ToolCall, **parts: list[ScriptedAnswer]
) -> Stage:
    tools = [meeting.tool("look", reads_only=True), meeting.tool("write", reads_only=False)]
    one = open_stage(
        folder, script_model(main=[call_message(*made), "Done."], **parts), tools=tools
    )
    assert one.ask("Go.") == "Done."
    check_log(one.log)
    return one


def results(one: Stage) -> list[str]:
    """Return the results as the agent's model reads them."""
    return [entry["content"] for entry in one.root.transcript if entry["role"] == "tool"]


@pytest.mark.req("S4-19")
def test_tools_that_only_read_run_beside_each_other(tmp_path: Path) -> None:
    made = [call("look", f"c{n}", who=str(n)) for n in range(3)]
    one = together(tmp_path, Meeting(3), *made)
    assert results(one) == ["0 met 2", "1 met 2", "2 met 2"]


@pytest.mark.req("S4-19")
def test_tools_that_change_the_world_run_one_at_a_time_in_order(tmp_path: Path) -> None:
    order: list[str] = []

    @tool
    async def write(who: str) -> str:
        """Write."""
        order.append(f"{who} begins")
        for _ in range(5):
            await asyncio.sleep(0)
        order.append(f"{who} ends")
        return who

    @tool
    def write_too(who: str) -> str:
        """Write, in a thread."""
        order.append(f"{who} begins")
        order.append(f"{who} ends")
        return who

    made = call_message(
        call("write", "c1", who="a"),
        call("write_too", "c2", who="b"),
        call("write", "c3", who="c"),
    )
    one = open_stage(tmp_path, script_model(main=[made, "Done."]), tools=[write, write_too])
    one.ask("Go.")
    assert order == [f"{who} {what}" for who in "abc" for what in ("begins", "ends")]
    assert results(one) == ["a", "b", "c"]


@pytest.mark.req("S4-19")
def test_reading_waits_for_what_was_to_be_written_before_it(tmp_path: Path) -> None:
    seen: list[str] = []

    @tool
    async def write() -> str:
        """Write."""
        await asyncio.sleep(0)
        seen.append("written")
        return "written"

    @tool(reads_only=True)
    async def read() -> str:
        """Read."""
        return ",".join(seen)

    made = call_message(call("read", "c1"), call("write", "c2"), call("read", "c3"))
    one = open_stage(tmp_path, script_model(main=[made, "Done."]), tools=[read, write])
    one.ask("Go.")
    assert results(one) == ["", "written", "written"]


@pytest.mark.req("S4-19")
def test_calls_on_different_subtrees_run_beside_each_other(tmp_path: Path) -> None:
    meeting = Meeting(2)
    lines: list[ScriptedAnswer] = [lambda request: meeting.join(request.agent)]
    one = together(
        tmp_path,
        meeting,
        call("task", "c1", name="Ann", prompt="Go."),
        call("task", "c2", name="Bob", prompt="Go."),
        Ann=lines,
        Bob=lines,
    )
    assert results(one) == ["Ann met 1", "Bob met 1"]
    assert meeting.most == 2
    # In the log the two runs are interleaved: Bob's model is asked before Ann's has answered.
    order = [
        (r["event_type"], r["agent_id"])
        for r in one.select_lines()
        if r["event_type"].startswith("llm")
    ]
    ann, bob = one.id_of("Ann"), one.id_of("Bob")
    assert order.index(("llm_request", bob)) < order.index(("llm_response", ann))


@pytest.mark.req("S4-19")
def test_a_subtree_and_a_tool_run_beside_each_other(tmp_path: Path) -> None:
    meeting = Meeting(2)
    one = together(
        tmp_path,
        meeting,
        call("write", "c1", who="main"),
        call("task", "c2", name="Ann", prompt="Go."),
        Ann=[lambda request: meeting.join(request.agent)],
    )
    assert results(one) == ["main met 1", "Ann met 1"]


@pytest.mark.req("S4-19")
@pytest.mark.parametrize("first_ends", ["last", "first"])
def test_results_come_in_the_order_of_the_calls(tmp_path: Path, first_ends: str) -> None:
    other_done = asyncio.Event()

    async def slow(request: ModelRequest) -> str:
        await other_done.wait()
        return request.agent

    async def fast(request: ModelRequest) -> str:
        other_done.set()
        return request.agent

    ann, bob = (slow, fast) if first_ends == "last" else (fast, slow)
    one = together(
        tmp_path,
        Meeting(1),
        call("task", "c1", name="Ann", prompt="Go."),
        call("task", "c2", name="Bob", prompt="Go."),
        Ann=[ann],
        Bob=[bob],
    )
    assert results(one) == ["Ann", "Bob"]


@pytest.mark.req("S4-19", "S4-20")
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            call("task", "c1", name="Ann", prompt="A."),
            call("discuss", "c2", prompt="B.", speakers=["Ann"]),
        ),
        (call("task", "c1", name="Ann", prompt="A."), call("discuss", "c2", prompt="B.")),
        (
            call("task", "c1", name="Ann", prompt="A."),
            call("discuss", "c2", prompt="B.", listeners=["Ann"], speakers=["Old"]),
        ),
    ],
    ids=["named", "default", "listener"],
)
def test_calls_on_the_same_subtree_run_one_after_the_other(
    tmp_path: Path, first: ToolCall, second: ToolCall
) -> None:
    one = open_stage(
        tmp_path,
        script_model(
            main=[
                call_message(call("task", "c0", name="Old")),
                call_message(first, second),
                "Done.",
            ],
            Ann=["A1", "A2"],
            Old=["O1"],
        ),
    )
    assert one.ask("Go.") == "Done."
    assert one.user_messages("Ann")[:2] == ["A.", "B."]
    said, heard = (
        one.select_lines(content=text, agent_id=one.id_of("Ann"))[0] for text in ("A1", "B.")
    )
    assert said["message_id"] < heard["message_id"]
    assert one.result("c2")["content"] in {"A2", "[Old]: O1"}
    check_log(one.log)


def test_who_an_agent_talks_with_is_set_in_the_order_of_its_calls(tmp_path: Path) -> None:
    made = [
        call("task", "c1", name="Kim", instructions="You."),
        call("discuss", "c2", speakers=["Kim"], prompt="Talk."),
        call("task", "c3", name="Ann", instructions="You."),
    ]
    one = open_stage(tmp_path, script_model(main=[call_message(*made), "Done."], Kim=["Hi."]))
    assert one.ask("Go.") == "Done."
    assert one.root.state.speakers == [one.id_of("Ann")]
    check_log(one.log)


@pytest.mark.req("S4-19", "S4-17")
def test_an_agent_is_not_terminated_while_it_speaks(tmp_path: Path) -> None:
    one = together(
        tmp_path,
        Meeting(1),
        call("task", "c1", name="Ann", prompt="A."),
        call("terminate", "c2", name="Ann"),
        call("task", "c3", name="Ann", prompt="B."),
        Ann=["First.", "Second."],
    )
    assert results(one) == ["First.", "Terminated subagent: Ann", "First."]
    assert [r["agent_id"] for r in one.select_lines(event_type="agent_created", name="Ann")] == [
        "agent_002",
        "agent_003",
    ]


@pytest.mark.req("S4-19")
def test_a_parent_waits_for_all_before_it_goes_on(tmp_path: Path) -> None:
    model = script_model(
        main=[
            call_message(*(call("task", f"c{n}", name=f"A{n}", prompt="Go.") for n in range(5))),
            lambda request: " ".join(request_texts(request)[-5:]),
        ],
        **{f"A{n}": [str(n)] for n in range(5)},
    )
    assert open_stage(tmp_path, model).ask("Go.") == "0 1 2 3 4"


@pytest.mark.req("S4-03", "S4-19")
def test_one_failing_call_does_not_hinder_the_others(tmp_path: Path) -> None:
    @tool
    def fail() -> str:
        """Fail."""
        raise RuntimeError("no")

    @tool
    def work() -> str:
        """Work."""
        return "done"

    made = call_message(
        call("fail", "c1"), call("work", "c2"), call("fail", "c3"), call("nope", "c4")
    )
    one = open_stage(tmp_path, script_model(main=[made, "Done."]), tools=[fail, work])
    one.ask("Go.")
    assert [text.split(":")[0] for text in results(one)] == ["Error", "done", "Error", "Error"]


@pytest.mark.req("S4-04", "S4-19")
def test_where_a_model_fails_what_was_done_beside_it_is_kept(tmp_path: Path) -> None:
    done: list[str] = []

    @tool
    async def work(n: int) -> str:
        """Work."""
        done.append(f"work {n}")
        return f"worked {n}"

    model = script_model(
        main=[
            call_message(
                call("work", "c1", n=1),
                call("task", "c2", name="Ann", prompt="Go."),
                call("work", "c3", n=3),
                call("task", "c4", name="Bob", prompt="Go."),
            ),
            "Ann was asked again.",
        ],
        Ann=[fails_once("A.")],
        Bob=["B."],
    )
    one = open_stage(tmp_path, model, tools=[work])
    with pytest.raises(ModelError, match="overloaded"):
        one.ask("Go.")
    assert done == ["work 1", "work 3"]
    logged = [row["content"] for row in one.select_lines(role="tool", agent_id="agent_001")]
    assert sorted(logged) == ["B.", "worked 1", "worked 3"]
    later = one.resume()
    assert later.ask() == "Ann was asked again."
    assert done == ["work 1", "work 3"]
    assert results(later) == ["worked 1", "A.", "worked 3", "B."]
    check_log(later.log)


@pytest.mark.req("S4-04", "S4-19")
def test_what_depends_on_a_call_whose_model_failed_is_not_run(tmp_path: Path) -> None:
    model = script_model(
        main=[
            call_message(
                call("task", "c1", name="Ann", prompt="Go."), call("terminate", "c2", name="Ann")
            ),
            "Neither was done.",
        ],
        Ann=[ModelError("overloaded"), "A."],
    )
    one = open_stage(tmp_path, model)
    with pytest.raises(ModelError):
        one.ask("Go.")
    assert list(one.root.subagents) == ["Ann"]
    later = one.resume()
    assert later.ask("Never mind.") == "Neither was done."
    assert list(later.root.subagents) == ["Ann"]


@pytest.mark.req("S1-08")
def test_agents_that_answer_at_once_give_unique_ids_and_whole_lines(tmp_path: Path) -> None:
    async def chatter(request: ModelRequest) -> str:
        for _ in range(len(request.agent) % 5):
            await asyncio.sleep(0)
        return f"I am {request.agent}."

    names = [f"agent{n}" * (n % 4 + 1) for n in range(20)]
    made = call_message(*(call("task", f"c{n}", name=name) for n, name in enumerate(names)))
    one = open_stage(
        tmp_path, ScriptModel({"main": [made, "Done."], **{name: [chatter] * 5 for name in names}})
    )
    one.ask("Go.")

    async def everybody() -> list[str]:
        agents = one.root.subagents.values()
        return [
            str(said)
            for _ in range(3)
            for said in await asyncio.gather(*(agent.response("Who are you?") for agent in agents))
        ]

    assert run(everybody()) == [f"I am {name}." for name in names] * 3
    ids = [row["message_id"] for row in one.select_lines()]
    assert ids == [f"msg_{n:03d}" for n in range(len(ids))]
    check_log(one.log)


@pytest.mark.req("S4-19")
def test_tools_of_different_subtrees_change_the_world_one_at_a_time_too(tmp_path: Path) -> None:
    meeting = Meeting(1)
    one = together(
        tmp_path,
        meeting,
        *(call("task", name, name=name, prompt="Write.") for name in ("Ann", "Bob")),
        call("write", "own", who="main"),
        Ann=[call_message(call("write", who="Ann")), "A."],
        Bob=[call_message(call("write", who="Bob")), "B."],
    )
    assert results(one) == ["A.", "B.", "main met 0"]
    assert (sorted(meeting.there), meeting.most) == (["Ann", "Bob", "main"], 1)


@pytest.mark.req("S4-18", "S4-19")
def test_a_tool_may_let_agents_act_who_change_the_world_in_turn(tmp_path: Path) -> None:
    """A tool that holds the world for itself must not make those wait who work for it."""
    holder: list[Agent] = []
    meeting = Meeting(1)

    @tool
    async def research(topic: str) -> str:
        """Let two agents write."""
        root = holder[0]
        [made] = root.state.open_calls.values()
        agents = [SmartAgent(root.session, runtime=root.runtime) for _ in range(2)]
        for name, agent in zip(("Ann", "Bob"), agents, strict=True):
            log_birth(agent, made.reference, name, "subagent")
        return " ".join(await asyncio.gather(*(agent.response(topic) for agent in agents)))

    model = script_model(
        main=[call_message(call("research", topic="tea")), "Done."],
        Ann=[call_message(call("write", who="Ann")), "A."],
        Bob=[call_message(call("write", who="Bob")), "B."],
    )
    one = open_stage(tmp_path, model, tools=[research, meeting.tool("write", reads_only=False)])
    holder.append(one.root)
    assert one.ask("Research.") == "Done."
    assert one.result()["content"] == "A. B."
    assert (meeting.there, meeting.most) == (["Ann", "Bob"], 1)
    check_log(one.log)


def test_a_world_is_shared_by_sessions_that_run_one_after_the_other(tmp_path: Path) -> None:
    """Each `asyncio.run` has an event loop of its own; a lock of an earlier one is of no use."""
    meeting = Meeting(1)
    made = call_message(
        *(call("task", name, name=name, prompt="Write.") for name in ("Ann", "Bob"))
    )
    lines: list[ScriptedAnswer] = [
        made,
        "Done.",
        call_message(
            call("discuss", speakers=["Ann"], prompt="x"),
            call("discuss", "y", speakers=["Bob"], prompt="x"),
        ),
        "Done.",
    ]
    part: list[ScriptedAnswer] = [call_message(call("write", who="w")), "-"] * 2
    one = open_stage(
        tmp_path,
        script_model(main=lines, Ann=part, Bob=part),
        tools=[meeting.tool("write", reads_only=False)],
    )
    assert one.ask("Go.") == "Done."
    meeting.full = asyncio.Event()
    meeting.full.set()
    assert one.ask("Again.") == "Done."
    assert (len(meeting.there), meeting.most) == (4, 1)


def test_the_model_of_a_function_may_be_shared_by_concurrent_agents(tmp_path: Path) -> None:
    model = FunctionModel(
        lambda request: (
            request.agent
            if request.agent != "main"
            else (
                request_texts(request)[-1]
                if request.messages[-1].role == "tool"
                else call_message(
                    call("task", "a", name="Ann", prompt="?"),
                    call("task", "b", name="Bob", prompt="?"),
                )
            )
        )
    )
    assert open_stage(tmp_path, model).ask("Go.") == "Bob"
