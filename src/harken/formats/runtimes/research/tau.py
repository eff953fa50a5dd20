"""Results of tau-bench and tau2-bench: simulations of a conversation of an agent with a user.

A file has many simulations; each is a session. The main conversation is the agent's. The simulated
user is an agent, too: it writes what the agent reads as user messages, and may call tools.

Source: docs/formats/tau-bench.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from harken.core import canonical
from harken.core.messages import FunctionCall, Message, TextPart, ToolCall
from harken.errors import FormatError
from harken.formats.base import ConversationEntry
from harken.formats.json_records import (
    Record,
    as_objects,
    get_object,
    get_objects,
    get_text,
    to_safe_json,
    truncate_title,
)
from harken.formats.runtimes.base import ImportStep, ReadReport, RuntimeFormat, SessionFile
from harken.formats.runtimes.evaluation import build_score
from harken.formats.runtimes.json_lines import normalize_time, read_json
from harken.formats.runtimes.research.documents import add_unique, digest_id, parse_message
from harken.formats.runtimes.steps import (
    INSTRUCTIONS,
    PROMPT,
    REPEATS,
    SYSTEM,
    StepBuilder,
    StepNumbers,
)
from harken.formats.tool_calls import build_assistant_message

NAME = "tau-bench-v2"
USER = "user"
"""The agent that simulates the user."""
_RESULTS_PATTERN = re.compile(rb'"simulations"\s*:\s*\[')
_ONE_PATTERN = re.compile(rb'"task_id"\s*:')
_FIRST_PATTERN = re.compile(rb'\s*\[\s*\{\s*"task_id"\s*:')
_KINDS = {"system": INSTRUCTIONS, "assistant": "response", "tool": "tool_result"}


def is_session_file(path: str, beginning: bytes) -> bool:
    """Whether a file has results of either version, or one simulation."""
    del path
    if _FIRST_PATTERN.match(beginning):
        return b'"traj"' in beginning or b'"reward"' in beginning
    if not beginning.lstrip().startswith(b"{"):
        return False
    is_results = b'"info"' in beginning and b'"tasks"' in beginning
    is_one = bool(_ONE_PATTERN.search(beginning)) and b'"termination_reason"' in beginning
    return (
        is_one
        or bool(_RESULTS_PATTERN.search(beginning))
        or (is_results and b'"user_sc' in beginning)
    )


def iter_steps(source: SessionFile, reading: ReadReport) -> Iterator[ImportStep]:
    """Yield the steps of all simulations. Raises FormatError."""
    document = read_json(source, NAME)
    info: Record = {}
    if isinstance(document, dict) and "simulations" in document:
        info, simulations = get_object(document, "info"), get_objects(document, "simulations")
    else:
        simulations = as_objects(document) if isinstance(document, list) else [document]
    if not any(isinstance(run, dict) and _messages_of(run) for run in simulations):
        reason = "it has no messages"
        if any(isinstance(run, dict) and run.get("ticks") for run in simulations):
            reason = "it is a full-duplex simulation: its ticks have audio, and no messages"
        raise FormatError(NAME, reason)
    reading.session_id = digest_id(info or [run.get("id") for run in simulations])
    reading.version = get_text(info, "git_commit")
    numbers, ids = StepNumbers(), set[str]()
    for run in simulations:
        messages = _messages_of(run)
        reading.lines += 1
        if not messages:
            reading.count_uninterpreted("simulation without messages")
            continue
        reading.used_lines += 1
        report = _describe(run, messages, ids)
        reading.sessions.append(report)
        simulation = _Simulation(report, messages, _find_models(info), numbers)
        for step in simulation.steps():
            yield msgspec.structs.replace(step, session=report.session_id)


def _messages_of(run: Record) -> list[Record]:
    return get_objects(run, "messages") or get_objects(run, "traj")


def _find_models(info: Record) -> dict[str, str]:
    """Return the models of the agent and of the user."""
    return {
        "assistant": get_text(get_object(info, "agent_info"), "llm"),
        USER: get_text(get_object(info, "user_info"), "llm"),
    }


def _describe(run: Record, messages: Sequence[Record], ids: set[str]) -> ReadReport:
    """Return the report of a simulation, with a name that no other one of the file has."""
    task = run.get("task_id")
    name = get_text(run, "id") or f"task-{task}-{run.get('trial', 0)}-{digest_id(messages)}"
    report = ReadReport(
        session_id=add_unique(name, ids), outcome=get_text(run, "termination_reason")
    )
    report.end_time = normalize_time(_with_zone(run.get("end_time"))) or ""
    first = next((m for m in messages if get_text(m, "role") == USER), {})
    report.title = truncate_title(get_text(first, "content"))
    reward_info = get_object(run, "reward_info")
    reward = reward_info.get("reward", run.get("reward"))
    metadata = {key: run[key] for key in ("trial", "seed") if key in run}
    if reward is not None:
        parts = {key: value for key, value in reward_info.items() if key != "reward"}
        report.scores.append(
            build_score("reward", reward, sample=task, metadata={**metadata, **parts})
        )
    for part, value in get_object(reward_info, "reward_breakdown").items():
        report.scores.append(build_score(f"reward/{part}", value, sample=task, metadata=metadata))
    return report


class _Simulation(msgspec.Struct):
    """The conversation of a simulation, from the views of the agent and of the user."""

    reading: ReadReport
    messages: Sequence[Record]
    models: Mapping[str, str]
    numbers: StepNumbers

    def steps(self) -> Iterator[ImportStep]:
        """Yield the steps of the agent, and then those of the user."""
        agent = StepBuilder(self.reading, numbers=self.numbers)
        origin: str | None = None
        for position, message in enumerate(self.messages):
            entry = self._agent_entry(message)
            if entry is not None:
                yield from agent.add(f"a{position}", agent.head, [entry])
                origin = origin or agent.current
        yield from agent.end()
        user = StepBuilder(self.reading, agent=USER, origin=origin, numbers=self.numbers)
        for position, message in enumerate(self.messages):
            entry = self._user_entry(message)
            if entry is not None:
                yield from user.add(f"u{position}", user.head, [entry])
        yield from user.end()

    def _agent_entry(self, message: Record) -> ConversationEntry | None:
        """Return a message as the agent reads or writes it. Return None if it does neither."""
        role = get_text(message, "role")
        if role == USER:
            text = get_text(message, "content")
            source: dict[str, Any] = {"kind": PROMPT, REPEATS: True}
            return (
                ConversationEntry(Message("user", text), _time(message), source) if text else None
            )
        if get_text(message, "requestor") == USER:
            return None
        parsed = _parse(message)
        if parsed is None:
            return None
        source = {"kind": _KINDS.get(role, SYSTEM)}
        return ConversationEntry(parsed, _time(message), {**source, **self._usage(message)})

    def _user_entry(self, message: Record) -> ConversationEntry | None:
        """Return a message as the simulated user reads or writes it."""
        role = get_text(message, "role")
        if role == "assistant":
            text = get_text(message, "content")
            source: dict[str, Any] = {"kind": SYSTEM, REPEATS: True}
            heard = Message("user", text, name="assistant")
            return ConversationEntry(heard, _time(message), source) if text else None
        is_own_result = role == "tool" and get_text(message, "requestor") == USER
        if role != USER and not is_own_result:
            return None
        parsed = _parse({**message, "role": "assistant"} if role == USER else message)
        source = {"kind": "response" if role == USER else "tool_result", REPEATS: False}
        if parsed is None:
            return None
        return ConversationEntry(parsed, _time(message), {**source, **self._usage(message)})

    def _usage(self, message: Record) -> dict[str, Any]:
        """Return the model and the usage of a message that a model wrote."""
        role = get_text(message, "role")
        if role not in ("assistant", USER):
            return {}
        usage = dict(get_object(message, "usage"))
        cost = message.get("cost")
        if isinstance(cost, int | float) and not isinstance(cost, bool) and cost > 0:
            usage["cost_usd"] = cost
        facts = {"model": self.models.get(role, ""), "usage": to_safe_json(usage)}
        return {name: value for name, value in facts.items() if value}


def _parse(message: Record) -> Message | None:
    """Parse a message of either version: tau2 has calls and results of its own form."""
    calls = get_objects(message, "tool_calls")
    if get_text(message, "role") == "tool" and not get_text(message, "tool_call_id"):
        content = message.get("content")
        return Message(
            "tool",
            content if isinstance(content, str) else None,
            tool_call_id=get_text(message, "id"),
            is_error=message.get("error") is True,
        )
    if any("function" not in call for call in calls):
        text = get_text(message, "content")
        parts = [TextPart(text)] if text else []
        return build_assistant_message([*parts, *map(_parse_call, calls)])
    return parse_message(message)


def _parse_call(call: Record) -> ToolCall:
    arguments = canonical.to_json_line(to_safe_json(get_object(call, "arguments"))).decode()
    return ToolCall(get_text(call, "id"), FunctionCall(get_text(call, "name"), arguments))


def _time(message: Record) -> str | None:
    return normalize_time(_with_zone(message.get("timestamp")))


def _with_zone(value: Any) -> Any:
    """Return a time with a zone: these times have none, and are taken for UTC."""
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+", value):
        return f"{value}Z"
    return value


NATIVE = RuntimeFormat(
    name=NAME,
    runtime="tau",
    is_session_file=is_session_file,
    steps=iter_steps,
    copies_histories=False,
)
