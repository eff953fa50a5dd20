"""A dumb agent as an action of a model: code creates smart agents, and hooks watch all of them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from harken import (
    Agent,
    AgentRuntime,
    Deny,
    DumbAgent,
    Hook,
    HookQuestion,
    LocalWorld,
    Ok,
    register_agent_class,
    tool,
)
from harken.agents.action_schemas import ACTIONS
from harken.agents.agent import log_birth
from harken.agents.hooks.options import HookOptions
from harken.agents.runtime import ActionPolicy
from harken.agents.tree.actions import create_hook_copies, install_hooks
from harken.core.event_types.spec import HookPoint
from harken.core.verdict import Verdict
from harken.llm.base import ModelRequest
from harken.world.tool import ToolContext
from tests.agent_kit import Stage, call, call_message, check_log, full_state, open_stage, run
from tests.unit.agents.crash_kit import cut_after
from tests.unit.agents.hook_kit import SENT, send, unguarded
from tests.unit.agents.smart_hooks import Cast, last, texts

PAPERS = ("tea", "coffee")


@register_agent_class("test-survey")
class Survey(DumbAgent):
    """Creates one smart reader for each paper, asks it, and compiles the answers by code."""

    async def answer(self, input: str) -> str:
        answers = []
        for paper in PAPERS:
            reader = self.subagents.get(paper) or await self.task(paper, f"You read {paper}.")
            answers.append(str(await reader.response(input)))
        return "; ".join(answers)


@tool
async def survey(question: str, context: ToolContext) -> str:
    """Let a survey answer a question."""
    above = context.agent
    agent = Survey(above.session, runtime=above.runtime)
    hooks = create_hook_copies(agent, above)
    with above.session.group():
        log_birth(agent, context.call, "survey", "subagent")
        install_hooks(hooks, agent)
    return str(await agent.response(question))


class Limit(HookOptions, frozen=True):
    sends: int = 3


@register_agent_class("test-sends")
class Sends(Hook):
    """Lets an agent send a number of texts; the copy for a subagent allows fewer."""

    points: ClassVar[frozenset[HookPoint]] = frozenset({"action"})
    Options = Limit
    options: Limit

    def begin(self) -> None:
        self.sent = 0

    def judge(self, question: HookQuestion) -> Verdict:
        if question.call is None or question.call.function.name != "send":
            return Ok()
        if self.sent >= self.options.sends:
            return Deny(f"{self.sent} of {self.options.sends} were sent")
        self.sent += 1
        return Ok()

    def copy_for(self, agent: Agent) -> Hook:
        limit = Limit(sends=self.options.sends - 1)
        return type(self)(agent.session, runtime=agent.runtime, options=limit)

    def dump_state(self) -> Any:
        return {"sent": self.sent}

    def load_saved_state(self, saved: Mapping[str, Any]) -> None:
        self.sent = saved["sent"]


def main(request: ModelRequest) -> Any:
    return last(request).content if last(request).role == "tool" else call_message(ASKS)


ASKS = call("survey", "s1", question="Is it hot?")


def reads(request: ModelRequest) -> Any:
    """Send two texts, as two calls one after the other, then say how many were sent."""
    acted = sum(message.role == "assistant" for message in request.messages)
    if acted < 2:
        return call_message(call("send", f"c{acted}", text=f"{request.agent} {acted}"))
    sent = sum(text.startswith("sent ") for text in texts(request))
    return f"{request.agent}: {sent} sent"


def surveying(folder: Path, cast: Cast) -> Stage:
    runtime = AgentRuntime(
        model=cast.model(), world=LocalWorld([survey, send]), policy=ActionPolicy(actions=ACTIONS)
    )
    return open_stage(folder, cast.model(), runtime=runtime)


def surveyed(folder: Path) -> tuple[Stage, Hook]:
    one = surveying(folder, Cast(main=main, tea=reads, coffee=reads))
    return one, Sends(one.session, runtime=one.runtime).install(one.root, "sends")


@pytest.mark.req("S4-18")
def test_a_model_calls_code_that_launches_smart_agents_by_itself(tmp_path: Path) -> None:
    cast = Cast(main=main, tea=reads, coffee=reads)
    one = surveying(tmp_path, cast)
    assert one.ask("Find out.") == "tea: 2 sent; coffee: 2 sent"
    assert SENT == ["tea 0", "tea 1", "coffee 0", "coffee 1"]
    assert {request.agent for request in cast.asked} == {"main", "tea", "coffee"}  # code decides
    kinds = {state.name: (state.spec.kind, state.parent) for state in one.session.agents.values()}
    agent = one.id_of("survey")
    assert kinds["survey"] == ("test-survey", one.root.agent_id)
    assert kinds["tea"] == kinds["coffee"] == ("smart", agent)
    for paper in PAPERS:  # the log says by which call of the code each agent was created
        [birth] = one.select_lines(event_type="agent_created", name=paper)
        [made] = [
            row
            for row in one.select_lines(agent_id=agent, role="assistant")
            if f'"{paper}"' in str(row.get("tool_calls", "")).replace("\\", "")
        ]
        assert made["message_id"] in str(birth["cause"])
        assert one.user_messages(paper) == ["Is it hot?"]
    check_log(one.log)


@pytest.mark.req("S4-18", "S4-29")
def test_each_child_of_code_gets_a_copy_of_its_own_which_may_differ(tmp_path: Path) -> None:
    """The hook allows 3 texts, its copy for the code 2, and the copies of that for readers 1."""
    one, guard = surveyed(tmp_path)
    assert one.ask("Find out.") == "tea: 1 sent; coffee: 1 sent"
    assert SENT == ["tea 0", "coffee 0"]
    code = one.root.subagents["survey"]
    copies = {agent.name: agent.hooks for agent in (code, *code.subagents.values())}
    assert {name: [hook.state.spec.options for hook in copies[name]] for name in copies} == {
        "survey": [{"sends": 2}],
        "tea": [{"sends": 1}],
        "coffee": [{"sends": 1}],
    }
    saved = {name: hooks[0].state.saved_state for name, hooks in copies.items()}
    assert {name: saved[name] for name in PAPERS} == {paper: {"sent": 1} for paper in PAPERS}
    assert saved["survey"] in (None, {"sent": 0})
    assert guard.state.saved_state in (None, {"sent": 0})
    for paper in PAPERS:
        denied = one.result("c1", paper)["content"]
        assert denied == "Error: Action blocked by hook 'sends': 1 of 1 were sent"
    assert unguarded(one.session, guard.agent_id) == []
    assert full_state(one.resume().session) == full_state(one.session)
    check_log(one.log)


@pytest.mark.req("S4-29")
def test_children_of_code_are_watched_after_a_crash_at_any_line(tmp_path: Path) -> None:
    """No child is in any prefix of the log without its copy, and no copy counts from zero again."""
    one, guard = surveyed(tmp_path)
    one.ask("Find out.")
    one.session.close()
    lines = len(one.log.read_bytes().splitlines())
    asked = next(
        at for at, row in enumerate(one.select_lines(), 1) if row.get("content") == "Find out."
    )
    for kept in range(asked, lines):
        SENT.clear()
        cut = cut_after(one.log, kept)
        folder = tmp_path / f"cut-{kept}"
        folder.mkdir()
        (folder / "s.jsonl").write_bytes(cut.read_bytes())
        later = surveying(folder, Cast(main=main, tea=reads, coffee=reads))
        assert unguarded(later.session, guard.agent_id) == [], kept
        later.ask()
        assert unguarded(later.session, guard.agent_id) == [], kept
        rows = later.select_lines(role="tool", name="send")
        for paper in PAPERS:
            sent = [row for row in rows if row["content"] == f"sent {paper} 0"]
            others = [row for row in rows if row["content"].startswith(f"sent {paper} 1")]
            assert len(sent) <= 1, kept
            assert not others or not sent, kept
        later.session.close()


def test_code_can_ask_an_agent_that_it_created_before(tmp_path: Path) -> None:
    one, _ = surveyed(tmp_path)
    one.ask("Find out.")
    agent = one.root.subagents["survey"]
    readers = agent.subagents
    run(agent.response("And now?"))
    assert agent.subagents == readers
    assert one.user_messages("tea") == ["Is it hot?", "And now?"]
