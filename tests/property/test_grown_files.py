"""Reading on from a read point is the same as reading from the beginning."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.formats.runtimes.base import ReadReport, StepReader
from harken.formats.runtimes.claude_code.reader import iter_steps as iter_claude_steps
from harken.formats.runtimes.codex.reader import iter_steps as iter_codex_steps
from harken.formats.runtimes.copilot_cli.reader import iter_steps as iter_copilot_steps
from harken.formats.runtimes.gemini_cli.reader import iter_steps as iter_gemini_steps
from harken.formats.runtimes.pi.reader import iter_steps as iter_pi_steps
from harken.formats.runtimes.read_point import ReadTotals
from tests.unit.formats.grown_reading_kit import check_growth
from tests.unit.formats.grown_session_kit import copilot_session, gemini_chat, pi_session
from tests.unit.formats.transcript_kit import (
    Transcript,
    text_block,
    tool_result_block,
    tool_use_block,
)


class Writer:
    """Writes a random transcript."""

    def __init__(self, seed: int) -> None:
        self.rng, self.made = random.Random(seed), Transcript()
        self.uuids: list[str] = []
        self.calls = 0
        self.rewinds = self.rng.choice([0.02, 0.1, 0.4])
        """The share of records that follow an older one."""

    def add(self) -> None:
        """Add some records."""
        rng, made = self.rng, self.made
        options: dict[str, Any] = {}
        if self.uuids and rng.random() < self.rewinds:
            options["parent"] = rng.choice(self.uuids[-rng.choice([3, 10, 1000]) :])
        match rng.choices(range(11), [30, 30, 20, 5, 3, 3, 3, 2, 2, 5, 5])[0]:
            case 0:
                self.note(made.user(f"prompt {len(made.records)}", **options))
                self.note(made.answer(text_block("Yes.")))
            case 1:
                self.call()
            case 2:
                for _ in range(2):
                    self.note(made.answer(text_block("So."), id=f"m{self.calls}", **options))
            case 3:
                self.note(made.add("progress", data={}, **options))
            case 4:
                made.records.append({"type": "summary", "summary": f"Title {len(made.records)}"})
            case 5:
                kept = rng.sample(self.uuids, 1) if self.uuids and rng.random() < 0.5 else []
                self.note(made.boundary(self.uuids[-1] if self.uuids else "x", kept=kept))
                self.note(made.summary())
            case 6:
                side: dict[str, Any] = {"isSidechain": True, "agentId": rng.choice(["ann", "bob"])}
                self.note(made.user("You are.", **side, **options))
                self.note(made.answer(text_block("I am."), **side))
            case 7 if made.records:
                made.records.append(rng.choice(made.records))
            case 8:
                self.note(made.user(f"prompt {len(made.records)}", **options))
            case 9 if self.uuids:  # A late result, also of an answer with results.
                self.note(made.result("late", "ok", parent=rng.choice(self.uuids[-12:])))
            case 10 if self.calls:  # A late block of an answer.
                late = f"m{rng.randrange(max(0, self.calls - 5), self.calls) + 1}"
                parent = rng.choice(self.uuids[-12:])
                self.note(made.answer(text_block("Late."), id=late, parent=parent))
            case _:
                made.records.append({"type": "result", "subtype": rng.choice(["success", "error"])})

    def call(self) -> None:
        """Add calls of one response, with results between them or after them."""
        rng, made = self.rng, self.made
        self.calls += 1
        count, results = rng.randrange(1, 4), list[Callable[[], str]]()
        for number in range(count):
            call = f"c{self.calls}-{number}"
            uuid = made.answer(tool_use_block(call), id=f"m{self.calls}")
            self.note(uuid)
            results.append(partial(made.result, call, "ok", parent=uuid))
            if rng.random() < 0.4:
                self.note(results.pop(0)())
        for result in results[: rng.randrange(len(results) + 1) if results else 0]:
            self.note(result())
        if rng.random() < 0.1:
            self.note(made.user([tool_result_block("other", "late"), text_block("and")]))

    def note(self, uuid: str) -> None:
        self.uuids.append(uuid)

    def data(self, count: int) -> bytes:
        """Return a transcript, with some damaged lines and some in another order."""
        for _ in range(count):
            self.add()
        rng, lines = self.rng, [json.dumps(record).encode() for record in self.made.records]
        for _ in range(rng.choice([0, 0, 1, 3])):
            at = rng.randrange(len(lines))
            lines.insert(rng.randrange(max(0, at - 3), at + 1), lines.pop(at))
        for _ in range(rng.choice([0, 0, 2])):
            at = rng.randrange(len(lines))
            lines[at] = rng.choice([b"", b"{torn", lines[at] + lines[at - 1], b'{"type":"x"}'])
        return b"\n".join(lines) + b"\n"


ITEMS: list[dict[str, Any]] = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello"}]},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]},
    {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c"},
    {"type": "function_call_output", "call_id": "c", "output": "Output:\nok"},
    {"type": "reasoning", "summary": [], "encrypted_content": "x"},
]


def rollout(seed: int, count: int) -> bytes:
    """Return a random rollout."""
    rng, lines = random.Random(seed), list[bytes]()
    header = {"id": "0199", "cwd": "/", "base_instructions": {"text": "Be kind."}}
    records: list[tuple[str, dict[str, Any]]] = []
    if rng.random() < 0.8:
        records.append(("session_meta", header))
    for number in range(count):
        kind = rng.choices(range(7), [60, 10, 4, 4, 2, 2, 2])[0]
        tokens = {"input_tokens": 10 * number, "output_tokens": number}
        usage = {"total_token_usage": tokens, "last_token_usage": tokens}
        records.append(
            [
                ("response_item", rng.choice(ITEMS)),
                ("event_msg", {"type": "token_count", "info": usage}),
                ("turn_context", {"model": f"m{number}"}),
                ("event_msg", {"type": "thread_rolled_back", "num_turns": rng.randrange(4)}),
                ("compacted", {"message": f"So far {number}."}),
                ("compacted", {"message": "So.", "replacement_history": ITEMS[:2]}),
                ("event_msg", {"type": "collab_agent_spawn_end", "new_thread_id": f"a{number}"}),
            ][kind]
        )
    for number, (kind_, payload) in enumerate(records):
        time = f"2026-01-31T12:{number // 60 % 60:02d}:{number % 60:02d}.000Z"
        record = {"timestamp": time, "type": kind_, "payload": payload}
        lines.append(json.dumps(record).encode())
    if rng.random() < 0.3:
        at = rng.randrange(len(lines))
        lines[at] = rng.choice([b"", b"{torn", lines[at] + lines[at - 1]])
    return b"\n".join(lines) + b"\n"


def some_ends(data: bytes, rng: random.Random) -> list[int]:
    """Return ends of lines that follow each other, and random offsets."""
    line_ends = [at + 1 for at, byte in enumerate(data) if byte == 10]
    start = rng.randrange(len(line_ends))
    near = line_ends[start : start + 12]
    return [*near, *(rng.randrange(1, len(data)) for _ in range(3)), len(data)]


KINDS: dict[str, tuple[Callable[[int, int], bytes], StepReader]] = {
    "claude": (lambda seed, count: Writer(seed).data(count), iter_claude_steps),
    "codex": (rollout, iter_codex_steps),
    "pi": (pi_session, iter_pi_steps),
    "copilot": (copilot_session, iter_copilot_steps),
    "gemini": (gemini_chat, iter_gemini_steps),
}


def check_random(kind: str, seed: int, count: int) -> int:
    write, reader = KINDS[kind]
    data = write(seed, count)
    return check_growth(reader, data, some_ends(data, random.Random(seed)))


@given(st.sampled_from([*KINDS]), st.integers(0, 10**9))
def test_growth_equals_reading_from_the_beginning(kind: str, seed: int) -> None:
    check_random(kind, seed, 40)


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_growth_of_hundreds_of_files(kind: str) -> None:
    assert sum(check_random(kind, seed, 30 + seed % 50) for seed in range(600)) > 3000


@pytest.mark.parametrize("kind", KINDS)
def test_read_points_of_ordinary_files_are_used(kind: str) -> None:
    uses = sum(check_random(kind, seed, 60) for seed in range(20))
    assert uses > 100


@pytest.mark.parametrize(("kind", "count", "seeds"), [("claude", 600, 4), ("pi", 700, 3)])
def test_long_transcript_refers_to_older_records_than_the_state_has(
    kind: str, count: int, seeds: int
) -> None:
    assert sum(check_random(kind, seed, count) for seed in range(seeds)) > 2 * seeds


def test_totals_have_each_member_of_a_report() -> None:
    private = {"offset", "extra", "is_joined", "size_bytes", "point", "sessions"}
    members = {*ReadReport.__struct_fields__} - private
    assert members == {*ReadTotals.__struct_fields__}
    several = ReadReport(size_bytes=10, sessions=[ReadReport()])
    assert not several.needs_point(9)
    assert ReadReport(size_bytes=10).needs_point(9)
