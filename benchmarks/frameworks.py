"""The SQLite stores of pydantic-ai's harness and of Google's ADK, and Harken's, on the same work.

Both sides take each step in turn, in one process, durable on return. A step of pydantic-ai is what
`StepPersistence` writes for a call of a tool: six events and effects, and a snapshot of the whole
history. A step of ADK is an event of the user and one of the agent, with a change of the state.
Then each is opened again, loads, and forks.

ADK is compared where it is installed: `.venv-frameworks/bin/python -m benchmarks frameworks`.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.measure import Row
from benchmarks.savers import Cost, describe_ends, measure_kilobytes, truncate_wals
from benchmarks.sessions import measure_cost
from benchmarks.stores import Words

STEPS = {"pydantic-ai": 300, "google-adk": 1000}
"""A step of pydantic-ai costs both sides more than the one before: 1,000 took more than 200 s."""
FORKS = 3


class Side:
    """A store, and the costs of its steps."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        folder.mkdir()
        self.store = self.open()
        self.steps: list[Cost] = []

    def open(self) -> Any:
        """Open the store."""
        raise NotImplementedError

    async def start(self) -> None:
        """Prepare the first step."""

    async def step(self, number: int, question: str, answer: str) -> None:
        """Write a step."""
        raise NotImplementedError

    async def load(self) -> int:
        """Load all, and return the number of items."""
        raise NotImplementedError

    async def fork(self, number: int) -> None:
        """Continue as another run or session."""
        raise NotImplementedError

    def reopen(self) -> None:
        """Close the store, and open it again."""
        if hasattr(self.store, "_own_store"):
            self.store.close()
        truncate_wals(self.folder)
        self.store = self.open()


class StepSide(Side):
    """A step store of pydantic-ai-harness."""

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(name, folder)
        self.messages: list[Any] = []

    def open(self) -> Any:
        if self.name == "Harken":
            from harken.adapters.pydantic_ai import HarkenStepStore

            return HarkenStepStore(self.folder)
        from pydantic_ai_harness.step_persistence import SqliteStepStore

        return SqliteStepStore(database=self.folder / "steps.db")

    async def step(self, number: int, question: str, answer: str) -> None:
        from pydantic_ai.messages import (
            ModelRequest,
            ModelResponse,
            TextPart,
            ToolCallPart,
            ToolReturnPart,
        )
        from pydantic_ai_harness.step_persistence import StepEvent, ToolEffectRecord

        id_, now = f"call-{number}", datetime.now(UTC)
        call = ToolCallPart("search", {"query": question[:40]}, id_)
        self.messages.append(ModelResponse(parts=[TextPart(question), call], timestamp=now))
        self.messages.append(ModelRequest(parts=[ToolReturnPart("search", answer, id_)]))

        async def work() -> None:
            kinds: list[Any] = ["model_request_started", "model_request_completed"]
            kinds += ["tool_call_started", "tool_call_completed"]
            statuses: list[Any] = [None, None, "started", "completed"]
            for index, (kind, status) in enumerate(zip(kinds, statuses, strict=True)):
                if status is not None:
                    effect = ToolEffectRecord(
                        tool_call_id=id_, tool_name="search", run_id="r", status=status
                    )
                    await self.store.record_tool_effect(effect)
                event = StepEvent(
                    run_id="r",
                    kind=kind,
                    step_index=number,
                    conversation_id="c",
                    idempotency_key=f"{4 * number + index}:{number}:{kind}:{id_}",
                )
                await self.store.append_event(event)
            await self.store.save_snapshot(self.snapshot("r", number))

        self.steps.append(await measure_cost(work()))

    def snapshot(self, run_id: str, number: int) -> Any:
        from pydantic_ai_harness.step_persistence import ContinuableSnapshot

        return ContinuableSnapshot(
            run_id=run_id,
            step_index=number,
            messages=[*self.messages],
            conversation_id="c",
            idempotency_key=f"{number}:{number}:complete",
        )

    async def load(self) -> int:
        snapshot = await self.store.latest_snapshot(run_id="r")
        return len(snapshot.messages)

    async def fork(self, number: int) -> None:
        await self.store.save_snapshot(self.snapshot(f"fork-{number}", 0))


class SessionSide(Side):
    """A session service of ADK."""

    def open(self) -> Any:
        if self.name == "Harken":
            from harken.adapters.google_adk import HarkenSessionService

            return HarkenSessionService(self.folder)
        from google.adk.sessions.sqlite_session_service import SqliteSessionService

        return SqliteSessionService(str(self.folder / "sessions.db"))

    async def start(self) -> None:
        self.session = await self.store.create_session(
            app_name="a", user_id="u", session_id="s", state={"city": "Rome"}
        )

    async def step(self, number: int, question: str, answer: str) -> None:
        from google.adk.events.event import Event
        from google.adk.events.event_actions import EventActions
        from google.genai import types

        events = [
            Event(
                invocation_id=str(number),
                author=author,
                content=types.Content(role=role, parts=[types.Part(text=words)]),
                actions=EventActions(state_delta=delta),
            )
            for author, role, words, delta in (
                ("user", "user", question, {}),
                ("guide", "model", answer, {"step": number}),
            )
        ]

        async def work() -> None:
            for event in events:
                await self.store.append_event(self.session, event)

        self.steps.append(await measure_cost(work()))

    async def load(self) -> int:
        session = await self.store.get_session(app_name="a", user_id="u", session_id="s")
        return len(session.events)

    async def fork(self, number: int) -> None:
        session = await self.store.get_session(app_name="a", user_id="u", session_id="s")
        if hasattr(self.store, "fork_session"):
            await self.store.fork_session(session, f"fork-{number}")
            return
        copy = await self.store.create_session(
            app_name="a", user_id="u", session_id=f"fork-{number}", state=session.state
        )
        for event in session.events:
            await self.store.append_event(copy, event.model_copy())


def rows() -> list[Row]:
    """Measure the frameworks that are installed."""
    measured: list[Row] = []
    frameworks: list[tuple[str, str, str, Callable[[str, Path], Side]]] = [
        ("pydantic_ai_harness", "pydantic-ai", "SqliteStepStore", StepSide),
        ("google.adk", "google-adk", "SqliteSessionService", SessionSide),
    ]
    for package, label, name, build in frameworks:
        root = package.partition(".")[0]
        if find_spec(root) is None or find_spec(package) is None:
            measured.append(Row(f"{label}: not measured", "-", note=f"{package} is not installed"))
            continue
        with tempfile.TemporaryDirectory() as folder:
            sides = [build("Harken", Path(folder) / "h"), build(name, Path(folder) / "o")]
            measured += asyncio.run(_collect(label, sides))
    return measured


async def _collect(label: str, sides: list[Side]) -> list[Row]:
    figures: dict[str, list[str]] = {}
    async for what, side, form in _compare(sides, STEPS[label]):
        figures.setdefault(what, []).append(f"{side.name} {form}")
    return [Row(f"{label}: {what}", "; ".join(values)) for what, values in figures.items()]


async def _compare(sides: list[Side], steps: int) -> AsyncIterator[tuple[str, Side, str]]:
    words = Words()
    for side in sides:
        await side.start()
    for number in range(steps):
        (_, question), (_, answer) = words.step()
        for side in sides if number % 2 else sides[::-1]:
            await side.step(number, question, answer)
    for side in sides:
        side.reopen()
        before = measure_kilobytes(side.folder)
        yield "KB on disk", side, f"{before:,.0f}"
        for when, form in describe_ends(side.steps):
            yield when, side, form
        loads = [await measure_cost(side.load()) for _ in range(5)]
        again = median(cost.cpu_ms for cost in loads[1:])
        yield "CPU ms to load, first and again", side, f"{loads[0].cpu_ms:.1f}, {again:.1f}"
        forks = [await measure_cost(side.fork(number)) for number in range(FORKS)]
        yield "CPU ms to fork", side, f"{median(cost.cpu_ms for cost in forks):.1f}"
        side.reopen()
        size = (measure_kilobytes(side.folder) - before) / FORKS
        yield "KB of a fork", side, f"{size:.1f}"
