"""A discussion of many speakers over many rounds: what each utterance costs that somebody hears.

Everybody hears everybody, so a round of n speakers is n * (n - 1) utterances delivered, and as many
prompts. The cost of each must not grow with what was said before.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.measure import RUNS, Row, median, spread
from harken import AgentRuntime, SessionOptions, load_session
from harken.core.canonical import to_json_line
from harken.core.stream import Chunk, Finish, TextDelta, ToolCallDelta
from harken.llm.base import ModelRequest

SPEAKERS, ROUNDS = 20, 50
SAID = "I see what you mean, and I would still say that the other way round is the shorter one. "
HEARD = SPEAKERS * (SPEAKERS - 1) + SPEAKERS
"""Utterances and prompts that are heard in a round."""


@dataclass(slots=True)
class Talkers:
    """Plays the convener, who makes the speakers and lets them talk, and all the speakers."""

    log: Path
    name: str = "talkers"
    marks: list[tuple[float, int]] = field(default_factory=list)
    """CPU seconds and bytes of the log before each round, and after the last."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Answer without thinking."""
        if request.agent != "main":
            yield TextDelta(SAID)
            yield Finish(stop_reason="end_turn")
            return
        names = [f"speaker {number}" for number in range(SPEAKERS)]
        if len(request.messages) == 2:  # the system prompt, and what it shall do
            for at, name in enumerate(names):
                arguments = to_json_line({"name": name, "instructions": "Discuss."}).decode()
                yield ToolCallDelta(at, arguments, f"t{at}", "task")
            yield Finish(stop_reason="tool_use")
            return
        self.marks.append((time.process_time(), self.log.stat().st_size))
        if len(self.marks) > ROUNDS:
            yield TextDelta("Done.")
            yield Finish(stop_reason="end_turn")
            return
        arguments = to_json_line({"prompt": "What do you think?", "speakers": names}).decode()
        yield ToolCallDelta(0, arguments, f"d{len(self.marks)}", "discuss")
        yield Finish(stop_reason="tool_use")


@dataclass(frozen=True, slots=True)
class Talk:
    """What one discussion took."""

    cpu_s: float
    """Of an utterance that somebody heard."""
    size_bytes: float
    """In the log, the same."""
    cpu_flat: float
    """CPU of the second half of the rounds over that of the first."""
    log_flat: float
    """Bytes of the second half over those of the first."""


def talk() -> Talk:
    """Hold one discussion."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.jsonl"
        model = Talkers(log)
        options = SessionOptions(durability="none")
        root, session = load_session(
            log,
            runtime=AgentRuntime(model=model),
            system_prompt="Convene.",
            name="main",
            options=options,
        )
        with session:
            asyncio.run(root.response("Discuss."))
    half = ROUNDS // 2
    (cpu_a, log_a), (cpu_b, log_b), (cpu_c, log_c) = (model.marks[at] for at in (0, half, -1))
    heard = HEARD * ROUNDS
    return Talk(
        (cpu_c - cpu_a) / heard,
        (log_c - log_a) / heard,
        (cpu_c - cpu_b) / (cpu_b - cpu_a),
        (log_c - log_b) / (log_b - log_a),
    )


def rows() -> list[Row]:
    """Measure it several times."""
    talks = [talk() for _ in range(RUNS)]
    what = f"discussion, {SPEAKERS} speakers, {ROUNDS} rounds"
    each = median([one.cpu_s for one in talks]) * HEARD * ROUNDS
    return [
        Row(
            f"{what}: CPU µs an utterance heard",
            spread([t.cpu_s for t in talks], 1e6, 1),
            "",
            f"{each:.1f} s in all",
        ),
        Row(
            f"{what}: bytes of log an utterance heard", spread([t.size_bytes for t in talks], 1, 0)
        ),
        Row(
            f"{what}: CPU, second half / first", spread([t.cpu_flat for t in talks], 1, 2), "< 1.2"
        ),
        Row(
            f"{what}: bytes, second half / first",
            spread([t.log_flat for t in talks], 1, 2),
            "< 1.1",
        ),
    ]
