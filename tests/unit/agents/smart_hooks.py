"""A stage whose root is watched by smart hooks, and models that follow what they are asked."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from harken import Agent, AgentRuntime, FunctionModel, LocalWorld
from harken.agents.action_schemas import ACTIONS
from harken.agents.agent_classes import get_agent_class
from harken.agents.runtime import ActionPolicy
from harken.agents.smart_agent import SmartAgent
from harken.agents.tree.hook_action import new_hook
from harken.core.event_types.spec import AgentSpec, HookPoint
from harken.core.messages import ChatMessage, text_of
from harken.llm.base import ModelRequest
from tests.agent_kit import Stage, call, call_message, open_stage
from tests.unit.agents.hook_kit import send

Says: TypeAlias = Callable[[ModelRequest], Any]


def last(request: ModelRequest) -> ChatMessage:
    """Return what a model reads last."""
    return request.messages[-1]


def texts(request: ModelRequest) -> list[str]:
    return [text_of(message.content) for message in request.messages]


class Cast:
    """A model of several agents: what each says follows from the request; all are remembered."""

    def __init__(self, **parts: Says) -> None:
        self.parts, self.asked = parts, list[ModelRequest]()

    def model(self) -> FunctionModel:
        return FunctionModel(self._answer, "cast")

    def _answer(self, request: ModelRequest) -> Any:
        self.asked.append(request)
        return self.parts[request.agent](request)

    def read_by(self, agent: str) -> list[list[str]]:
        """Return the texts of each request of an agent."""
        return [texts(request) for request in self.asked if request.agent == agent]


def sends(request: ModelRequest) -> Any:
    """Send a text, once, whatever is asked; then say so."""
    others = [one for one in request.messages if not text_of(one.content).startswith("[hook")]
    if others[-1].role == "user":
        return call_message(call("send", f"c{len(request.messages)}", text="hello"))
    return "Done."


def always(*said: Any) -> Says:
    """Say the same to every question; after that, one after the other, what follows."""

    def says(request: ModelRequest) -> Any:
        asked = max(
            at
            for at, text in enumerate(texts(request))
            if text.startswith("[") and is_question(text)
        )
        at = sum(message.role == "assistant" for message in request.messages[asked:])
        return said[at]

    return says


def is_question(text: str) -> bool:
    return text.startswith(("[input]", "[action]", "[result]", "[response]"))


def guarded(folder: Path, cast: Cast, **more: Any) -> Stage:
    """Return a stage of `main`, which has `send`."""
    runtime = AgentRuntime(
        model=cast.model(), world=LocalWorld([send]), policy=ActionPolicy(actions=ACTIONS)
    )
    return open_stage(folder, cast.model(), runtime=runtime, **more)


def guard(
    one: Stage,
    name: str = "guard",
    *,
    points: Sequence[HookPoint] | None = ("action",),
    tools: Sequence[str] = (),
    spec: AgentSpec | None = None,
) -> Agent:
    """Install a smart hook on the root."""
    assert isinstance(one.root, get_agent_class("smart", one.runtime.library))
    assert isinstance(one.root, SmartAgent)
    hook = new_hook(one.root, "You watch.", points=points, tools=tools, spec=spec)
    return hook.install(one.root, name)
