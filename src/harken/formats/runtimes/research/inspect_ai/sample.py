"""A sample of Inspect AI as a session.

The main conversation is the sample's own: `messages`, with the usage, models and times of the model
events that wrote its answers. All other model events (a scorer that asks a model, an agent with its
own context) are in agents named after their spans, so each call counts once.

Source: docs/formats/inspect-ai.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from harken.core import canonical
from harken.formats.json_records import (
    Record,
    get_object,
    get_objects,
    get_text,
    to_safe_json,
    truncate_title,
)
from harken.formats.runtimes.base import ImportStep, ReadReport
from harken.formats.runtimes.evaluation import MAX_ITEMS, build_score
from harken.formats.runtimes.json_lines import normalize_time
from harken.formats.runtimes.research.inspect_ai.messages import (
    CallFacts,
    build_usage,
    expand_input,
    parse_entry,
    resolve_attachments,
)
from harken.formats.runtimes.research.inspect_ai.spans import Spans
from harken.formats.runtimes.steps import StepBuilder, StepNumbers

_NUMBERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Inspect's grades: correct, partially correct, incorrect, no answer."""
MAX_AGENTS = 200


class _SideAgent(msgspec.Struct):
    """An agent beside the conversation of the sample, and its context so far."""

    builder: StepBuilder
    context: list[Record] = []


class SampleReader(msgspec.Struct):
    """Read a sample. Lines are counted in the report of the file."""

    sample: Record
    reading: ReadReport
    """The report of the session."""
    file: ReadReport
    numbers: StepNumbers
    _events: list[Record] = []
    _pool: Sequence[Any] = ()
    _sides: dict[str, _SideAgent] = {}

    def steps(self) -> Iterator[ImportStep]:
        """Yield the steps of the sample, and of the agents beside it."""
        self.sample = resolve_attachments(self.sample, get_object(self.sample, "attachments"))
        data = get_object(self.sample, "events_data")
        pool = data.get("messages", self.sample.get("message_pool"))
        self._pool, self._sides = pool if isinstance(pool, list) else [], {}
        self._events = get_objects(self.sample, "events") or get_objects(
            get_object(self.sample, "transcript"), "events"
        )
        messages = get_objects(self.sample, "messages")
        self.file.lines += len(messages) + len(self._events)
        self._describe()
        calls = _match_calls(messages, self._events)
        for step in self._iter_steps(messages, calls):
            yield msgspec.structs.replace(step, session=self.reading.session_id)

    def _describe(self) -> None:
        reading, sample = self.reading, self.sample
        question = sample.get("input")
        if isinstance(question, str):
            reading.title = truncate_title(question)
        reading.end_time = normalize_time(sample.get("completed_at")) or ""
        limit = get_object(sample, "limit")
        reading.outcome = "completed"
        if limit:
            reading.outcome = f"limit_{get_text(limit, 'type')}"
        if isinstance(sample.get("error"), dict):
            reading.outcome = "error"
        scores = get_object(sample, "scores") or {"score": sample.get("score")}
        facts = {name: sample[name] for name in ("epoch", "target") if name in sample}
        for scorer, score in [*scores.items()][:MAX_ITEMS]:
            if not isinstance(score, dict):
                continue
            value = score.get("value")
            reading.scores.append(
                build_score(
                    scorer,
                    value,
                    _NUMBERS.get(value) if isinstance(value, str) else None,
                    sample=sample.get("id"),
                    answer=score.get("answer"),
                    explanation=score.get("explanation"),
                    metadata={**facts, **get_object(score, "metadata")},
                )
            )

    def _iter_steps(
        self, messages: Sequence[Record], calls: dict[int, int]
    ) -> Iterator[ImportStep]:
        """Yield the main conversation, then the others.

        calls: position of an event -> that of the message that it wrote.
        """
        main = StepBuilder(self.reading, numbers=self.numbers)
        events = {message: self._events[event] for event, message in calls.items()}
        times = _find_result_times(self._events)
        sums = {} if events else self._sum_usage(messages)
        steps: list[str | None] = []
        for position, message in enumerate(messages):
            event = events.get(position)
            facts = CallFacts.from_event(event) if event else sums.get(position)
            time = times.get(get_text(message, "tool_call_id"))
            if position == 0:
                time = normalize_time(self.sample.get("started_at")) or _first_time(self._events)
            entry = parse_entry(message, facts, time)
            if entry is None:
                self.file.count_uninterpreted(f"message/{get_text(message, 'role')}")
            else:
                self.file.used_lines += 1
                yield from main.add(f"m{position}", main.head, [entry])
            steps.append(main.current)
        yield from main.end()
        spans, origin = Spans(), steps[0] if steps else None
        for number, event in enumerate(self._events):
            if number in calls:
                origin = steps[calls[number]]
                self.file.used_lines += 1
            elif get_text(event, "event") == "model":
                self.file.used_lines += 1
                yield from self._read_side_call(number, spans.find_name(event), origin)
            elif spans.add(event) or get_text(event, "event") in ("score", "tool"):
                self.file.used_lines += 1
            else:
                self.file.count_uninterpreted(f"event/{get_text(event, 'event')}")
        for side in self._sides.values():
            yield from side.builder.end()

    def _sum_usage(self, messages: Sequence[Record]) -> dict[int, CallFacts]:
        """Return the usage of a log without model events: its sum, for the last answer."""
        answers = [
            position
            for position, message in enumerate(messages)
            if get_text(message, "role") == "assistant"
        ]
        models = get_object(self.sample, "model_usage")
        if not answers or len(models) != 1:
            return {}
        [(model, usage)] = models.items()
        counts = build_usage(usage) if isinstance(usage, dict) else {}
        provider, _, name = model.partition("/")
        source = {"model": name or provider, "usage": counts}
        return {answers[-1]: CallFacts(source)} if counts else {}

    def _read_side_call(self, number: int, name: str, origin: str | None) -> Iterator[ImportStep]:
        """Yield the steps of a model call beside the main conversation. `number`: its event."""
        event = self._events[number]
        if name not in self._sides and len(self._sides) >= MAX_AGENTS:
            name = next(reversed(self._sides))
        if name not in self._sides:
            builder = StepBuilder(self.reading, agent=name, origin=origin, numbers=self.numbers)
            self._sides[name] = _SideAgent(builder)
        side, given = self._sides[name], expand_input(event, self._pool)
        node, builder = f"{name} {number}", side.builder
        known = len(side.context)
        is_continued = given[:known] == side.context
        entries = [parse_entry(message) for message in (given[known:] if is_continued else given)]
        inputs = [entry for entry in entries if entry is not None]
        if is_continued:
            yield from builder.add(f"{node} in", builder.head, inputs)
        else:
            yield from builder.replace(f"{node} in", builder.head, inputs)
        choice = next(iter(get_objects(get_object(event, "output"), "choices")), {})
        answer = get_object(choice, "message") or {"role": "assistant", "content": ""}
        entry = parse_entry({**answer, "role": "assistant"}, CallFacts.from_event(event))
        if entry is not None:
            yield from builder.add(node, builder.head, [entry])
        side.context = [*given, answer]


def _match_calls(messages: Sequence[Record], events: Sequence[Record]) -> dict[int, int]:
    """Return the position of the answer that each model event wrote.

    They are compared by id, in logs without ids by content.
    """
    by_key: dict[bytes, list[int]] = {}
    for position, message in enumerate(messages):
        if get_text(message, "role") == "assistant":
            for key in _message_keys(message):
                by_key.setdefault(key, []).append(position)
    calls: dict[int, int] = {}
    taken: set[int] = set()
    for number, event in enumerate(events):
        if get_text(event, "event") != "model":
            continue
        choice = next(iter(get_objects(get_object(event, "output"), "choices")), {})
        message = get_object(choice, "message")
        candidates = [
            position for key in _message_keys(message) for position in by_key.get(key, ())
        ]
        answer = next((each for each in candidates if each not in taken), None)
        if answer is not None and message:
            calls[number] = answer
            taken.add(answer)
    return calls


def _message_keys(message: Record) -> list[bytes]:
    """Return the key of a message: its id, or its content if it has none."""
    id_ = get_text(message, "id")
    if id_:
        return [id_.encode("utf-8", "surrogatepass")]
    content = [message.get("content"), message.get("tool_calls")]
    return [b"content " + canonical.to_json_line(to_safe_json(content))]


def _find_result_times(events: Sequence[Record]) -> dict[str, str]:
    """Return the times of the results of tool calls."""
    times: dict[str, str] = {}
    for event in events:
        if get_text(event, "event") == "tool":
            time = normalize_time(event.get("completed")) or normalize_time(event.get("timestamp"))
            if time is not None:
                times[get_text(event, "id")] = time
    return times


def _first_time(events: Sequence[Record]) -> str | None:
    times = (normalize_time(event.get("timestamp")) for event in events)
    return next(filter(None, times), None)
