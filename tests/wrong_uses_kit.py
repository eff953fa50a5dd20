"""Helpers for tests of wrong uses: a session with a root agent, and mistakes with it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import pytest

import harken
import harken.errors
from harken.agents.agent import log_birth

PACKAGES = [
    harken,
    *(
        import_module(f"harken.{name}")
        for name in (
            *("agents", "context", "formats", "interactions", "llm"),
            *("recording", "session", "store", "world"),
        )
    ),
]
EXPORTS = {name: getattr(package, name) for package in PACKAGES for name in package.__all__}
H: Any = SimpleNamespace(**vars(harken.errors) | EXPORTS)
"""All public names without their types: type checkers refuse most of these mistakes, programs do not."""
NO_SYNC = H.SessionOptions(durability="none")
WrongUse: TypeAlias = tuple[Callable[["Stage"], object], type[Exception], str]


def weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"It rains in {city}."


def undescribed(city: str) -> str:
    return city


def untyped(city):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Tell the weather of a city."""
    return city


def forecasts(city: str) -> Iterator[str]:
    """Yield forecasts."""
    yield city


async def later_forecasts(city: str) -> AsyncIterator[str]:
    """Yield forecasts."""
    yield city


@dataclass
class Stage:
    """A session with a root agent, and objects for wrong uses."""

    folder: Path

    @property
    def model(self) -> Any:
        return H.ScriptedModel([{"answer": "Hi"}])

    def load(self, **more: Any) -> tuple[Any, Any]:
        more = {"model": self.model, "options": NO_SYNC, "name": "main", **more}
        root, session = H.load_session(self.folder / "stage.jsonl", **more)
        return root, session

    @property
    def root(self) -> Any:
        return self.load()[0]

    def closed_root(self) -> Any:
        root, session = self.load()
        session.close()
        return root

    def unregistered_agent(self, kind: Any = H.SmartAgent) -> Any:
        root, session = self.load()
        return kind(session, "You are Ann.", runtime=root.runtime)

    def install(self, kind: Any) -> Any:
        root, session = self.load()
        return kind(session, runtime=root.runtime).install(root)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def ok(self: Any, question: Any) -> Any:
    del self, question
    return H.Ok()


def hook_class(name: str, **members: Any) -> Any:
    """Return a registered class of hooks."""
    return H.register_agent_class(name)(type(name.title(), (H.Hook,), members))


def ask(agent: Any, value: Any) -> object:
    return asyncio.run(agent.response(value))


def harken_unawaited(agent: Any) -> None:
    answer = agent.response("Hi")
    try:
        agent.harken(answer)
    finally:
        answer.close()


def log_birth_twice(stage: Stage) -> None:
    log_birth(stage.root, name="main")


def start_late(stage: Stage) -> None:
    root = stage.root
    ask(root, "Hi")
    H.start_from_commit(root, "ctx-0123")


def check_error(stage: Stage, row: WrongUse) -> None:
    """Check the type and the text of the error of a wrong use."""
    use, error, text = row
    with pytest.raises(error) as caught:
        use(stage)
    message = " ".join(str(caught.value).split())
    assert re.search(text, message), message
