"""A scripted session whose models and hooks ignore all sentences of Harken, and its resumes.

Code hooks judge by words of the script, and the index of a model's answer follows from the number
of its answers in the request. So two resumes of the same log differ only if Harken itself reads
its own sentences in the log.

    python -c "from tests.property.reworded_scene import print_resumes; print_resumes()" FOLDER

resumes each `*.jsonl` of a folder and prints a report for each as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harken import (
    Agent,
    AgentRuntime,
    Comment,
    Deny,
    FunctionModel,
    Hook,
    HookQuestion,
    LocalWorld,
    Ok,
    Rewrite,
    Session,
    load_session,
    register_agent_class,
    tool,
)
from harken.agents import texts
from harken.agents.open_calls import has_open_calls
from harken.agents.tree.hook_action import new_hook
from harken.core.event_types.spec import AgentSpec, Copies
from harken.core.messages import Message, text_of
from harken.core.stream import Chunk, TextDelta
from harken.core.verdict import Verdict
from harken.errors import HarkenError
from harken.llm.base import ModelRequest
from harken.world.tool import Tool
from tests.agent_kit import call, call_message, check_context, fast_options, full_state, run

FILE = "s.jsonl"
BLOCKED_ANSWER = 7
"""The index of the answer of main that never ends in the uncut session."""
MAIN: Sequence[str | Message] = (
    call_message(
        call("task", "c1", name="Ann", instructions="You are Ann.", prompt="Ready?"),
        call("task", "c2", name="Bob", instructions="You are Bob."),
    ),
    call_message(call("discuss", "c3", prompt="Tea?", speakers=["Ann", "Bob"])),
    call_message(call("send", "c4", text="forbidden"), call("look", "c5")),
    call_message(call("send", "c6", text="draft")),
    "Rude.",
    "Polite.",
    call_message(call("wait", "c7")),
    "Never finished.",
    "Secret.",
)


@register_agent_class("test-reworded-guard")
class Guard(Hook):
    """A hook in code that comments, denies and rewrites by words of the script."""

    def judge(self, question: HookQuestion) -> Verdict:
        match question.point:
            case "input" if question.text == "Wait.":
                return Comment("not long")
            case "action" if "forbidden" in question.text:
                return Deny("not that")
            case "action" if "draft" in question.text:
                return Rewrite('{"text": "final"}')
            case "result" if question.text == "saw":
                return Comment("look twice")
            case "response" if question.text == "Secret.":
                return Rewrite("Nothing.")
        return Ok()

    def copy_for(self, agent: Agent) -> Hook:
        return type(self)(agent.session, runtime=agent.runtime)


@dataclass
class SceneModel:
    """The models of all agents. Counts the requests of each."""

    blocks: bool = False
    """Whether an answer of main never ends."""
    name: str = "scene"
    counts: Counter[str] = field(default_factory=Counter)
    blocked: asyncio.Event = field(default_factory=asyncio.Event)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        check_context(request.messages)
        self.counts[request.agent] += 1
        index = sum(message.role == "assistant" for message in request.messages)
        if self.blocks and request.agent == "main" and index == BLOCKED_ANSWER:
            yield TextDelta("Never")
            await self.block()
        async for chunk in FunctionModel(lambda _: self._answer(request, index)).stream(request):
            yield chunk

    async def block(self) -> None:
        """Wait until the turn is canceled."""
        self.blocked.set()
        await asyncio.Event().wait()

    def _answer(self, request: ModelRequest, index: int) -> str | Message:
        if request.agent == "main":
            return MAIN[index] if index < len(MAIN) else f"main {index}"
        if request.agent != "judge":
            return f"{request.agent} {index}"
        is_rude = any("Rude." in text_of(message.content) for message in request.messages)
        verdict = "DENY: be polite" if is_rude else "OK"
        steps = (call_message(call("keep_note", "k1", text="it talks")), "Hm.", verdict)
        return steps[index] if index < len(steps) else verdict

    def tools(self) -> list[Tool]:
        """Return the tools of the scene."""

        @tool
        def send(text: str) -> str:
            """Send a text."""
            return f"sent {text}"

        @tool(idempotent=True)
        def look() -> str:
            """Look."""
            return "saw"

        @tool
        async def wait() -> str:
            """Wait."""
            if self.blocks:
                await self.block()
            return "waited"

        return [send, look, wait]


def open_scene(log: Path, model: SceneModel) -> tuple[Agent, Session]:
    """Open or resume the session of a log."""
    runtime = AgentRuntime(model=model, world=LocalWorld(model.tools()))
    prompt = None if log.exists() else "You are main."
    return load_session(
        log, runtime=runtime, system_prompt=prompt, name="main", options=fast_options()
    )


def play(folder: Path) -> Path:
    """Run the session to its end. Return its log."""
    log, model = folder / FILE, SceneModel(blocks=True)
    root, session = open_scene(log, model)

    async def ask() -> list[str]:
        Guard(session, runtime=root.runtime).install(root, "guard")
        judge = new_hook(
            root, "Judge.", points=["response"], spec=AgentSpec(copies=Copies(subagents=False))
        )
        judge.install(root, "judge")
        answers = [await root.response("Begin.")]
        for text in ("Wait.", "Go on."):
            model.blocked.clear()
            turn = asyncio.create_task(root.response(text))
            await model.blocked.wait()
            turn.cancel()
            await asyncio.gather(turn, return_exceptions=True)
        return [*map(str, answers), str(await root.response("Once more."))]

    with session:
        assert run(ask()) == ["Polite.", "Nothing."]
    return log


def resume(log: Path) -> dict[str, Any]:
    """Resume a log, and return all that may not depend on sentences."""
    model = SceneModel()
    root, session = open_scene(log, model)
    report: dict[str, Any] = {"is_interrupted": has_open_calls(root)}
    with session:
        report["errors"] = [
            *_attempt(root.response),
            *_attempt(lambda: root.response("Anything else?")),
        ]
        report["model_calls"] = dict(model.counts)
        report["agents"] = _describe_agents(session)
    return report


def _attempt(respond: Callable[[], Any]) -> list[str]:
    try:
        run(respond())
    except HarkenError as error:
        return [type(error).__name__]
    return []


def _describe_agents(session: Session) -> dict[str, Any]:
    """Return the states of all agents without the texts of their transcripts."""
    full_state(session)
    members = ("message_id", "role", "cause", "substance", "tool_call_id", "name", "is_error")
    return {
        state.id: {
            "name": state.name,
            "place": state.place,
            "parent": state.parent,
            "hooks": list(state.hooks),
            "open_calls": list(state.open_calls),
            "context": [
                getattr(message, "message_id", None) for message in session.context(state.id)
            ],
            "transcript": [
                [getattr(entry, name) for name in members] for entry in state.transcript or ()
            ],
        }
        for state in session.agents.values()
    }


def print_resumes() -> None:
    """Resume the logs of the folder in `sys.argv`, and print the reports and a sentence."""
    logs = sorted(Path(sys.argv[1]).glob("*.jsonl"))
    reports = {log.stem: resume(log) for log in logs}
    json.dump({"sentence": texts.INTERRUPTED, "reports": reports}, sys.stdout)
